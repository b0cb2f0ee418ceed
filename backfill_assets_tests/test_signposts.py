"""Signposts lead somewhere: what a module's docstring points to exists, in this room or the one that it names.

Tested here: the names in parentheses behind "Does not live here", which a reader follows. Not tested here: whether
they are the right ones, and other names in backticks (settings, tables, columns).
"""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache

import pytest

from backfill_assets_tests.sources import PACKAGE, Source, sources

ELSEWHERE = re.compile(r"not\s+live\s+here:(?P<text>.*?)(?:\.\s|\.?\Z)", re.DOTALL)  # that sentence
NAME = re.compile(r"`([a-z_]+(?:\.\w+)*)`")
SIGNPOST = re.compile(rf"\(({NAME.pattern}(?:,\s(?:and\s)?{NAME.pattern})*)\)")  # nothing but names in parentheses
TO_BE_CORRECTED = {"backfill_assets/landing/mapping.py: `deliveries`"}  # it is `load.deliveries`


def pointed_to(sign: str) -> Iterator[str]:
    """The names that a sign points to."""
    for elsewhere in ELSEWHERE.finditer(sign):
        for signpost in SIGNPOST.finditer(elsewhere["text"]):
            yield from NAME.findall(signpost[1])


def exists(name: str, source: Source) -> bool:
    """Whether it is a room, a module of this room or, with its room in front, of another one, or a name in a module.

    Modules of Python's own are there."""
    if name.split(".")[0] in sys.stdlib_module_names - {"select"}:
        return True
    rooms = [PACKAGE, ".".join(source.module.split(".")[:-1]), ".".join(source.module.split(".")[:2])]
    return any(_is_in(room, name.split(".")) for room in rooms)


@cache
def _known() -> dict[str, Source]:
    return {s.module: s for s in sources(PACKAGE)}


def _is_in(room: str, parts: list[str]) -> bool:
    known, place = _known(), room
    for number, part in enumerate(parts):
        if f"{place}.{part}" not in known:
            return number > 0 and parts[number:] == [n for n in parts[number:] if n in _defined(known[place])]
        place = f"{place}.{part}"
    return True


def _defined(source: Source) -> set[str]:
    return {n.name for n in source.of(ast.ClassDef)} | {n.name for n in source.of(ast.FunctionDef)}


def test_what_a_sign_points_to_is_there() -> None:
    lost = {
        f"{s.place}: `{name}`"
        for s in sources(PACKAGE)
        for name in pointed_to(ast.get_docstring(s.tree) or "")
        if not exists(name, s)
    }
    assert lost - TO_BE_CORRECTED == set()
    assert TO_BE_CORRECTED - lost == set(), "these lead somewhere now: take them off the list"


@pytest.mark.parametrize(
    ("sign", "names"),
    [
        ("Lives here: a. Does not\nlive here: reading (`log`), commits (`lake.committer.commit_files`).",
         ["log", "lake.committer.commit_files"]),
        ("Lives here: the table (`arrivals`). Does not live here: more (the rows of `raw`).\nWhy (`because`).", []),
    ],
)  # fmt: skip
def test_only_names_behind_does_not_live_here_are_signposts(sign: str, names: list[str]) -> None:
    assert list(pointed_to(sign)) == names
