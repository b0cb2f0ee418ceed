"""What days are judged against: the receipts of earlier days and the lake's bounds, whoever asks.
Not here: the rules themselves (`kernel.write.test_gates`), and reading a day (`test_rebuild`)."""

from datetime import date, timedelta
from pathlib import Path

import pytest

from backfill_assets.kernel.core.profiles import (
    MEDIAN_NEEDS_DAYS,
    TRAILING_DAYS,
    DayProfile,
    Finding,
    null_counts,
    receipt_counts,
)
from backfill_assets.kernel.core.receipts import Built, DayEntry
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.gates import PROFILE, ROW_COUNT
from backfill_assets.kernel.write.judging import judge_by_receipts, quality_context
from backfill_assets.kernel.write.model import make_pipeline
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.builders import CHECKS, STAGING, day
from backfill_assets_tests.synthetic import START, synthetic_lake

ROWS = 100


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> LakeSettings:
    return synthetic_lake(tmp_path_factory.mktemp("lake"), 1)[0].settings


def entry(nulls: int | None) -> DayEntry:
    """A day of a hundred rows of which so many have no value; None: as receipts were before they
    counted."""
    counts = (
        {}
        if nulls is None
        else null_counts(DayProfile(ROWS, nulls={"value": nulls}), STAGING.nullable_columns)
    )
    return DayEntry(ROWS, "F", "digest", counts=counts)


def made(nulls: int) -> DayProfile:
    return DayProfile(ROWS, "G", {"value": nulls} if nulls else {})


def profile_of(
    settings: LakeSettings, known: dict[date, DayEntry], fresh: dict[date, DayProfile], judged: date
) -> Finding:
    found = quality_context(settings, STAGING, known, fresh).judge(
        judged, fresh[judged], Built.COMPLETE, ()
    )
    return next(f for f in found if f.check == PROFILE)


def test_days_without_a_receipt_are_judged_against_what_the_run_made_before_them(
    settings: LakeSettings,
) -> None:
    days = [day(n) for n in range(10)]
    fresh = {d: made(90 if d == days[8] else 0) for d in days}
    assert [d for d in days if not profile_of(settings, {}, fresh, d).passed] == [days[8]]


def test_rows_of_days_made_again_are_compared_with_what_the_receipts_before_them_say(
    settings: LakeSettings,
) -> None:
    days = [day(n) for n in range(2 * TRAILING_DAYS)]
    fresh = {d: DayProfile(ROWS // 20, "G") for d in days}
    by = quality_context(settings, STAGING, dict.fromkeys(days, entry(0)), fresh)
    found = [by.judge(d, fresh[d], Built.COMPLETE, ())[0] for d in days]
    assert [f.day for f in found if not f.passed] == days[MEDIAN_NEEDS_DAYS:]


def drifting(values: dict[int, int], rows: int = 1000) -> DayProfile:
    return DayProfile(rows, "F", histograms={"value": values})


@pytest.mark.parametrize("judged_in", [1, 2 * TRAILING_DAYS])
def test_values_that_drifted_while_rows_match_are_named_with_an_index(
    settings: LakeSettings, judged_in: int
) -> None:
    usual = drifting({3: 600, 4: 400})
    counts = receipt_counts(usual, STAGING.nullable_columns)
    known = {day(n): DayEntry(1000, "F", "digest", counts=counts) for n in range(MEDIAN_NEEDS_DAYS)}
    new = [day(MEDIAN_NEEDS_DAYS + n) for n in range(judged_in)]
    fresh = dict.fromkeys(new, drifting({1: 500, 6: 500}))
    found = [profile_of(settings, known, fresh, d) for d in new]
    assert not any(f.passed or f.refuses for f in found)
    assert "the values of value drifted: population stability index 1" in found[-1].message
    assert profile_of(settings, known, {new[0]: drifting({3: 590, 4: 410})}, new[0]).passed


def test_a_button_judges_by_the_lakes_bounds_and_by_the_days_before_as_a_load_does(
    tmp_path: Path,
) -> None:
    lake, pipeline = synthetic_lake(tmp_path / "lake", 10)
    toml = lake.root / "lake.toml"
    toml.write_text(
        toml.read_text() + "[gates.tables.staging]\nmax_rows = 2\nmax_relative_change = 0.5\n"
    )
    lake = open_lake(lake.root)
    pipeline = make_pipeline(tables(lake.settings))
    states = pipeline.states(read_view(lake, pipeline.contracts))
    contract = pipeline.table("staging").contract
    newest = START + timedelta(days=9)
    judged = judge_by_receipts(
        lake.settings, states, contract, [newest], {newest: DayProfile(6, "F")}
    )
    found = {f.check: f for f in judged[newest]}
    assert list(found) == list(CHECKS)
    assert found[ROW_COUNT].refuses
    assert (
        found[ROW_COUNT].message
        == "6 rows, more than max_rows = 2; 6 rows, 100% from the trailing median 3"
    )
    by_receipt = judge_by_receipts(lake.settings, states, contract, [newest])[newest][0]
    assert (by_receipt.refuses, by_receipt.message) == (True, "3 rows, more than max_rows = 2")
