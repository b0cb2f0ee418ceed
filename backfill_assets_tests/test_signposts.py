"""Signposts lead somewhere: what a module's docstring points to exists, in this room or the one that it names.

Tested here: the names in parentheses behind "Not here", "Elsewhere" or "Does not live here", which a reader follows,
and every file of tests that a docstring or a comment names. Not tested here: whether they are the right ones, and other
names in backticks (settings, tables, columns).
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Collection, Iterator
from functools import cache

import pytest

from backfill_assets_tests.sources import PACKAGE, TESTS, Source, sources

ELSEWHERE = re.compile(  # that sentence
    r"\b(?:not\s+(?:live\s+)?here|elsewhere):(?P<text>.*?)(?:\.\s|\.?\Z)", re.DOTALL | re.IGNORECASE
)
NAME = re.compile(r"`([a-z_]+(?:\.\w+)*)`")
SIGNPOST = re.compile(rf"\(({NAME.pattern}(?:,\s(?:and\s)?{NAME.pattern})*)\)")  # nothing but names in parentheses


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
    assert lost == set()


@pytest.mark.parametrize(
    ("sign", "names"),
    [
        ("Lives here: a. Does not\nlive here: reading (`log`), commits (`lake.committer.commit_files`).",
         ["log", "lake.committer.commit_files"]),
        ("Not here: a\nday (`judging`), plans (`plan_gate`, and `plan`). Elsewhere: rows (`core.view`).",
         ["judging", "plan_gate", "plan", "core.view"]),
        ("Lives here: the table (`arrivals`). Does not live here: more (the rows of `raw`).\nWhy (`because`).", []),
    ],
)  # fmt: skip
def test_only_names_behind_not_here_and_elsewhere_are_signposts(sign: str, names: list[str]) -> None:
    assert list(pointed_to(sign)) == names


TEST_FILE = re.compile(r"(?<![\w./])(?:(?P<room>\w+(?:[./]\w+)*)[./])?(?P<name>test_\w+)(?:\.py)?\b")


def told_by(source: Source) -> Iterator[str]:
    """The docstrings of a file, and its comments where one may name a test: splitting a file into tokens is dear."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    yield from (ast.get_docstring(node) or "" for node in source.nodes if isinstance(node, kinds))
    if not re.search("#.*test_", source.text):
        return
    tokens = tokenize.generate_tokens(io.StringIO(source.text).readline)
    yield from (token.string for token in tokens if token.type == tokenize.COMMENT)


def lost_tests(text: str, room: str, files: Collection[str]) -> set[str]:
    """The files of tests that a text in `room` names and that are not there: of that room, where it names none."""
    lost = set()
    for match in TEST_FILE.finditer(text):
        named = (match["room"] or "").replace(".", "/").removeprefix(f"{TESTS}/")
        rooms = (named, f"{room}/{named}") if named else (room, "")
        if not {f"{TESTS}/{r}/{match['name']}.py".replace("//", "/") for r in rooms} & set(files):
            lost.add(f"{named or room}/{match['name']}")
    return lost


def test_every_file_of_tests_that_is_named_is_there() -> None:
    files = {s.place for s in sources(TESTS)}
    defined = {f.name for s in sources(TESTS) for f in s.functions()} | {"test_module"}  # the latter is an example
    lost = {
        f"{s.place}: `{name}`"
        for s in sources(PACKAGE, TESTS)
        for text in told_by(s)
        for name in lost_tests(text, "/".join(s.place.split("/")[1:-1]), files)
        if name.rpartition("/")[2] not in defined
    }
    assert lost == set()


def test_a_file_of_tests_that_is_not_there_is_found() -> None:
    files = {f"{TESTS}/lake/test_log.py", f"{TESTS}/test_house.py"}
    assert lost_tests("`test_log`, `lake.test_log`, lake/test_log.py", "lake", files) == set()
    assert lost_tests("(`test_log`)", "core", files) == {"core/test_log"}
    assert lost_tests("# see lake/test_gone.py, lake.test_far", "", files) == {"lake/test_gone", "lake/test_far"}
