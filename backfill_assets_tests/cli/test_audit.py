"""`audit` as a person meets it: one line per commit, JSON per day, a page and a table. No JVM."""

from pathlib import Path

from backfill_assets_tests.builders import day
from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.operations.planned import Planned


def test_writes_are_listed_by_commit_and_told_to_programs_by_day(made: Planned, tmp_path: Path) -> None:
    told = run("audit", "--plan", "p1", on=made)
    assert told.exit_code == 0, told.output
    assert f"{day(3)}..{day(4)}" in told.stdout
    assert "p1 chunk 4" in told.stdout
    unknown = run("audit", "--plan", "p9", on=made)
    assert (unknown.exit_code, "this lake has no such plan" in unknown.stderr) == (2, True)
    none = run("audit", "--since", "2999-01-01", on=made)
    assert (none.stdout, none.stderr) == ("", "No write is like that.\n")
    page, table = tmp_path / "audit.html", tmp_path / "audit.parquet"
    asked = ("--table", "staging", "--day", day(3), "--html", page, "--parquet", table)
    found = read(run("audit", *asked, "--json", on=made))
    assert [w["version"] for w in found] == [2, 1]
    assert "p1 chunk 4" in page.read_text()
    assert table.exists()
