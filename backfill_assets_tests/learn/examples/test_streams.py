"""The files that each example lands: always the same, and streams with what their steps need, such
as late rows. Their texts hold the same chance every time. Not here: the steps, and what comes of
the rows (`end_to_end`)."""

import json
from datetime import date
from pathlib import Path

import duckdb
import pytest

from backfill_assets.learn.example_lakes import HOME
from backfill_assets.learn.examples import stories, streams
from backfill_assets.learn.examples.streams import (
    csv_text,
    daily_files,
    jsonl_text,
    random_times,
    seeded_random,
    time_text,
)


def test_an_example_has_the_same_chance_every_time_and_another_than_its_neighbour() -> None:
    assert seeded_random("orders").random() == seeded_random("orders").random()
    assert seeded_random("orders").random() != seeded_random("clicks").random()


def test_rows_become_text_with_none_as_nothing() -> None:
    rows: list[dict[str, object]] = [{"a": 1, "b": None}, {"a": "x,y", "b": 2}]
    assert csv_text(("a", "b"), rows) == 'a,b\n1,\n"x,y",2\n'
    assert [json.loads(line) for line in jsonl_text(rows).splitlines()] == rows


def test_instants_of_a_day_lie_on_it_and_a_file_holds_the_rows_of_one_day() -> None:
    found = list(random_times(seeded_random("x"), date(2024, 2, 28), 3, 2))
    assert [f"{at:%m-%d}" for at in found] == ["02-28", "02-28", "02-29", "02-29", "03-01", "03-01"]
    made = daily_files([{"at": time_text(at)} for at in found], "at")
    assert [(path, text.count("\n")) for path, text in made.items()] == [
        ("landing/2024-02-28.jsonl", 2),
        ("landing/2024-02-29.jsonl", 2),
        ("landing/2024-03-01.jsonl", 2),
    ]


GENERATORS = {**streams.STREAMS, **stories.STORIES}


@pytest.mark.parametrize("name", GENERATORS)
def test_the_same_files_are_made_every_time(name: str) -> None:
    assert GENERATORS[name]() == GENERATORS[name]()


def test_big_orders_come_of_sql_as_many_as_are_asked_for_the_same_every_time(
    tmp_path: Path,
) -> None:
    (tmp_path / "landing").mkdir()
    query = (HOME / "big_orders" / "generate.sql").read_text(encoding="utf-8")
    found = []
    for _ in range(2):
        duckdb.execute(query.replace("{lake}", str(tmp_path)).replace("{rows}", "1000"))
        read = (
            f"FROM read_parquet('{tmp_path}/landing/**/*.parquet') SELECT count(*), "
            "count(DISTINCT order_id)"
        )
        found += duckdb.execute(
            read + ", count(DISTINCT day), min(ordered_at)::VARCHAR, sum(cents)"
        ).fetchall()
    assert found[0][:3] == (1_000, 1_000, 30)
    assert found[0] == found[1]
