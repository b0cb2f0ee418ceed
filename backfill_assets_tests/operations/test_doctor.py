"""What the doctor finds in lakes that were hurt on purpose. No JVM."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.receipts import Receipt
from backfill_assets.engine.cache import CACHE_VARIABLE, jars_folder
from backfill_assets.lake.folder import VERSIONS
from backfill_assets.lake.home import Lake
from backfill_assets.lake.ledger import FILES
from backfill_assets.lake.versions import record
from backfill_assets.operations.doctor import doctor
from backfill_assets.operations.doctor_tables import Diagnosis, Level
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.builders import make_commit, write_rows
from backfill_assets_tests.logs import commit_file
from backfill_assets_tests.operations.synthetic import START, build, landed, synthetic_lake
from backfill_assets_tests.own import TWO_SOURCES
from backfill_assets_tests.strangers import give_away

WITHDRAWN = datetime(2027, 1, 2, tzinfo=UTC)
STAGED = f"event_date={START}/part-1.parquet"


def _about(lake: Lake, object: str) -> list[Diagnosis]:
    return [d for d in doctor(lake.root, tables) if d.object == object]


def _staging(lake: Lake) -> Path:
    return lake.table_place("staging").local()


def test_a_healthy_lake_has_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    jars_folder().mkdir(parents=True)
    (jars_folder() / "delta.jar").touch()
    lake, _ = synthetic_lake(tmp_path, 3)
    assert [d for d in doctor(lake.root, tables) if d.level is not Level.OK] == []


def test_the_version_that_readers_see_is_told_and_a_damaged_entry_is_an_error(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 1)
    number = record(lake, pipeline.contracts, "made").number
    [found] = _about(lake, "the lake's log")
    assert (found.level, found.what.startswith("readers see lake version 1 of ")) == (Level.OK, True)
    (tmp_path / VERSIONS / f"{number:020d}.json").write_text("{")
    [damaged] = [d for d in doctor(lake.root, tables) if "of its log is not what was written" in d.what]
    assert damaged.level is Level.ERROR


def test_a_cache_where_others_may_put_programs_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, _ = synthetic_lake(tmp_path / "lake", 1)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    (found,) = _about(lake, f"the cache {tmp_path / 'cache'}")
    assert (found.level, "may be written by everyone" in str(found)) == (Level.ERROR, True)


def test_a_lake_that_this_user_may_only_read_is_named_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthetic_lake(tmp_path, 1)
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path) != tmp_path)
    [found] = [d for d in doctor(tmp_path, tables) if "commands that write are refused" in d.what]
    assert (found.object, found.level) == (str(tmp_path), Level.WARN)


def test_a_lake_of_another_user_is_a_finding_and_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, _ = synthetic_lake(tmp_path / "lake", 1)
    (lake.root / "lake.toml").write_text("no TOML")
    give_away(lake.root / "lake.toml", monkeypatch)
    (found,) = _about(lake, f"the lake {lake.root}")
    assert (found.level, "belongs to" in str(found)) == (Level.ERROR, True)


def test_what_is_wrong_with_a_named_source_is_told_of_its_own_section(tmp_path: Path) -> None:
    written = TWO_SOURCES.replace("landing/*.csv", "landing/{a}/*.csv", 1).replace("landing/*.csv", "none/*.csv")
    (tmp_path / "lake.toml").write_text(written)
    told = doctor(tmp_path, tables)
    (pattern,) = [d for d in told if "braces" in d.what]
    assert pattern.object == "[sources.events] files = 'landing/{a}/*.csv'"
    (absent,) = [d for d in told if d.what == "its folder does not exist"]
    assert absent.advice == "Make it, or correct [sources.truth] files in lake.toml"


def _tear(lake: Lake) -> None:
    path = commit_file(_staging(lake), 1)
    path.write_text(path.read_text()[:-40])


def _gap(lake: Lake) -> None:
    make_commit(_staging(lake), 3)


def _lose(lake: Lake) -> None:
    (_staging(lake) / STAGED).unlink()


def _cut(lake: Lake) -> None:
    (_staging(lake) / STAGED).write_bytes(b"PA")


def _write_elsewhere(lake: Lake) -> None:
    add = {"path": STAGED, "size": 4, "dataChange": True, "partitionValues": {"event_date": str(START)}}
    make_commit(_staging(lake), 2, actions=[{"add": {**add, "stats": '{"numRecords": 3}'}}])


@pytest.mark.parametrize(
    ("hurt", "level", "told"),
    [
        (_tear, Level.ERROR, "version 1 of its log is torn (the newest"),
        (_gap, Level.ERROR, "its log lacks version(s) 2"),
        (_lose, Level.ERROR, "1 data file(s) of its newest version are gone"),
        (_cut, Level.ERROR, "1 data file(s) have another size than written"),
        (_write_elsewhere, Level.WARN, "version(s) 2 changed data and are not ours"),
    ],
)
def test_a_hurt_table_is_told_with_what_to_do(
    tmp_path: Path, hurt: Callable[[Lake], None], level: Level, told: str
) -> None:
    lake, _ = synthetic_lake(tmp_path, 2)
    hurt(lake)
    found = _about(lake, "the table staging")
    assert [d.level for d in found] == [level]
    assert told in found[0].what
    assert found[0].advice


def test_a_ledger_that_another_program_changed_is_told_with_the_load_that_mends_it(tmp_path: Path) -> None:
    lake, _ = synthetic_lake(tmp_path, 2)
    arrivals = DeltaTable(str(lake.table_place("arrivals").local()))
    arrivals.delete(f"arrival_date = '{START}'")
    (found,) = _about(lake, "the table arrivals")
    assert found.level is Level.WARN
    assert "backfill-assets backfill --from" in found.advice
    assert "--tables raw" in found.advice


def test_rows_that_differ_from_the_receipts_are_told_with_the_command_that_mends_them(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 3)
    build(lake, pipeline, "staging", {START + ONE_DAY: 4})  # adds a file without removing the old one
    (found,) = _about(lake, "the table staging")
    assert f"{START + ONE_DAY}: 7 rows, receipt 4" in found.what
    assert f"--force --from {START + ONE_DAY} --to {START + ONE_DAY} --tables staging" in found.advice


def test_a_table_that_the_pipeline_lacks_is_told_and_a_ledger_of_late_rows_is_none(tmp_path: Path) -> None:
    lake, _ = synthetic_lake(tmp_path, 1)
    make_commit(lake.tables / "too_late", 0)
    make_commit(lake.tables / "down", 0)
    (found,) = _about(lake, "the tables")
    assert (found.level, found.what.split(":")[0]) == (Level.WARN, "the pipeline lacks down")
    assert found.advice == f"Declare them again, or move their folders out of {lake.tables}"


def test_files_of_no_version_are_counted_and_do_no_harm(tmp_path: Path) -> None:
    lake, _ = synthetic_lake(tmp_path, 1)
    (_staging(lake) / "event_date=2024-01-01-x.parquet").write_bytes(b"12345")
    levels = {d.what.split(":")[0]: d.level for d in _about(lake, "the table staging")}
    assert levels["1 data file(s), 5 bytes, belong to no version"] is Level.OK


def test_a_missing_landed_file_is_an_error_until_it_is_accepted(tmp_path: Path) -> None:
    lake, _ = synthetic_lake(tmp_path, 2)
    (tmp_path / "landing" / f"{START}.jsonl").unlink()
    (tmp_path / "landing" / "notes.txt").write_text("x")
    found = _about(lake, "the landing landing/**/*.jsonl")
    assert [d.level for d in found] == [Level.ERROR, Level.WARN, Level.OK]
    assert "landing accept --note" in found[0].advice
    assert "notes.txt" in found[1].what


def test_a_landing_folder_that_cannot_be_listed_is_no_reason_to_withdraw_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, _ = synthetic_lake(tmp_path, 2)
    real = os.scandir

    def refuse(folder: Path) -> object:
        if Path(folder).name == "landing":
            raise PermissionError(13, "Permission denied", str(folder))
        return real(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    missing, unread, *_ = _about(lake, "the landing landing/**/*.jsonl")
    assert (missing.level, "accept" in missing.advice) == (Level.ERROR, False)
    assert "the folder cannot be listed (Permission denied)" in unread.what


def test_more_rows_than_landed_break_the_ledger(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 2)
    build(lake, pipeline, "quarantine", {START: 1})
    (found,) = _about(lake, "the ledger")
    assert found.level is Level.ERROR
    assert f"1 loaded day(s) do not add up ({START}); {START}: 1 row(s) more than landed" in found.what


def test_bad_settings_end_the_examination_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "lake.toml").write_text("start_date = 7")
    assert doctor(tmp_path, tables)[-1].level is Level.ERROR
    assert "start_date" in doctor(tmp_path, tables)[-1].what


def test_settings_that_name_a_table_that_is_not_there_are_no_valid_ones(tmp_path: Path) -> None:
    """As every other command says it."""
    lake, _ = synthetic_lake(tmp_path, 1)
    with (lake.root / "lake.toml").open("a") as settings:
        settings.write("[gates.tables.nope]\n")
    found = doctor(lake.root, tables)
    assert [d.object for d in found if "lake.toml" in d.object] == [str(lake.root / "lake.toml")]
    assert (found[-1].level, "names nope" in found[-1].what) == (Level.ERROR, True)


def test_rows_of_a_withdrawn_file_that_are_still_loaded_are_told_as_less(tmp_path: Path) -> None:
    lake, _ = synthetic_lake(tmp_path, 3)
    gone = {**landed(START, WITHDRAWN), "event": "withdrawn"}
    write_rows(lake.table_place(FILES.name).local(), FILES, [gone], Receipt("f", FILES.name, "accept", {}))
    (told,) = [d for d in _about(lake, "the ledger") if "landed rows" in d.what]
    assert "less 3 loaded from files, or by settings, that no longer count" in told.what
