"""Texts of generated files: the same chance every time, and rows as CSV and JSON lines.
Not here: what the examples put into them."""

import json
from datetime import date

from backfill_assets.examples.texts import chance_of, csv_text, daily_files, jsonl_text, moment, times


def test_an_example_has_the_same_chance_every_time_and_another_than_its_neighbour() -> None:
    assert chance_of("orders").random() == chance_of("orders").random()
    assert chance_of("orders").random() != chance_of("clicks").random()


def test_rows_become_text_with_none_as_nothing() -> None:
    rows: list[dict[str, object]] = [{"a": 1, "b": None}, {"a": "x,y", "b": 2}]
    assert csv_text(("a", "b"), rows) == 'a,b\n1,\n"x,y",2\n'
    assert [json.loads(line) for line in jsonl_text(rows).splitlines()] == rows


def test_instants_of_a_day_lie_on_it_and_a_file_holds_the_rows_of_one_day() -> None:
    found = list(times(chance_of("x"), date(2024, 2, 28), 3, 2))
    assert [f"{at:%m-%d}" for at in found] == ["02-28", "02-28", "02-29", "02-29", "03-01", "03-01"]
    made = daily_files([{"at": moment(at)} for at in found], "at")
    assert [(path, text.count("\n")) for path, text in made.items()] == [
        ("landing/2024-02-28.jsonl", 2), ("landing/2024-02-29.jsonl", 2), ("landing/2024-03-01.jsonl", 2),
    ]  # fmt: skip
