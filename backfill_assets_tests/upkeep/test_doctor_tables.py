"""What an inspection of a table means: torn and gapped logs end it, and every finding ends in what
to do. Not here: lakes that were really hurt (`test_doctor`), and inspecting
(`upkeep.test_inspection`)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from backfill_assets.cli.findings import Diagnosis, Level
from backfill_assets.intake.ledger import ARRIVALS, FILES
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.receipts import DayEntry, Provenance
from backfill_assets.kernel.core.view import DayReceipt, TableView
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.replace import Write, replace_days
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.pipeline.tables import tables
from backfill_assets.reading.fitness import differing_days
from backfill_assets.reading.reader import LakeReader
from backfill_assets.upkeep import doctor_tables
from backfill_assets.upkeep.doctor import VerifyRequest, examine_everything, verify_tables
from backfill_assets.upkeep.doctor_tables import examine_rows, examine_snapshots, examine_table
from backfill_assets.upkeep.inspection import Inspection
from backfill_assets_tests.builders import CODE, STAGING, day
from backfill_assets_tests.candidates.test_snapshots import keep, rebuilt_and_vacuumed
from backfill_assets_tests.files import bare_lake, stage_by_hand
from backfill_assets_tests.foreign.test_observing import D1, D4, Others, orders
from backfill_assets_tests.readable_lake import readable_lake

pytestmark = pytest.mark.usefixtures("storages")
WHOLE = VerifyRequest(rows=True, deep=True)


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
    return DayReceipt(
        DayEntry(rows, "F", "digest"), 1, "write", CODE.code_digest, CODE.settings_digest, "run", ""
    )


def examine(contract: Contract = STAGING, changed: bool = False, **found: Any) -> list[Diagnosis]:
    """The findings about a table with three rows on one day, which others have `changed`."""
    foreign = frozenset({day(0)}) if changed else frozenset()
    seen = TableView(version=1, latest={day(0): receipt(3)}, foreign=foreign)
    told = Inspection(**{"commits": 2, "files": 1, "rows": 3, "day_rows": {day(0): 3}, **found})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doctor_tables, "inspect_table", lambda *_: told)
        return list(examine_table(cast("Lake", Seen(seen)), contract, "raw"))


def test_of_a_table_that_others_write_no_command_is_named_that_refuses_it() -> None:
    theirs = replace(STAGING, external="/warehouse/staging")
    for found in (
        {"day_rows": {day(0): 2}},
        {"absent": (f"others-1/event_date={day(0)}/part-0.parquet",)},
    ):
        [only] = examine(theirs, **found)
        assert "backfill --force" not in only.advice
        assert "`backfill-assets catch-up` follows their newest version" in only.advice


def test_a_log_that_does_not_tell_rows_asks_for_a_deeper_look() -> None:
    [only] = examine(day_rows=None)
    assert (only.level, only.advice) == (Level.WARN, "Use `backfill-assets verify`")
    assert [d.level for d in examine(FILES, day_rows=None)] == [Level.OK]


def test_days_that_others_changed_are_told_by_what_makes_them_again_and_not_by_their_rows() -> None:
    [table], [ledger], [files] = (
        examine(contract, changed=True, foreign=(1,), day_rows={day(0): 9})
        for contract in (STAGING, ARRIVALS, FILES)
    )
    assert table.level is Level.WARN
    assert f"backfill --from {day(0)} --to {day(0)} --tables staging`" in table.advice
    assert "Load its arrival days again: `backfill-assets backfill" in ledger.advice
    assert "not read, what we wrote counts" in files.what


ROWS = [{"entity": "A", "value": n, "event_date": day(n)} for n in range(3)]


def looked_at(lake: Lake) -> Diagnosis:
    return examine_rows(lake, STAGING, lake.store.view("staging", "event_date"))


def told(lake: Lake, entries: Mapping[date, DayEntry]) -> None:
    """Publish the rows with whatever entries their receipt shall hold."""
    write = Write(STAGING, stage_by_hand(lake, STAGING, ROWS), entries, -1, Provenance("test"))
    replace_days(lake, write, lambda days: dict.fromkeys(days, "digest"))


def test_receipts_that_fingerprint_in_another_way_are_no_alarm_but_for_their_count_of_rows(
    tmp_path: Path,
) -> None:
    lake = bare_lake(tmp_path)
    told(lake, {day(n): DayEntry(1, "F", "digest", scheme=1) for n in range(3)})
    found = looked_at(lake)
    assert found.level is Level.OK
    assert "of 3 only the count of rows" in found.what
    told(lake, {day(n): DayEntry(2 if n else 1, "G", "digest", scheme=1) for n in range(3)})
    assert looked_at(lake).level is Level.ERROR


@pytest.fixture
def reader(tmp_path: Path) -> LakeReader:
    made = readable_lake(tmp_path / "lake")
    keep(made)
    return made


def files_of(reader: LakeReader) -> list[Path]:
    return sorted((reader.lake.root / ".snapshots" / "spring").rglob("*.parquet"))


def test_a_whole_snapshot_is_one_line_that_says_what_only_it_holds(reader: LakeReader) -> None:
    size = sum(p.stat().st_size for p in files_of(reader))
    for _ in range(2):  # it shares no file with the table, whatever becomes of that
        [only] = examine_snapshots(reader.lake)
        told = f"staging: {len(files_of(reader))} file(s), {size} bytes"
        assert (only.level, only.object, only.what) == (
            Level.OK,
            "the snapshot spring",
            f"{told}; all are there",
        )
        [deep] = examine_snapshots(reader.lake, deep=True)
        assert (deep.level, deep.what) == (Level.OK, f"{told}; all are the bytes that were kept")
        rebuilt_and_vacuumed(reader, 1)


def test_a_changed_byte_is_found_by_reading_all_and_a_missing_file_at_once(
    reader: LakeReader,
) -> None:
    [file, *_] = files_of(reader)
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert [d.level for d in examine_snapshots(reader.lake)] == [Level.OK]
    [deep] = examine_snapshots(reader.lake, deep=True)
    assert (deep.level, "has other bytes" in deep.what) == (Level.ERROR, True)
    file.write_bytes(content + b"x")
    assert "has another size" in next(examine_snapshots(reader.lake)).what
    file.unlink()
    for is_deep in (False, True):
        [found] = examine_snapshots(reader.lake, deep=is_deep)
        assert (found.level, f"{file.name} is gone" in found.what) == (Level.ERROR, True)
        assert "snapshot drop spring --yes" in found.advice


def test_a_snapshot_whose_file_was_edited_is_broken_and_hides_no_other(reader: LakeReader) -> None:
    keep(reader, "twin")
    path = reader.lake.root / ".snapshots" / "spring" / "snapshot.json"
    path.write_text(path.read_text().replace('"version": 2', '"version": 1'))
    told = {d.object: d for d in examine_snapshots(reader.lake)}
    assert told["the snapshot spring"].level is Level.ERROR
    assert "is not what was written" in told["the snapshot spring"].what
    assert told["the snapshot twin"].level is Level.OK


def test_what_a_stopped_command_left_is_named(reader: LakeReader) -> None:
    (reader.lake.root / ".snapshots" / ".half.123").mkdir()
    *_, left = examine_snapshots(reader.lake)
    assert (left.level, left.object) == (Level.OK, "snapshots")
    assert left.what.startswith("left by a stopped command: .half.123")


def test_the_doctor_looks_at_snapshots(reader: LakeReader) -> None:
    def about() -> list[Diagnosis]:
        return [
            d
            for d in examine_everything(reader.lake.root, tables)
            if d.object == "the snapshot spring"
        ]

    assert [d.level for d in about()] == [Level.OK]
    files_of(reader)[0].unlink()
    assert [d.level for d in about()] == [Level.ERROR]


@pytest.mark.parametrize("by", [["order_date"], []], ids=["by the day", "not laid out"])
def test_days_of_others_equal_their_receipts_beside_a_later_column_and_rows_without_a_day(
    tmp_path: Path, by: list[str]
) -> None:
    others = Others(tmp_path, by)
    write_deltalake(others.place, orders((D1, "cid", 3), (None, "dan", 9)), mode="append")
    others.look()
    later = orders((D4, "ada", 1)).append_column("currency", pa.array(["EUR"]))
    write_deltalake(others.place, later, mode="append", schema_mode="merge")
    assert others.look() == [str(D4)]
    contracts = chosen_pipeline(others.lake).contracts
    assert [
        d.object for d in verify_tables(others.lake, contracts, WHOLE) if d.level is not Level.OK
    ] == []
    others.table().optimize.compact()
    assert others.look() == [], "files that were written again have the column now, without a value"
    assert [
        d.object for d in verify_tables(others.lake, contracts, WHOLE) if d.level is not Level.OK
    ] == []
    stated = others.lake.store.view("orders", "order_date").latest[D1].entry
    assert differing_days(
        others.lake, contracts[0], {D1: replace(stated, fingerprint="1")}, {}
    ) == [D1]
