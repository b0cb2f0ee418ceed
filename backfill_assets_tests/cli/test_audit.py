"""`audit` as a person meets it: one line per commit, JSON per day, a page and a table. No JVM."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from backfill_assets.cli.app import app
from backfill_assets_tests.builders import day
from backfill_assets_tests.cli.typed import instead
from backfill_assets_tests.operations.planned import Planned


@pytest.fixture
def made(tmp_path: Path) -> Planned:
    found = Planned(tmp_path / "lake")
    found.chunk(4, (3, 4), 9)
    return found


def test_writes_are_listed_by_commit_and_told_to_programs_by_day(made: Planned, tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["audit", "--plan", "p1"], obj=instead(made))
    assert told.exit_code == 0, told.output
    assert f"{day(3)}..{day(4)}" in told.stdout
    assert "p1 chunk 4" in told.stdout
    unknown = CliRunner().invoke(app, ["audit", "--plan", "p9"], obj=instead(made))
    assert (unknown.exit_code, "this lake has no such plan" in unknown.stderr) == (2, True)
    none = CliRunner().invoke(app, ["audit", "--since", "2999-01-01"], obj=instead(made))
    assert (none.stdout, none.stderr) == ("", "No write is like that.\n")
    page, table = tmp_path / "audit.html", tmp_path / "audit.parquet"
    asked = [
        "audit",
        "--table",
        "staging",
        "--day",
        str(day(3)),
        "--html",
        str(page),
        "--parquet",
        str(table),
        "--json",
    ]
    found = json.loads(CliRunner().invoke(app, asked, obj=instead(made)).stdout)
    assert [w["version"] for w in found] == [2, 1]
    assert "p1 chunk 4" in page.read_text()
    assert table.exists()
