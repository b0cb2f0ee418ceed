"""A forgotten entity is in no byte of the lake, its landing folder and Dagster's home, and stays
out. Others stay.

Tested here: the command `forget` from end to end, stopped halfway and finished, by a search of its
own over all bytes. Not tested here: the steps alone (`erasure.test_forgotten`,
`erasure.test_forget_amend`, `erasure.test_landed_files`).
"""

import contextlib
import gzip
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from dagster import DagsterInstance

from backfill_assets.cli.app import app
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.erasure import forget as steps
from backfill_assets.erasure.landed_files import erase_landed_rows
from backfill_assets.intake.forgotten import all_erasures, begin_erasure
from backfill_assets.kernel.core.addresses import STATE_VARIABLE, local_root
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets_tests.homes import make_home
from backfill_assets_tests.lakes import LONG_AGO, SELECT, Cells, content, delivery, land, make_lake

ANN, NOTE = "ann-of-the-lake-77", "asked by letter"
NEAR = f"{ANN} junior"  # another entity
LATENESS = {"beyond": "quarantine", "window_days": 1}
TABLES = ("raw", "staging", "features", "features_as_known", "labels", "training")
DAYS = [f"2024-03-{n:02d}" for n in (1, 2, 3)]


def tear_and_pack(landing: Path) -> None:
    """Put half a line of ann at the end of a.jsonl, and compress b.jsonl."""
    one, two = landing / "a.jsonl", landing / "b.jsonl"
    one.write_bytes(one.read_bytes() + f'{{"entity": "{ANN}", torn\n'.encode())
    two.with_suffix(".jsonl.gz").write_bytes(gzip.compress(two.read_bytes()))
    two.unlink()
    for path in (one, two.with_suffix(".jsonl.gz")):
        os.utime(path, (LONG_AGO, LONG_AGO))


FOLDER = pytest.param("folder", marks=[pytest.mark.users_do, pytest.mark.in_turn("forget")])
BUCKET = pytest.param("bucket", marks=pytest.mark.long)


@pytest.fixture(params=[FOLDER, BUCKET])
def lake(
    spark: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    bucket_address: str,
) -> Lake:
    """A loaded lake, which lies where its landing does: plain and packed lines of three entities,
    one unreadable, a run and a snapshot that name ann."""
    monkeypatch.setenv("DAGSTER_HOME", str(make_home(tmp_path / "home")))
    rows = [
        delivery(10 * n + i, f"{d} 1{i}:00:00", None, f"{e[0]}{n}", entity=e, value=n)
        for n, d in enumerate(DAYS)
        for i, e in enumerate(("bob", ANN, NEAR))
    ]
    rows += [delivery(90, f"{DAYS[-1]} 15:00:00", f"{DAYS[0]} 15:00:00", "late", entity=NEAR)]
    select = SELECT.removeprefix("seq, ")  # seq follows the bytes
    source = {"files": "landing/**", "format": "jsonl", "select": select}
    made = make_lake(
        tmp_path / "lake",
        {"a.jsonl": rows[:6], "b.jsonl": rows[6:]},
        DAYS[0],
        source=source,
        lateness=LATENESS,
    )
    tear_and_pack(made.root / "landing")
    if request.param == "bucket":
        monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
        bucket = place_at(local_root(bucket_address))
        bucket.write(FILE_NAME, (made.root / FILE_NAME).read_bytes())
        for file in (made.root / "landing").iterdir():
            bucket.write(f"landing/{file.name}", file.read_bytes())
        made = open_lake(bucket_address)
    run(made, "backfill", "--from", DAYS[0], "--to", DAYS[-1])
    with DagsterInstance.get() as instance:
        instance.add_run_tags(instance.get_runs()[0].run_id, {"who": ANN})
    run(
        made,
        "replay-late",
        "--from",
        DAYS[0],
        "--to",
        DAYS[0],
        "--note",
        "it counts, also in a file rewritten since",
    )
    run(made, "snapshot", "create", "march", "--note", f"with {ANN}", "--unfit", "take")
    return made


def run(lake: Lake, *words: str, code: int = 0) -> Result:
    done = CliRunner().invoke(app, [*words, "--lake", lake.address])
    assert done.exit_code == code, f"{words}: {done.output}\n{done.exception!r}"
    return done


def holding(lake: Lake) -> set[Path]:
    """Every file below the lake and Dagster's home whose bytes, or what they decode to, hold
    ann."""
    roots = (lake.root, Path(os.environ["DAGSTER_HOME"]))
    paths = [p for root in roots for p in root.rglob("*") if p.is_file()]
    found = {
        p
        for p in paths
        if any(ANN.encode() in piece.replace(NEAR.encode(), b"") for piece in pieces(p))
    }
    if not lake.place.is_store:
        return found
    with tempfile.TemporaryDirectory() as folder:
        for name in lake.place.below():
            Folder(folder).copy(name, lake.place, name)
        there = holding(replace(lake, root=Path(folder)))
    return found | {lake.root / p.relative_to(folder) for p in there if p.is_relative_to(folder)}


def pieces(path: Path) -> Iterator[bytes]:
    try:
        yield (data := path.read_bytes())
    except FileNotFoundError:  # of a database that was closed meanwhile
        return
    if path.suffix == ".parquet":
        yield str(pq.ParquetFile(path).read().to_pylist()).encode()
    if path.suffix == ".gz":
        yield gzip.decompress(data)
    if data.startswith(b"SQLite format 3"):
        with contextlib.closing(sqlite3.connect(path)) as opened:
            yield "\n".join(opened.iterdump()).encode()


