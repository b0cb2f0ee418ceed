"""The way of one day, as `load/rebuild.py` tells it, is the way of the code: every place that it names exists.

Lives here: the sign of one file, held to the package's syntax trees. Does not live here: what the phases do.
"""

import ast
import re
from collections.abc import Iterator

from backfill_assets_tests.sources import PACKAGE, Source, sources

HOME = f"{PACKAGE}.load.rebuild"
PLACE = re.compile(r"`(?:[a-z_]+\.)+[A-Za-z_.]+`")


def _module(name: str) -> Source | None:
    return next((f for f in sources(PACKAGE) if f.module == name), None)


def _sign() -> str:
    home = _module(HOME)
    assert home is not None
    return ast.get_docstring(home.tree) or ""


def _names(source: Source) -> Iterator[str]:
    """What a module defines, methods as `Class.method`."""
    for node in source.tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
        if isinstance(node, ast.ClassDef):
            yield from (f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef))


def _exists(place: str) -> bool:
    room, module, name = (*place.split(".", 2), "")[:3]
    found = _module(f"{PACKAGE}.{room}.{module}")
    return found is not None and (not name or name in _names(found))


def test_every_place_on_the_way_of_one_day_exists() -> None:
    places = [p.strip("`") for p in PLACE.findall(_sign())]
    assert len(places) > 15
    assert [p for p in places if not _exists(p)] == []


def test_the_phases_are_numbered_without_a_gap() -> None:
    numbers = [int(n) for n in re.findall(r"^ +(\d+)  \w", _sign(), re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > 9
