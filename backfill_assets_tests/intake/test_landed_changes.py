"""The landing folder against the ledger: what is new, altered, missing or unchanged, said by
content; and the report of a scan. Not here: what a scan appends (`test_scan`)."""

import json
import os
from dataclasses import replace
from datetime import UTC, date, datetime
from hashlib import sha256
from pathlib import Path

import pytest

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.intake import files as landed_files
from backfill_assets.intake.content_store import content_name_by_path
from backfill_assets.intake.files import Hashes, LandedFile, file_sha256
from backfill_assets.intake.landed_changes import (
    Comparison,
    ScanReport,
    compare_listing,
    counting_digest,
    renamed_records,
    unneeded_copies,
)
from backfill_assets.intake.landed_changes import compare_sources as look
from backfill_assets.intake.ledger import FILES, FileRecord, RowCounts
from backfill_assets.intake.listing import list_landing
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.receipts import Receipt
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets_tests.builders import write_rows
from backfill_assets_tests.landed import land, stock
from backfill_assets_tests.synthetic import START, landed, synthetic_lake
from backfill_assets_tests.tables import settings_text

DAY = date(2024, 3, 5)
SEEN = datetime(2024, 3, 10, tzinfo=UTC)


def recorded(
    folder: Path, name: str, content: bytes, usable: int = 1, withdrawn: bool = False
) -> FileRecord:
    """The record of a file that was scanned with this content."""
    file = land(folder, name, content)
    digest = sha256(content).hexdigest()
    return FileRecord(
        name,
        digest,
        file.size,
        file.mtime_ns,
        SEEN,
        DAY,
        {DAY: RowCounts(1, 1 - usable, usable)},
        withdrawn,
    )


def compared(folder: Path, *records: FileRecord) -> Comparison:
    hashes = Hashes(stock(folder.parent))
    found = compare_listing(list_landing("**", folder, "csv"), records, hashes)
    hashes.keep()
    return found


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were hashed."""
    names: list[str] = []

    def counting(file: LandedFile) -> str:
        names.append(file.name)
        return file_sha256(file)

    monkeypatch.setattr(landed_files, "file_sha256", counting)
    return names


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "landing"


def test_a_touched_or_altered_file_is_hashed_once_and_not_at_every_look(
    folder: Path, hashed: list[str]
) -> None:
    same, other = recorded(folder, "a.csv", b"1"), recorded(folder, "b.csv", b"2")
    land(folder, "b.csv", b"3")
    for name, moment in (("a.csv", 1), ("b.csv", 4_000_000_000)):
        os.utime(folder / name, (moment, moment))
    for _ in range(3):
        assert compared(folder, same, other) == Comparison([], [other], [], [])
    assert sorted(hashed) == ["a.csv", "b.csv"]
    os.utime(folder / "a.csv", (2, 2))
    compared(folder, same, other)
    assert sorted(hashed) == ["a.csv", "a.csv", "b.csv"]


def test_a_scan_names_contents_as_todays_select_does_if_another_counted_them(
    folder: Path, hashed: list[str]
) -> None:
    made = synthetic_lake(folder.parent / "lake", 1)[0].settings
    by_arrival, by_path = (
        made.model_copy(update={"single": made.source.model_copy(update={"select": select})})
        for select in ("a AS arrival_ts", "a AS event_ts")
    )
    named = (("a.csv", b"1"), ("b.csv", b"1"), ("c.csv", b"2"))
    records = [recorded(folder, name, text) for name, text in named]
    by_their_paths = [replace(r, sha256=content_name_by_path(r.sha256, r.path)) for r in records]
    listing, hashes = list_landing("**", folder, "csv"), Hashes(Folder(str(folder)))

    def found(settings: LakeSettings, known: list[FileRecord]) -> list[FileRecord]:
        return renamed_records(settings, listing, known, hashes)

    assert found(by_path, records) == records
    assert found(by_arrival, by_their_paths) == by_their_paths
    assert found(by_path, by_their_paths) == found(by_arrival, records) == []
    for settings, kept in ((by_path, records), (by_arrival, by_their_paths)):
        hashed.clear()
        counted = [replace(r, counted_by=f"{counting_digest(settings)} totals") for r in kept]
        assert found(settings, counted) == counted[: 2 if settings is by_path else 0], (
            "copies cannot be loaded"
        )
        assert "c.csv" not in hashed
        assert found(settings, [replace(r, withdrawn=True) for r in kept]) == []
    comparison = compare_listing(listing, records, hashes, records[:2])
    assert ([f.name for f in comparison.fresh], comparison.renamed) == (
        ["a.csv", "b.csv"],
        records[:2],
    )
    assert not comparison.disputed, "nobody is asked to accept files that are as they were"


def test_a_file_that_moved_is_new_at_its_new_place_and_not_missing_once_that_is_recorded(
    folder: Path,
) -> None:
    old = recorded(folder, "old.csv", b"1")
    new = recorded(folder, "new.csv", b"1")
    (folder / "old.csv").unlink()
    found = compared(folder, old)
    assert ([f.name for f in found.fresh], found.missing) == (["new.csv"], [old])
    assert compared(folder, old, new) == Comparison([], [], [], [old])


@pytest.mark.parametrize("is_used", [False, True])
def test_a_file_without_a_usable_row_may_change_and_vanish_unless_raw_has_it(
    folder: Path, is_used: bool
) -> None:
    used = frozenset({DAY} if is_used else ())
    changed, gone = (
        replace(recorded(folder, n, b"1", usable=0), used_days=used) for n in ("a.csv", "b.csv")
    )
    land(folder, "a.csv", b"3!")
    (folder / "b.csv").unlink()
    found = compared(folder, changed, gone)
    assert [f.name for f in found.fresh] == ([] if is_used else ["a.csv"])
    wanted = ([changed], [gone], []) if is_used else ([], [], [changed, gone])
    assert (found.altered, found.missing, found.lapsed) == wanted


def test_a_copy_can_go_while_the_landing_folder_has_its_file_and_its_days_are_old(
    tmp_path: Path,
) -> None:
    synthetic_lake(tmp_path, 4)
    lake_session = LakeSession(open_lake(tmp_path))
    days = [START + ONE_DAY * n for n in range(4)]
    for day in (*days, date(2024, 1, 1)):  # no record names the last content
        land(tmp_path / ".stock", f"{landed(day, SEEN)['sha256']}.jsonl-1.parquet", b"parsed")
        land(tmp_path / ".stock", f"{landed(day, SEEN)['sha256']}.json", b"{}")
    (tmp_path / "landing" / f"{days[0]}.jsonl").unlink()
    (tmp_path / "landing" / f"{days[1]}.jsonl").touch()
    assert unneeded_copies(lake_session, days[3]) == {landed(days[2], SEEN)["sha256"]: 8}
    assert unneeded_copies(lake_session, days[2]) == {}


DAYS = 3


def count(lake: Lake) -> None:
    """All landed files are recorded as counted by today's settings."""
    first, today = datetime(2026, 1, 1, tzinfo=UTC), counting_digest(lake.settings)
    again = {"counted_by": today, "recorded_at": first + ONE_DAY}
    rows = [landed(START + ONE_DAY * i, first) | again for i in range(DAYS)]
    write_rows(
        lake.table_place(FILES.name).local(), FILES, rows, Receipt("again", FILES.name, "scan", {})
    )


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    found, _ = synthetic_lake(tmp_path, DAYS)
    count(found)
    return found


