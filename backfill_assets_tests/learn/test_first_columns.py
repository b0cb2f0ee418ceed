"""A column of landed files: how `select` may name it, and how its files are written. No JVM.
Not here: types and values (`test_first_source`)."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.intake.select import select_expressions
from backfill_assets.learn.first_columns import (
    guessed_dialect,
    plain_name,
    quoted_for_spark,
    unused_name,
)
from backfill_assets_tests.landed import land


@pytest.mark.parametrize(
    "name",
    [
        "from",
        "to",
        "desc",
        "limit",
        "values",
        "range",
        "select",
        "user",
        "group",
        "order",
        "current_date",
        "größe",
        "Order Id",
        "2nd",
        "a`b",
        "a.b",
        "",
    ],
)
def test_a_name_that_sql_keeps_or_cannot_read_is_in_backticks_and_one_expression(name: str) -> None:
    assert quoted_for_spark(name) == "`" + name.replace("`", "``") + "`"
    assert select_expressions(f"{quoted_for_spark(name)} AS v") == (
        f"{quoted_for_spark(name)} AS v",
    )


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Größe", "grosse"),
        ("Order Id", "order_id"),
        ("naïve", "naive"),
        ("reason", "own_reason"),
        ("2nd", "own_2nd"),
        ("名前", "own___"),
        ("\u202ex", "own__x"),
        ("total", "total_2"),
    ],
)
def test_a_name_in_the_lake_is_plain_free_and_not_one_of_the_tables_own(
    text: str, name: str
) -> None:
    assert unused_name(text, {"total"}) == name
    assert plain_name(name) == name


PLAIN: dict[str, Any] = {}

SEMICOLONS = {"separator": ";"}

SAID: dict[str, tuple[bytes, dict[str, Any]]] = {
    "commas": (b"a,b\n1,2;3\n", PLAIN),
    "one column": (b"a\n1;2\n", PLAIN),
    "a header alone": (b"a;b\n", SEMICOLONS),
    "semicolons and points": (b"a;b\n1;2.5\n", SEMICOLONS),
    "tabs": (b"a\tb,c\n1\t2\n", {"separator": "\t"}),
    "two that fit": (b"a;b|c\n1;2|3\n", PLAIN),
    "broken under all": (b'a;b\n1;"2"x\n', PLAIN),
    "decimal commas": (
        b"a;b;c\nx;2,5;\ny;-1,0;\n",
        {**SEMICOLONS, "numbers": ["b"], "decimal": ","},
    ),
    "thousands": (
        b"a;b\n1.000;2,5\n",
        {**SEMICOLONS, "numbers": ["a", "b"], "decimal": ",", "thousands": "."},
    ),
    "dates are no numbers": (
        b"a;b\n01.03.2024;2,5\n",
        {**SEMICOLONS, "numbers": ["b"], "decimal": ","},
    ),
    "windows": ("a,b\nM\xfcller,\u20ac\n".encode("cp1252"), {"encoding": "cp1252"}),
    "utf-8 with a mark": ("\ufeffa,b\nMüller,1\n".encode(), PLAIN),
    "utf-16": ("\ufeffa;b\nMüller;1\n".encode("utf-16-le"), {"encoding": "utf-16", **SEMICOLONS}),
    "no text at all": (b"a,\x81\n", PLAIN),
    "nothing": (b"", PLAIN),
}


@pytest.mark.parametrize("name", SAID)
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_file_says_how_it_is_written(tmp_path: Path, name: str, is_packed: bool) -> None:
    content, said = SAID[name]
    file = land(tmp_path, "a.csv", gzip.compress(content) if is_packed else content)
    assert guessed_dialect([file], "csv").declared == said


def test_files_that_disagree_and_other_formats_say_nothing(tmp_path: Path) -> None:
    files = [land(tmp_path, "a.csv", b"a;b\n1;2\n"), land(tmp_path, "b.csv", b"a|b\n1|2\n")]
    assert guessed_dialect(files, "csv").declared == {}
    file = land(tmp_path, "c.jsonl", '{"a": "é;"}\n'.encode("cp1252"))
    assert guessed_dialect([file], "jsonl").declared == {"encoding": "cp1252"}
    assert guessed_dialect([file], "parquet").declared == {}


@pytest.mark.slow
def test_only_the_beginning_of_a_long_file_is_read_and_its_cut_is_no_fault(tmp_path: Path) -> None:
    for text in ("a;b\n" + "é;1\n" * 200_000, "a;b\n" + "xé;1\n" * 200_000):
        assert (
            guessed_dialect([land(tmp_path, "a.csv", text.encode())], "csv").declared == SEMICOLONS
        )
