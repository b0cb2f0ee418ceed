"""Rows merged by key, and days replaced in files that hold several of them: what is not made anew
stays, twice is once. Not here: whether rows may be kept (`kernel.write.test_derived`), tables laid
out by day."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backfill_assets.intake.ledger import ARRIVALS
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.receipts import DayEntry, Provenance
from backfill_assets.kernel.core.write_mode import MERGE, OVERWRITE
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.query_files import add_standing_rows
from backfill_assets.kernel.write.audit import audit_files
from backfill_assets.kernel.write.replace import Write, WriteResult, replace_days
from backfill_assets_tests.files import bare_lake, stage_by_hand
from backfill_assets_tests.lakes import content
from backfill_assets_tests.pipeline.built_in import contract
from backfill_assets_tests.planning import good_rows

pytestmark = pytest.mark.usefixtures("storages")

STAGING = contract("staging")

FIRST = date(2024, 3, 1)

Days = dict[int, dict[int, int]]  # day -> key -> value

days = st.dictionaries(
    st.integers(0, 2), st.dictionaries(st.integers(0, 4), st.integers(0, 2), max_size=4)
)


def rows(told: Days) -> list[dict[str, Any]]:
    """Rows of staging: times, text, NULLs."""
    found = []
    for number, values in told.items():
        pattern = good_rows(FIRST + ONE_DAY * number)
        found += [pattern[key] | {"value": value} for key, value in values.items()]
    return found


def write(lake: Lake, told: Days, merging: bool) -> tuple[WriteResult, dict[date, int]]:
    """Publish the three days so; merged or not."""
    staged, version = (
        stage_by_hand(lake, STAGING, rows(told)),
        lake.store.view("staging", "event_date").version,
    )
    wanted = [FIRST + ONE_DAY * n for n in range(3)]
    kept = add_standing_rows(lake, STAGING, staged, version, wanted) if merging else {}
    found = audit_files(lake, staged.paths, STAGING)
    entries = {
        d: DayEntry(found[d].rows, found[d].fingerprint, "digest")
        if d in found
        else DayEntry(0, "0", "digest")
        for d in wanted
    }
    mode = MERGE if merging else OVERWRITE
    done = Write(STAGING, staged, entries, version, Provenance("test"), mode=mode)
    return replace_days(lake, done, lambda asked: dict.fromkeys(asked, "digest")), kept


def held(lake: Lake) -> set[tuple[Any, ...]]:
    """Day, key and value of every row."""
    return {(r["event_date"], r["seq"], r["value"]) for r in lake.store.rows("staging")}


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(days, days)
def test_a_merge_upserts_by_key_twice_is_once_and_without_removals_it_is_an_overwrite(
    tmp_path_factory: Any, before: Days, after: Days
) -> None:
    merged, overwritten = (bare_lake(tmp_path_factory.mktemp("lake")) for _ in range(2))
    for lake in (merged, overwritten):
        write(lake, before, merging=False)
    _, kept = write(merged, after, merging=True)
    write(overwritten, after, merging=False)
    both = {FIRST + ONE_DAY * n: {**before.get(n, {}), **after.get(n, {})} for n in range(3)}
    wanted = {(day, key, value) for day, values in both.items() for key, value in values.items()}
    assert held(merged) == wanted
    lacking = {n: set(before.get(n, {})) - set(after.get(n, {})) for n in range(3)}
    assert kept == {FIRST + ONE_DAY * n: len(keys) for n, keys in lacking.items() if keys}
    if not kept:
        assert content(merged, "staging") == content(overwritten, "staging")
    again, _ = write(merged, after, merging=True)
    assert not again.write_id
    assert held(merged) == wanted


START = date(2024, 1, 28)  # days of two months


def row(arrived: date, happened: date) -> dict[str, Any]:
    return {
        "arrival_date": arrived,
        "event_date": happened,
        "deliveries": 1,
        "keys": 1,
        "moved_keys": 0,
        "greatest_lateness_s": None,
        "fingerprint": "F",
        "arrival_month": f"{arrived:%Y-%m}",
    }


def replace(lake: Lake, content: dict[date, list[date]], digest: str) -> None:
    staged = stage_by_hand(lake, ARRIVALS, [row(a, d) for a, days in content.items() for d in days])
    found = audit_files(lake, staged.paths, ARRIVALS)
    entries = {
        a: DayEntry(found[a].rows, found[a].fingerprint, digest)
        if a in found
        else DayEntry(0, "0", digest)
        for a in content
    }
    replace_days(
        lake,
        Write(ARRIVALS, staged, entries, -1, Provenance("test")),
        lambda days: dict.fromkeys(days, digest),
    )


def table(lake: Lake) -> DeltaTable:
    return DeltaTable(str(lake.table_place("arrivals").local()))


def test_a_day_that_comes_again_as_it_was_beside_one_that_changed_is_there_once(
    tmp_path: Path,
) -> None:
    """A load brings rows of every day that it may have changed; found by two sources that landed
    out of order."""
    lake, tenth, twelfth = bare_lake(tmp_path), date(2024, 3, 10), date(2024, 3, 12)
    replace(lake, {tenth: [tenth]}, "same")
    replace(lake, {tenth: [tenth], twelfth: [twelfth]}, "same")
    assert sorted(r["arrival_date"] for r in table(lake).to_pyarrow_table().to_pylist()) == [
        tenth,
        twelfth,
    ]


def test_months_that_are_not_touched_keep_their_files(tmp_path: Path) -> None:
    lake, january, february = bare_lake(tmp_path), START, date(2024, 2, 1)
    replace(lake, {january: [january], february: [february]}, "one")
    before = set(table(lake).file_uris())
    replace(lake, {february: [january, february]}, "two")
    (kept,) = before & set(table(lake).file_uris())
    assert "arrival_month=2024-01" in kept