def others(lake: Lake) -> dict[str, list[Cells]]:
    """All rows but ann's, without what depends on the bytes of files: names of files and numbers of
    rows."""
    found = {table: [row for row in content(lake, table) if ANN not in row] for table in TABLES}
    return {
        t: sorted(tuple(c for c in row if not follows_bytes(c)) for row in rows)
        for t, rows in found.items()
    }


def follows_bytes(cell: object) -> bool:
    return cell > 10**9 if isinstance(cell, int) else len(str(cell)) == 64


def stopped_before_any_day_was_rebuilt(lake: Lake) -> None:
    """The first steps of the command, as it leaves them when it is killed."""
    trace = steps.entity_trace(lake, [ANN])
    request = steps.ForgetRequest(lake, chosen_pipeline(lake), trace, NOTE)
    erasure = begin_erasure(lake, trace.values, NOTE)
    erasure.done["others"] = steps.fingerprints_of_others(request)
    erasure.keep()
    erase_landed_rows(LakeSession(lake), trace, erasure)


def test_after_forget_no_byte_holds_the_entity_and_what_lands_of_it_later_stays_out(
    lake: Lake,
) -> None:
    before, everywhere = others(lake), holding(lake)
    places = {
        p.relative_to(lake.root).parts[0] if p.is_relative_to(lake.root) else "home"
        for p in everywhere
    }
    copies = {".bucket"} if lake.place.is_store else set()
    assert places == {"landing", ".stock", "tables", ".snapshots", "home"} | copies
    shown = run(lake, "forget", ANN, "--note", NOTE)
    assert "landing: 2 file(s) hold it" in shown.stdout
    assert holding(lake) == everywhere
    run(lake, "forget", ANN, "--note", NOTE, "--yes", code=1)

    stopped_before_any_day_was_rebuilt(lake)
    done = run(lake, "forget", ANN, "--note", NOTE, "--yes", "--drop", "snapshots")
    assert "within longer values of others" in done.stdout
    assert "still" not in done.stdout
    assert holding(lake) == set()
    assert others(lake) == before
    assert "finished_at" in all_erasures(lake)[0].done
    assert all_erasures(lake)[0].done["deleted"]["runs"] >= 1, "a run named ann"
    undo = (
        "rollback",
        "--table",
        "features",
        "--days",
        f"{DAYS[0]}..{DAYS[0]}",
        "--to-version",
        "1",
        "--over-newer",
    )
    assert "gone or altered" in " ".join(run(lake, *undo, "--yes", code=1).stderr.split())
    run(lake, "maintain", "--yes")
    run(lake, "verify", "--deep")
    if not lake.place.is_store:  # what follows is the same in both
        assert_later_rows_stay_out(lake, before)


def assert_later_rows_stay_out(lake: Lake, before: object) -> None:
    """Land rows of ann and of bob after the erasure; `before`: the rows of others then."""
    land(
        lake,
        "late.jsonl",
        [delivery(n, f"{DAYS[-1]} 20:00:00", None, f"l{n}", entity=ANN, value=n) for n in (91, 92)],
    )
    run(lake, "catch-up")
    assert others(open_lake(lake.root)) == before
    assert {p.relative_to(lake.root).parts[0] for p in holding(lake)} == {"landing", ".stock"}
    assert [row[-2:] for row in content(lake, "quarantine")] == [("", "[forgotten]")] * 2
    (left := lake.root / "notes.txt").write_text(ANN)
    run(lake, "forget", ANN, "--note", NOTE, "--yes", code=1)
    left.unlink()
    land(lake, "bob.jsonl", [delivery(95, f"{DAYS[-1]} 21:00:00", None, "later", entity="bob")])
    run(
        lake, "forget", ANN, "--note", NOTE, "--yes"
    )  # what bob delivered meanwhile is nothing that changed
    assert holding(lake) == set()


def test_a_refused_dump_that_holds_it_is_named_with_what_to_do(
    spark: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(make_home(tmp_path / "home")))
    source = {"files": "landing/**/*.jsonl", "format": "jsonl", "kind": "snapshot"}
    source["select"] = "event_key, event_ts, entity, value, flag"
    rows = [
        delivery(n, f"{DAYS[0]} 10:00:00", None, e, entity=e)
        for n, e in enumerate(("bob", "cid", "dan", ANN))
    ]
    names = [f"dt={day}/all.jsonl" for day in DAYS[:2]]
    made = make_lake(
        tmp_path / "lake", {names[0]: rows, names[1]: rows[3:]}, DAYS[0], source=source
    )
    run(made, "catch-up")
    said = " ".join(run(made, "forget", ANN, "--note", NOTE, "--yes", code=1).stderr.split())
    assert (
        f"landing/{names[1]} was refused whole (the dump of 2024-03-02 lacks 3 of 4 key(s)" in said
    )
    assert "Take its rows out of the file, or delete the file" in said
    (made.root / "landing" / names[1]).unlink()
    run(made, "forget", ANN, "--note", NOTE, "--yes")
    assert holding(made) == set()
    assert {cell for row in content(made, "raw") for cell in row} >= {"bob", "cid", "dan"}