def test_files_that_were_counted_on_another_engine_need_one(lake: Lake) -> None:
    """Sail refuses values that Spark reads: after a change, the count of unusable rows would be
    another engine's."""
    text = (lake.root / "lake.toml").read_text()
    (lake.root / "lake.toml").write_text(f'{text}[spark]\nengine = "sail"\n')
    assert look(LakeSession(open_lake(lake.root))).counts_rows


@pytest.mark.parametrize("what", ["landed", "altered", "gone"])
def test_a_file_that_landed_changed_or_went_needs_one(lake: Lake, what: str) -> None:
    known = lake.root / "landing" / f"{START}.jsonl"
    if what == "gone":
        known.unlink()
    else:
        path = known if what == "altered" else known.with_name("new.jsonl")
        path.write_text('{"more": 1}\n')
        os.utime(path, (1, 1))
    found = look(LakeSession(lake))
    assert not found.is_scanned
    assert (found.counts_rows, bool(found.disputed)) == (what == "landed", what != "landed"), (
        "no engine for what is refused"
    )


def test_a_table_that_lies_elsewhere_is_named_by_its_path_beside_the_contents_that_lack(
    tmp_path: Path,
) -> None:
    (tmp_path / "deeper" / "lake").mkdir(parents=True)
    (tmp_path / "deeper" / "lake" / "lake.toml").write_text(settings_text("../orders"))
    lake = open_lake(tmp_path / "deeper" / "lake")
    assert look(LakeSession(lake)).refused == [], "nothing was loaded, so the table may come later"
    rows = [landed(START, datetime(2026, 1, 1, tzinfo=UTC))]
    write_rows(
        lake.table_place(FILES.name).local(), FILES, rows, Receipt("w", FILES.name, "scan", {})
    )
    found = look(LakeSession(lake))
    (refused,) = found.refused
    assert (len(found.missing), refused.name) == (1, "../orders")
    assert f"nothing lies at {tmp_path}/deeper/lake/../orders: " in refused.reason
    assert "correct [source] table" in refused.reason


def test_a_content_that_a_log_names_is_held_against_the_record_by_that_name(
    folder: Path, hashed: list[str]
) -> None:
    record = recorded(folder, "a.csv", b"1")
    listing, hashes = list_landing("**", folder, "csv"), Hashes(stock(folder.parent))
    for named, altered in ((record.sha256, []), ("f" * 64, [record])):
        files = tuple(replace(file, sha256=named) for file in listing.files)
        assert compare_listing(replace(listing, files=files), [record], hashes).altered == altered
    assert not hashed


@pytest.mark.parametrize(
    "report",
    [
        ScanReport(altered=("a.csv",)),
        ScanReport(missing=("a.csv",)),
        ScanReport(refused={"a.csv": "a link out of the folder"}),
        ScanReport(unreadable={"a.csv": "not UTF-8"}),
    ],
    ids=["altered", "missing", "refused", "unreadable"],
)
def test_a_report_with_a_contradiction_asks_for_a_person(report: ScanReport) -> None:
    assert not report.is_clean


def test_a_report_is_json_with_days_in_order() -> None:
    report = ScanReport(
        new={"a.csv": (3, 1)}, altered=("b.csv",), blocked=frozenset({DAY + ONE_DAY, DAY}), known=2
    )
    told = json.loads(json.dumps(report.to_dict()))
    assert told["new"] == {"a.csv": {"rows": 3, "bad_rows": 1}}
    assert told["altered"] == ["b.csv"]
    assert told["let_go"] == []
    assert told["blocked_days"] == ["2024-03-05", "2024-03-06"]
    assert json.loads(json.dumps(replace(report, known=9).to_dict()))["known"] == 9
