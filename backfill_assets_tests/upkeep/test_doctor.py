"""What the doctor finds in lakes that were hurt on purpose, each fault by its object, its level and
what to do. Not here: what becomes of a table's data and log (`test_doctor_verify`,
`test_doctor_tables`)."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from backfill_assets.cli.dagster_names import EVENT_STORAGE, KEEPS_BACKFILLS
from backfill_assets.cli.findings import Diagnosis, Level
from backfill_assets.engines.cache import CACHE_VARIABLE, jars_folder
from backfill_assets.intake.ledger import FILES
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.receipts import Receipt
from backfill_assets.kernel.tables.folder import VERSIONS
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.versions import record_versions
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.pipeline.tables import tables
from backfill_assets.upkeep.doctor import examine_daemons, examine_everything
from backfill_assets_tests.builders import make_commit, write_rows
from backfill_assets_tests.own import TWO_SOURCES
from backfill_assets_tests.strangers import give_away
from backfill_assets_tests.synthetic import START, build, landed, synthetic_lake

Harm = Callable[[Lake, Pipeline, pytest.MonkeyPatch], object]
SECOND = START + ONE_DAY


def about(lake: Lake, named: str) -> list[Diagnosis]:
    return [d for d in examine_everything(lake.root, tables) if d.object == named]


def staging(lake: Lake) -> Path:
    return lake.table_place("staging").local()


def open_cache(lake: Lake, _: Pipeline, patch: pytest.MonkeyPatch) -> None:
    (lake.root / "cache").mkdir()
    (lake.root / "cache").chmod(0o777)
    patch.setenv(CACHE_VARIABLE, str(lake.root / "cache"))


def give_settings_away(lake: Lake, _: Pipeline, patch: pytest.MonkeyPatch) -> None:
    (lake.root / "lake.toml").write_text("no TOML, which nobody looks at")
    give_away(lake.root / "lake.toml", patch)


def damage_a_version(lake: Lake, pipeline: Pipeline, _: pytest.MonkeyPatch) -> None:
    number = record_versions(lake, pipeline.contracts, "made").number
    assert about(lake, "the lake's log")[0].what.startswith("readers see lake version 1 of ")
    (lake.root / VERSIONS / f"{number:020d}.json").write_text("{")


def name_no_table(lake: Lake, *_: object) -> None:
    with (lake.root / "lake.toml").open("a") as settings:
        settings.write("[gates.tables.nope]\n")


def withdraw(lake: Lake, *_: object) -> None:
    gone = {**landed(START, datetime(2027, 1, 2, tzinfo=UTC)), "event": "withdrawn"}
    write_rows(
        lake.table_place(FILES.name).local(), FILES, [gone], Receipt("f", FILES.name, "accept", {})
    )


def delete_arrivals(lake: Lake, *_: object) -> None:
    DeltaTable(str(lake.table_place("arrivals").local())).delete(f"arrival_date = '{START}'")


HARMS: dict[str, tuple[Harm, str, Level, tuple[str, ...]]] = {
    "others may put programs into the cache": (
        open_cache,
        "the cache {root}/cache",
        Level.ERROR,
        ("may be written by everyone",),
    ),
    "this user may only read": (
        lambda lake, _, patch: patch.setattr(
            os, "access", lambda path, _mode: Path(path) != lake.root
        ),
        "{root}",
        Level.WARN,
        ("commands that write are refused",),
    ),
    "it is another user's": (give_settings_away, "the lake {root}", Level.ERROR, ("belongs to",)),
    "a damaged lake version": (
        damage_a_version,
        "the lake {root}",
        Level.ERROR,
        ("of its log is not what was written",),
    ),
    "settings name no table": (name_no_table, "{root}/lake.toml", Level.ERROR, ("names nope",)),
    "a gap in a log": (
        lambda lake, *_: make_commit(staging(lake), 3),
        "the table staging",
        Level.ERROR,
        ("its log lacks version(s) 2",),
    ),
    "a cut data file": (
        lambda lake, *_: (staging(lake) / f"event_date={START}/part-1.parquet").write_bytes(b"PA"),
        "the table staging",
        Level.ERROR,
        ("1 data file(s) have another size than written",),
    ),
    "another program changed the ledger": (
        delete_arrivals,
        "the table arrivals",
        Level.WARN,
        ("backfill-assets backfill --from", "--tables raw"),
    ),
    "rows differ from receipts": (  # a file is added, and the old one not removed
        lambda lake, pipeline, _: build(lake, pipeline, "staging", {SECOND: 4}),
        "the table staging",
        Level.ERROR,
        (f"{SECOND}: 7 rows, receipt 4", f"--force --from {SECOND} --to {SECOND} --tables staging"),
    ),
    "a table that the pipeline lacks": (
        lambda lake, *_: [make_commit(lake.tables / name, 0) for name in ("too_late", "down")],
        "the tables",
        Level.WARN,
        (
            "the pipeline lacks down:",
            "Declare them again, or move their folders out of {root}/tables",
        ),
    ),
    "files of no version": (
        lambda lake, *_: (staging(lake) / "event_date=2024-01-01-x.parquet").write_bytes(b"12345"),
        "the table staging",
        Level.OK,
        ("1 data file(s), 5 bytes, belong to no version",),
    ),
    "more rows than landed": (
        lambda lake, pipeline, _: build(lake, pipeline, "quarantine", {START: 1}),
        "the ledger",
        Level.ERROR,
        (f"1 loaded day(s) do not add up ({START}); {START}: 1 row(s) more than landed",),
    ),
    "rows of a withdrawn file are loaded": (
        withdraw,
        "the ledger",
        Level.OK,
        ("less 3 loaded from files, or by settings, that no longer count",),
    ),
}


@pytest.mark.parametrize("name", HARMS)
def test_a_harm_is_told_by_its_object_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    harm, named, level, told = HARMS[name]
    lake, pipeline = synthetic_lake(tmp_path, 2)
    harm(lake, pipeline, monkeypatch)
    found = [d for d in about(lake, named.format(root=tmp_path)) if d.level is level]
    assert level is Level.OK or len(found) == 1, (
        f"a harm is told once, and a check that meets what another one tells says nothing: {found}"
    )
    wanted = [text.format(root=tmp_path) for text in told]
    assert any(all(text in f"{d.what} {d.advice}" for text in wanted) for d in found), found
    assert level is Level.OK or found[0].advice


def test_a_healthy_lake_has_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    jars_folder().mkdir(parents=True)
    (jars_folder() / "delta.jar").touch()
    lake, _ = synthetic_lake(tmp_path, 3)
    assert [d for d in examine_everything(lake.root, tables) if d.level is not Level.OK] == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", True),
        ("telemetry:\n  enabled: false\n", True),
        (f"{EVENT_STORAGE}\n", False),
        ("storage: {}\n", False),
    ],
)
def test_a_home_of_dagster_that_names_no_storage_of_events_is_told_the_line(
    text: str, told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home := tmp_path / "home").mkdir()
    (home / "dagster.yaml").write_text(text)
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    lake, _ = synthetic_lake(tmp_path, 2)
    found = about(lake, f"Dagster's {home / 'dagster.yaml'}")
    assert [d.advice for d in found] == [
        f"Stop Dagster's programs, then add this line: {EVENT_STORAGE}"
    ] * told


def test_what_is_wrong_with_a_named_source_is_told_of_its_own_section(tmp_path: Path) -> None:
    written = TWO_SOURCES.replace("landing/*.csv", "landing/{a}/*.csv", 1).replace(
        "landing/*.csv", "none/*.csv"
    )
    (tmp_path / "lake.toml").write_text(written)
    told = examine_everything(tmp_path, tables)
    (pattern,) = [d for d in told if "braces" in d.what]
    assert pattern.object == "[sources.events] files = 'landing/{a}/*.csv'"
    (absent,) = [d for d in told if d.what == "its folder does not exist"]
    assert absent.advice == "Make it, or correct [sources.truth] files in lake.toml"


def test_a_missing_landed_file_is_an_error_until_it_is_accepted(tmp_path: Path) -> None:
    lake, _ = synthetic_lake(tmp_path, 2)
    (tmp_path / "landing" / f"{START}.jsonl").unlink()
    (tmp_path / "landing" / "notes.txt").write_text("x")
    found = about(lake, "the landing landing/**/*.jsonl")
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
    missing, unread, *_ = about(lake, "the landing landing/**/*.jsonl")
    assert (missing.level, "accept" in missing.advice) == (Level.ERROR, False)
    assert "the folder cannot be listed (Permission denied)" in unread.what


def test_bad_settings_end_the_examination_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "lake.toml").write_text("start_date = 7")
    last = examine_everything(tmp_path, tables)[-1]
    assert (last.level, "start_date" in last.what) == (Level.ERROR, True)


@pytest.mark.parametrize(
    ("home", "variable", "told"),
    [("here", "", True), ("here", "1", False), ("elsewhere", "", False)],
)
def test_a_daemon_that_ends_backfills_while_the_code_server_is_away_is_told(
    home: str, variable: str, told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "here"))
    environ = {"DAGSTER_HOME": f"{tmp_path / home}/", KEEPS_BACKFILLS: variable}
    found = list(
        examine_daemons(lambda program: [(7, environ)] if program == "dagster-daemon" else [])
    )
    assert [f.level for f in found] == [Level.WARN] * told
    assert all("process 7" in str(f) and f"{KEEPS_BACKFILLS}=1" in str(f) for f in found)
