"""`doctor` as a person meets it: exit codes, lines, and what it leaves unread. No JVM.

Tested here: `cli.doctor`. Not tested here: the examinations (`operations.test_doctor`).
"""

from pathlib import Path

from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.operations.synthetic import START, synthetic_lake


def test_doctor_ends_with_one_when_something_is_broken(tmp_path: Path) -> None:
    lake, _ = synthetic_lake(tmp_path, 1)
    (lake.table_path("staging") / f"event_date={START}/part-1.parquet").unlink()
    result = run("doctor", "--deep", "--lake", tmp_path)
    assert result.exit_code == 1
    assert "error the table staging: 1 data file(s)" in result.stdout
    assert "error the contents of labels" in result.stdout, "a damaged table hides no other"
    shown = run("verify", "--lake", tmp_path, "--tables", "staging")
    assert (shown.exit_code, shown.stdout.splitlines()[-1]) == (1, "2 checks, 2 found something")
    assert f"backfill --force --from {START} --to {START} --tables staging`" in shown.stdout


def test_doctor_says_who_can_open_dagsters_pages(tmp_path: Path) -> None:
    synthetic_lake(tmp_path, 1)
    shown = " ".join(run("doctor", "--lake", tmp_path).stdout.split())
    assert "`dagster dev` answers every user of this machine" in shown
    assert "`backfill-assets ui` answers only who has its address" in shown
