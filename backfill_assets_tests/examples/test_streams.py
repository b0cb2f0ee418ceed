"""The files that each example lands: always the same, and streams with what their steps need, such as late rows.

Tested here: `examples.streams`, and that every generator repeats. Not tested here: the steps, and what comes of the
rows (`end_to_end`).
"""

from pathlib import Path

import duckdb
import pytest

from backfill_assets.examples import stories, streams
from backfill_assets.operations.example_lakes import HOME
from backfill_assets_tests.examples.generated import later, lines

GENERATORS = {**streams.STREAMS, **stories.STORIES}


@pytest.mark.parametrize("name", GENERATORS)
def test_the_same_files_are_made_every_time(name: str) -> None:
    assert GENERATORS[name]() == GENERATORS[name]()


def test_big_orders_come_of_sql_as_many_as_are_asked_for_the_same_every_time(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    query = (HOME / "big_orders" / "generate.sql").read_text(encoding="utf-8")
    found = []
    for _ in range(2):
        duckdb.execute(query.replace("{lake}", str(tmp_path)).replace("{rows}", "1000"))
        read = f"FROM read_parquet('{tmp_path}/landing/**/*.parquet') SELECT count(*), count(DISTINCT order_id)"
        found += duckdb.execute(read + ", count(DISTINCT day), min(ordered_at)::VARCHAR, sum(cents)").fetchall()
    assert found[0][:3] == (1_000, 1_000, 30)
    assert found[0] == found[1]


def test_payments_of_december_are_corrected_repeated_and_unusable() -> None:
    found: dict[str, list[object]] = {}
    for row in lines(streams.december()):
        found.setdefault(row["event_key"], []).append(row["value"])
    assert len(streams.december()) == 31
    twice = [values for values in found.values() if len(values) == 2]
    assert {values[0] == values[1] for values in twice} == {True, False}
    assert ["twelve"] in found.values()


def test_trips_begin_before_the_failed_week_and_end_behind_it() -> None:
    days = [name[-16:-6] for name in streams.failed_week()]
    assert (days[0], days[-1], len(days)) == ("2025-02-27", "2025-03-08", 10)


def test_one_row_of_the_feature_store_is_late() -> None:
    (late,) = lines(streams.feature_store(), "later")
    told = (late["user_id"], late["played_at"][:10], late["sent_at"][:10])
    assert told == (streams.OFFLINE, "2025-06-02", "2025-06-04")


def test_refunds_and_the_web_occur_within_the_ninety_days_of_features_v2() -> None:
    rows = lines(streams.features_v2())
    days = {row["bought_at"][:10] for row in rows}
    assert (min(days), max(days), len(streams.features_v2())) == ("2024-12-01", "2025-02-28", 90)
    assert {(r["cents"] > 0, r["channel"]) for r in rows} == {(a, b) for a in (True, False) for b in ("web", "shop")}


def test_exactly_five_days_come_again_with_a_hundredth_of_the_amounts() -> None:
    again = lines(streams.five_days(), "later")
    first = {row["sale_id"]: row for row in lines(streams.five_days(), "landing")}
    assert sorted({row["sold_at"][:10] for row in again}) == [f"2025-01-{day}" for day in range(10, 15)]
    assert all(first[row["sale_id"]]["cents"] == row["cents"] * 100 for row in again)


def test_no_passage_is_later_than_two_days_and_some_are_sent_twice() -> None:
    rows = lines(streams.late_48h())
    assert {int(row["sent_at"][8:10]) - int(row["passed_at"][8:10]) for row in rows} == {0, 1, 2}
    assert len({row["passage_id"] for row in rows}) < len(rows)
    assert later(streams.late_48h()) == [f"later/2025-03-0{n}.jsonl" for n in range(4, 8)]


def test_outcomes_of_march_alone_are_late() -> None:
    loans = lines(streams.late_labels(), "loans")
    assert len({loan["taken_at"][:10] for loan in loans}) == 180
    assert max(loan["taken_at"] for loan in loans).startswith("2024-03-31")
    assert later(streams.late_labels()) == [f"later/outcomes/{streams.LATE_MONTH}.jsonl"]


def test_windows_and_labels_of_ninety_days_have_their_rows() -> None:
    days = [name[-16:-6] for name in streams.training_daily()]
    assert (days[0], days[-1], len(days)) == ("2024-01-01", "2024-04-06", 6 + 90 + 1)
