"""Loading raw: what stops a load before anything is read, what each row's receipt counts, and a
load without work. Not here: loads of files (`end_to_end.test_ledger`, `test_scan`)."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.intake.files import LandingError
from backfill_assets.intake.landed_changes import ScanReport
from backfill_assets.intake.landed_days import append_events
from backfill_assets.intake.ledger import FILES, QUARANTINE, ledger_of_source
from backfill_assets.intake.placing import Placed, PlacedPart
from backfill_assets.intake.raw import REJECTED, _Loading, _refuse_changed_files, _rejected_counts
from backfill_assets.intake.too_late import too_late_contract
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.errors import Superseded
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.candidate import RebuildRequest
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets_tests.builders import day, loaded
from backfill_assets_tests.synthetic import START, landed, synthetic_lake

DAYS = DayRange(day(0), day(3))


def test_days_of_an_altered_or_missing_file_are_refused_with_every_file_and_no_other_day() -> None:
    report = ScanReport(
        altered=("a.jsonl",), missing=("b.jsonl",), blocked=frozenset({day(1), day(2), day(9)})
    )
    with pytest.raises(LandingError) as refused:
        _refuse_changed_files(report, loaded(3).view().source("raw"), DAYS)
    assert str(refused.value).startswith(
        f"the table raw: a.jsonl (altered), b.jsonl (missing): 2 day(s) from {day(1)} need it. "
        "Nothing was "
    )
    _refuse_changed_files(report, loaded(3).view().source("raw"), DayRange(day(3), day(9)))


def test_receipts_count_what_is_not_in_raw_by_where_it_went_zeros_too() -> None:
    told = _rejected_counts(
        {
            day(0): {"a": {"raw": 5, "duplicate": 1}, "b": {"duplicate": 2, "too late": 4}},
            day(1): {},
        }
    )
    assert told == {
        day(0): {**dict.fromkeys(REJECTED, 0), "duplicates": 3, "too late": 4},
        day(1): dict.fromkeys(REJECTED, 0),
    }


@pytest.mark.usefixtures("storages")
def test_days_without_a_row_are_written_to_raw_and_not_to_tables_that_never_had_one(
    tmp_path: Path,
) -> None:
    lake, pipeline = synthetic_lake(tmp_path / "lake", 2)
    loading = load_of(lake, pipeline, days=2)
    raw, others = loading.placed.raw, (loading.placed.late, loading.placed.quarantine)
    assert loading._write(raw, {}).write_id
    assert not any(loading._write(part, {}).write_id for part in others)
    assert lake.store.view("raw", "arrival_date").latest.keys() == {START, START + ONE_DAY}
    assert [lake.store.head(part.contract.name) for part in others] == [-1, -1]


def load_of(lake: Lake, pipeline: Pipeline, days: int) -> _Loading:
    """A load of the first days, by all that landed until now; none of them gets a row."""
    contract = pipeline.table("raw").contract
    span = DayRange(START, START + ONE_DAY * days)
    known, said = KnownStates(lake, pipeline), Provenance("manual")
    request = RebuildRequest(
        LakeSession(lake), known, pipeline.table("raw"), span, said, force=True
    )
    late, quarantine = too_late_contract(contract), ledger_of_source(QUARANTINE, contract.source)
    parts = PlacedPart(contract), PlacedPart(late), PlacedPart(quarantine)
    placed = Placed(*parts, {d: {} for d in span})
    return _Loading(request, known.states, [*span], placed)


@pytest.mark.usefixtures("storages")
def test_a_load_that_lost_its_lock_does_not_write_older_files_over_newer_ones(
    tmp_path: Path,
) -> None:
    lake, pipeline = synthetic_lake(tmp_path / "lake", 2)
    paused = load_of(lake, pipeline, days=1)
    now = datetime(2026, 1, 2, tzinfo=UTC)
    newer = {**landed(START, now), "path": "more.jsonl", "sha256": "b" * 64}
    append_events(lake, [tuple(newer[name] for name in FILES.column_names)], "scan", "")
    overtaking = load_of(lake, pipeline, days=1)
    assert overtaking._write(overtaking.placed.raw, {}).write_id
    with pytest.raises(Superseded, match="were written by another run from newer inputs"):
        paused._write(paused.placed.raw, {})
