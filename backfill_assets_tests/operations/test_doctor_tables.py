"""What an inspection of a table means: torn and gapped logs end it, and every finding ends in what to do.

Tested here: `operations.doctor_tables` on inspections as a store gives them. Not tested here: lakes that were really
hurt (`test_doctor`), and inspecting (`lake.test_inspection`).
"""

from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from backfill_assets.core.contracts import Contract
from backfill_assets.core.receipts import DayEntry
from backfill_assets.core.view import DayReceipt, TableView
from backfill_assets.lake.home import Lake
from backfill_assets.lake.inspection import Inspection
from backfill_assets.lake.ledger import ARRIVALS, FILES
from backfill_assets.operations import doctor_tables
from backfill_assets.operations.doctor_tables import RESTORE, Diagnosis, Level, examine_table
from backfill_assets_tests.builders import CODE, STAGING, day


@dataclass(frozen=True)
class Seen:
    """A lake whose store gives one view; it is its own store."""

    seen: TableView

    @property
    def store(self) -> "Seen":
        return self

    def view(self, *_: str) -> TableView:
        return self.seen


def receipt(rows: int) -> DayReceipt:
    return DayReceipt(DayEntry(rows, "F", "digest"), 1, "write", CODE.code_digest, CODE.settings_digest, "run", "")


def examine(contract: Contract = STAGING, changed: bool = False, **found: Any) -> list[Diagnosis]:
    """The findings about a table with three rows on one day, which others have `changed`."""
    foreign = frozenset({day(0)}) if changed else frozenset()
    seen = TableView(version=1, latest={day(0): receipt(3)}, foreign=foreign)
    told = Inspection(**{"commits": 2, "files": 1, "rows": 3, "day_rows": {day(0): 3}, **found})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doctor_tables, "inspect", lambda *_: told)
        return list(examine_table(cast("Lake", Seen(seen)), contract, "raw"))


def test_a_whole_table_is_one_line_with_its_figures() -> None:
    [only] = examine()
    assert (only.level, only.object) == (Level.OK, "the table staging")
    assert only.what == "2 commits, 1 files, 3 rows: log whole, files there, receipts equal contents"


def test_a_table_that_does_not_exist_is_no_fault() -> None:
    assert [(d.level, d.what) for d in examine(commits=0)] == [(Level.OK, "it does not exist yet")]


def test_files_that_no_version_names_are_told_beside_whatever_else_is_found() -> None:
    for more in ({}, {"commits": 0}, {"absent": ("x.parquet",)}):
        found = examine(lost=2, lost_bytes=10, **more)
        assert found[-1].what.startswith("2 data file(s), 10 bytes, belong to no version")
        assert found[-1].level is Level.OK


@pytest.mark.parametrize(
    ("hurt", "told", "advice"),
    [
        ({"lacking": (1,)}, "lacks version(s) 1", RESTORE),
        ({"torn": (0,)}, "version 0 of its log is torn", RESTORE),
        (
            {"torn": (1,)},
            "version 1 of its log is torn (the newest: a power cut does that)",
            "with `backfill-assets mend",
        ),
    ],
)
def test_a_torn_or_gapped_log_is_all_that_is_told(hurt: dict[str, Any], told: str, advice: str) -> None:
    [only] = examine(**hurt, absent=("x.parquet",))
    assert only.level is Level.ERROR
    assert told in only.what
    assert advice in only.advice


def test_other_row_counts_than_the_receipts_are_told_with_the_days_and_the_command() -> None:
    [only] = examine(day_rows={day(0): 2, day(1): 1})
    assert only.level is Level.ERROR
    assert f"2 day(s) hold other row counts than their receipts ({day(0)}..{day(1)})" in only.what
    assert f"{day(0)}: 2 rows, receipt 3" in only.what
    assert f"--force --from {day(0)} --to {day(1)} --tables staging`" in only.advice


def test_of_a_table_that_others_write_no_command_is_named_that_refuses_it() -> None:
    theirs = replace(STAGING, external="/warehouse/staging")
    for found in ({"day_rows": {day(0): 2}}, {"absent": (f"others-1/event_date={day(0)}/part-0.parquet",)}):
        [only] = examine(theirs, **found)
        assert "backfill --force" not in only.advice
        assert "`backfill-assets catch-up` follows their newest version" in only.advice


def test_a_log_that_does_not_tell_rows_asks_for_a_deeper_look() -> None:
    [only] = examine(day_rows=None)
    assert (only.level, only.advice) == (Level.WARN, "Use `backfill-assets verify`")
    assert [d.level for d in examine(FILES, day_rows=None)] == [Level.OK]


def test_days_that_others_changed_are_told_by_what_makes_them_again_and_not_by_their_rows() -> None:
    [table], [ledger], [files] = (
        examine(contract, changed=True, foreign=(1,), day_rows={day(0): 9}) for contract in (STAGING, ARRIVALS, FILES)
    )
    assert table.level is Level.WARN
    assert f"backfill --from {day(0)} --to {day(0)} --tables staging`" in table.advice
    assert "Load its arrival days again: `backfill-assets backfill" in ledger.advice
    assert "not read, what we wrote counts" in files.what


def test_an_edited_commit_is_an_error_that_names_its_version() -> None:
    [only] = examine(edited=(0,))
    assert only.level is Level.ERROR
    assert "version(s) 0 of its log were edited" in only.what
    assert "from a backup" in only.advice
