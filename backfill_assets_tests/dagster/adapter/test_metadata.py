"""What is told of a day: documented states, news before identities, every fact once.

Tested here: `dagster.adapter.metadata`: what is told of a day, in plain values, and what a run did,
as Markdown. Not tested here: what Dagster stores of it (`test_runs`).
"""

from datetime import date
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.dagster.adapter.metadata import (
    LISTED_DAYS,
    changes_summary,
    entry_metadata,
    folded_metadata,
    origin_metadata,
    rewritten_days,
    table_metadata,
    unfolded_metadata,
)
from backfill_assets.kernel.core.calendars import Calendar, Unit
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.receipts import Built, DayEntry, Provenance
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.core.view import DayReceipt, TableView
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.replace import WriteResult
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.builders import day
from backfill_assets_tests.pipeline.built_in import lake_settings
from backfill_assets_tests.synthetic import START, synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")


@pytest.mark.parametrize("built", list(Built))
def test_the_state_that_is_told_is_one_of_the_documented_ones(built: Built) -> None:
    state = entry_metadata(DayEntry(3, "F", "d", built), 7)["backfill_assets/state"]
    assert state in {s.value for s in State}
    assert state == {Built.COMPLETE: "fresh", Built.MERGED: "outdated"}.get(built, built.value)


def test_a_period_that_is_not_over_is_told_as_provisional() -> None:
    told = entry_metadata(DayEntry(3, "F", "d"), 7, is_open=True)
    assert told["backfill_assets/state"] == "provisional"


def test_a_day_says_why_it_was_written_and_links_to_its_inputs_and_its_plans_runs(
    tmp_path: Path,
) -> None:
    lake, pipeline = synthetic_lake(tmp_path / "lake", 4)
    states = pipeline.states(read_view(lake, pipeline.contracts))
    features, last = states.contracts["features"], START + ONE_DAY * 3
    tags = {"plan": "20240301-a", "chunk": "2", "by": "ann@host"}
    told = origin_metadata(
        features, last, states, {"staging": 7}, Provenance("plan", note="the bug of May", tags=tags)
    )
    assert told["backfill_assets/why"] == "plan 20240301-a, chunk 2, by ann@host: the bug of May"
    assert told["backfill_assets/inputs"] == f"staging {START + ONE_DAY}..{last} at version 7"
    assert told["backfill_assets/plan_runs"].value == "../runs?q[]=tag:plan=20240301-a"
    days = f"view=partitions&partition={last}&default_range=[{START + ONE_DAY}...{last}]"
    assert told["backfill_assets/from_staging"].value == f"../assets/staging?{days}"
    by_hand = origin_metadata(
        states.contracts["raw"], START, states, {}, Provenance("manual", tags={"by": "ann@host"})
    )
    assert by_hand == {"backfill_assets/why": "manual, by ann@host"}, (
        "the files of a day of raw are listed one by one"
    )


def test_dagster_is_told_of_which_columns_a_declared_one_is_made_and_of_what(
    tmp_path: Path,
) -> None:
    lake, _ = synthetic_lake(tmp_path / "lake", 1)
    column = {"name": "spent", "agg": "sum", "of": "value * 2", "where": "flag = 1", "days": 28}
    made = {t.name: t for t in tables(lake_settings(features={"columns": [column]}))}
    said = {name: table_metadata(lake, table.contract) for name, table in made.items()}
    found = said["features"]["dagster/column_lineage"].deps_by_column["spent"]
    origins = {(dep.asset_key.to_user_string(), dep.column_name) for dep in found}
    assert origins == {("staging", "value"), ("staging", "flag")}
    (spent,) = [c for c in said["features"]["dagster/column_schema"].columns if c.name == "spent"]
    assert (spent.tags["aggregation"], spent.tags["filter"], spent.tags["window"]) == (
        "sum",
        "flag = 1",
        "28 days",
    )
    assert "dagster/column_lineage" not in said["raw"]


