"""`status` and `show` as a person meets them: what is stale and why, the command that rebuilds it,
one day. No JVM. Not here: the states (`reports.test_status`), and a day
(`reports.test_show`)."""

import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from backfill_assets.intake.ledger import FILES, QUARANTINE
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.receipts import DayEntry, Provenance, Receipt
from backfill_assets.plans.rollback import RollbackRequest, roll_back
from backfill_assets_tests.builders import day, write_rows
from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.planned import Planned
from backfill_assets_tests.synthetic import START, build, landed, synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")


def test_status_draws_days_and_tables_and_collapses_long_spans(tmp_path: Path) -> None:
    synthetic_lake(tmp_path, 50)
    lines = run("status", "--lake", tmp_path).stdout.splitlines()
    assert lines[1].startswith("2024-02-26..2024-04-15 (50 days)  fresh 150 v1")
    assert "A cell is the state, the rows and the table's version (v) that wrote them." in lines
    assert "frontier: 2024-04-16T00:00:00Z" in lines


def test_status_finds_something_only_when_asked_to_check(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 4)
    assert run("status", "--lake", tmp_path, "--check").exit_code == 0
    beyond = ("--from", START, "--to", START + 9 * ONE_DAY)
    assert run("status", "--lake", tmp_path, "--check", *beyond).exit_code == 0, (
        "nothing landed: nothing makes them"
    )
    build(lake, pipeline, "staging", {START: 4})
    assert run("status", "--lake", tmp_path).exit_code == 0
    assert run("status", "--lake", tmp_path, "--check").exit_code == 1
    stale = run("status", "--lake", tmp_path, "--stale").stdout
    why = run("status", "--lake", tmp_path, "--stale", "--why").stdout
    assert run("status", "--lake", tmp_path, "--why").stdout == why != stale, (
        "who asks why need not say of what"
    )
    assert "features 2024-02-26..2024-02-28: its inputs changed since" in stale
    assert "backfill --from 2024-02-26 --to 2024-02-28 --tables features,labels" in stale


def test_what_will_change_is_marked_explained_and_part_of_the_command(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 4)
    build(lake, pipeline, "staging", {START: 4})
    told = run("status", "--lake", tmp_path).stdout
    assert re.search(r"2024-02-26 .*stale 3 v1 +fresh 3 v1 +stale 3 v1 +fresh\* 3 v1\n", told)
    assert "* will change: right today" in told
    assert "training: 4 fresh (2 will change)" in told
    stale = run("status", "--lake", tmp_path, "--stale").stdout
    assert "training 2024-02-26..2024-02-27: will change after these" in stale
    assert "--tables features,labels,training" in stale
    shown = run("show", "training", START, "--lake", tmp_path).stdout
    assert re.search(
        r"it will change: it is made from labels 2024-02-26, made again before it", shown
    )
    assert read(run("status", "--lake", tmp_path, "--json"))["will_change"] == {"training": 2}


def test_held_days_are_to_be_released_and_no_backfill_is_advised_over_them(tmp_path: Path) -> None:
    made = Planned(tmp_path / "lake")
    made.chunk(2, (3, 4), 3)
    roll_back(made.lake, made.pipeline, RollbackRequest(plan="p1", chunk="2"), Provenance(""))
    made.write("staging", {1: 5, 6: 7})
    for more in ((), ("--stale",)):
        told = run("status", "--lake", tmp_path, *more, on=made).stdout
        assert "release: backfill-assets release --plan p1 --chunk 2 --yes" in told
        assert "look:  backfill-assets plan show p1" in told
        assert f"held by the rollback of plan p1, chunk 2: staging {day(3)}..{day(4)}" in told
        advised = re.findall(r"backfill --from (\S+) --to (\S+)", told)
        assert advised, told
        assert not [span for span in advised if span[0] <= str(day(4)) and span[1] >= str(day(3))]
    (held,) = read(run("status", "--lake", tmp_path, "--json", on=made))["held"]
    assert (held["plan"], held["chunk"], held["days"]["staging"]) == (
        "p1",
        "2",
        [{"from": str(day(3)), "to": str(day(4))}],
    )


WORDS = [f"{a}{b}" for a in "abc" for b in "abcdefghijk"]


def test_show_groups_reasons_and_escapes_what_turns_the_writing(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 1)
    build(lake, pipeline, "quarantine", {START: 533})
    reasons = [f"not JSON at character {n}" for n in range(500)] + [
        f"{word} is odd" for word in WORDS
    ]
    rows = [
        {"arrival_date": START, "source_file": "a", "row_number": n, "text": "x", "reason": reason}
        for n, reason in enumerate(reasons)
    ]
    shutil.rmtree(lake.table_place("quarantine").local())
    entry = {START: DayEntry(len(rows), "F", "d")}
    write_rows(
        lake.table_place("quarantine").local(),
        QUARANTINE,
        rows,
        Receipt("q", "quarantine", "manual", entry),
    )
    bidi = {**landed(START, datetime.now(UTC)), "path": "a\u202elnosj.txt", "sha256": "b"}
    write_rows(lake.table_place("files").local(), FILES, [bidi], Receipt("f", "files", "scan", {}))
    told = run("show", "raw", START, "--lake", tmp_path)
    assert "refused   500 x not JSON at character …" in told.stdout
    assert "refused   24 for 24 other reasons: see --json" in told.stdout
    assert told.stdout.count("\n") < 30
    assert "a\\u202elnosj.txt" in told.stdout
    document = run("show", "raw", START, "--lake", tmp_path, "--json")
    assert "\u202e" not in document.stdout
    assert "a\u202elnosj.txt" in [f["path"] for f in read(document)["files"]]


def test_show_tells_people_and_programs_the_same(tmp_path: Path) -> None:
    synthetic_lake(tmp_path, 2)
    told = run("show", "staging", START, "--lake", tmp_path)
    assert told.stdout.startswith(f"staging {START}: fresh\n  rows      3, built complete")
    assert read(run("show", "staging", START, "--lake", tmp_path, "--json"))["receipt"]["rows"] == 3
    assert run("show", "nix", START, "--lake", tmp_path).exit_code == 2
