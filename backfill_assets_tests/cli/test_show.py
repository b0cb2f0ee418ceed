"""`show` as a person meets it: one day of one table, for people and for programs. No JVM.

Tested here: `cli.status`. Not tested here: what is collected (`operations.test_show`).
"""

import shutil
from datetime import UTC, datetime
from pathlib import Path

from backfill_assets.core.receipts import DayEntry, Receipt
from backfill_assets.lake.ledger import FILES, QUARANTINE
from backfill_assets_tests.builders import write_rows
from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.operations.synthetic import START, build, landed, synthetic_lake

WORDS = [f"{a}{b}" for a in "abc" for b in "abcdefghijk"]


def test_show_groups_reasons_and_escapes_what_turns_the_writing(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 1)
    build(lake, pipeline, "quarantine", {START: 533})
    reasons = [f"not JSON at character {n}" for n in range(500)] + [f"{word} is odd" for word in WORDS]
    rows = [
        {"arrival_date": START, "source_file": "a", "row_number": n, "text": "x", "reason": reason}
        for n, reason in enumerate(reasons)
    ]
    shutil.rmtree(lake.table_place("quarantine").local())
    entry = {START: DayEntry(len(rows), "F", "d")}
    write_rows(lake.table_place("quarantine").local(), QUARANTINE, rows, Receipt("q", "quarantine", "manual", entry))
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