def entries(**rows: int) -> dict[date, DayEntry]:
    return {day(int(n[1:])): DayEntry(count, "F", "d") for n, count in rows.items()}


def test_changed_days_show_their_rows_before_and_now_newest_first() -> None:
    before, after = entries(d0=5, d1=7), entries(d0=6, d1=7, d2=3, d3=1)
    told = changes_summary(before, after, WriteResult(4, "w", frozenset({day(0), day(1), day(2)})))
    lines = told.splitlines()
    assert lines[0].startswith("3 day(s) changed in version 4: ")
    assert lines[0].endswith("; 1 other(s) hold what they held.")
    assert lines[4:] == [
        f"| {day(2)} | – | 3 | new |",
        f"| {day(1)} | 7 | 7 | same rows, other content |",
        f"| {day(0)} | 5 | 6 | +1 |",
        "| **all changed** | 12 | 16 | +4 |",
    ]


def test_a_run_that_changed_nothing_says_so_whatever_the_way_of_fingerprinting() -> None:
    assert (
        changes_summary({}, entries(d0=1), WriteResult(4, ""))
        == "Nothing changed: 1 day(s) hold what they held."
    )
    months = changes_summary({}, entries(d0=1), WriteResult(4, ""), calendar=Calendar(Unit.MONTH))
    assert months == "Nothing changed: 1 month(s) hold what they held."
    receipted = WriteResult(4, "w", receipted=frozenset({day(0)}))
    assert changes_summary({}, entries(d0=1), receipted).endswith(", the receipts are new.")
    before = {day(0): DayEntry(5, "F", "d", scheme=1)}
    told = changes_summary(before, entries(d0=5), WriteResult(4, "w", frozenset({day(0)})))
    assert f"| {day(0)} | 5 | 5 | as many rows |" in told


def test_days_that_were_written_again_as_they_were_are_no_change() -> None:
    before, after = entries(d0=5, d1=7, d2=9), entries(d0=5, d1=8, d2=9)
    latest = {d: DayReceipt(e, 3, "w", "", "", "") for d, e in before.items()}
    forced = WriteResult(4, "w", frozenset(after))
    again = rewritten_days(TableView(3, latest, foreign=frozenset({day(2)})), after, forced)
    assert again == {day(0)}, "what another program wrote over is no repetition"
    told = changes_summary(before, after, forced, again)
    assert told.startswith("2 day(s) changed in version 4: ")
    assert "; 1 other(s) hold what they held, 1 of them written again." in told
    assert f"| {day(0)} |" not in told
    kept = changes_summary(before, before, forced, frozenset(before))
    assert kept == "Nothing changed: 3 day(s) hold what they held, 3 of them written again."


def test_a_long_range_is_cut_to_a_month_and_its_sum_is_whole() -> None:
    after = {day(n): DayEntry(1, "F", "d") for n in range(100)}
    told = changes_summary({}, after, WriteResult(1, "w", frozenset(after)))
    assert told.count("\n| 20") == LISTED_DAYS
    assert f"… {100 - LISTED_DAYS} more" in told
    assert "| **all changed** | 0 | 100 | +100 |" in told


def test_internals_are_one_entry_and_are_read_as_earlier_releases_wrote_them() -> None:
    flat = {
        "backfill_assets/fingerprint": dg.MetadataValue.text("F"),
        "backfill_assets/bytes": dg.MetadataValue.int(3),
        "backfill_assets/figures": dg.MetadataValue.json({"repeats": 0}),
        "backfill_assets/summary": dg.MetadataValue.md("1 day(s) changed"),
    }
    shown = folded_metadata(flat)
    assert list(shown) == [
        "backfill_assets/summary",
        "backfill_assets/bytes",
        "backfill_assets/internals",
    ]
    assert unfolded_metadata(shown) == unfolded_metadata(flat) == flat
