"""`doctor` as a person meets it: exit codes, lines, and what it leaves unread. No JVM.

Tested here: `cli.doctor`. Not tested here: the examinations (`operations.test_doctor`).
"""

from pathlib import Path

from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.operations.late_lake import late_lake
from backfill_assets_tests.operations.synthetic import START, synthetic_lake


def test_doctor_ends_with_one_when_something_is_broken(tmp_path: Path) -> None:
    lake, _ = synthetic_lake(tmp_path, 1)
    (lake.table_place("staging").local() / f"event_date={START}/part-1.parquet").unlink()
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


def test_each_item_is_ticked_or_names_what_mends_it_and_80_columns_are_enough(tmp_path: Path) -> None:
    lake, _ = late_lake(tmp_path / "lake")
    result = run("checklist", "--lake", lake.root)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "loads:"
    assert "[x] a load is seen whole or not at all" in lines
    assert lines[lines.index("[ ] a rerun changes nothing") + 2] == "    -> backfill-assets prove --random 3"
    assert lines[-1].endswith(" of 12 hold")
    assert max(map(len, lines)) <= 80
    document = read(run("checklist", "--json", "--lake", lake.root))
    assert [i["holds"] for i in document["items"]].count(True) == int(lines[-1].split()[0])
