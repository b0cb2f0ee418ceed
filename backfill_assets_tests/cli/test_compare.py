"""`compare` as a person meets it: lines, JSON, a page, and an exit code for columns that were to be left alone.

Not tested here: what is compared (`operations.test_compare`).
"""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from backfill_assets.cli.app import app
from backfill_assets_tests.builders import day
from backfill_assets_tests.cli.typed import instead
from backfill_assets_tests.operations.planned import Planned

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture
def made(tmp_path: Path) -> Planned:
    found = Planned(tmp_path / "lake")
    found.chunk(4, (3, 4), 9)
    return found


def run(made: Planned, *more: object) -> Result:
    base = ["compare", "--table", "staging", "--days", f"{day(0)}..{day(7)}"]
    return CliRunner().invoke(app, [*base, *map(str, more)], obj=instead(made))


def test_days_columns_and_samples_are_told(made: Planned, tmp_path: Path) -> None:
    told = run(made, "--from-version", 1)
    assert told.exit_code == 0, told.output
    assert "version 1 to 2: 2 of 8 day(s) differ: 0 row(s) added, 0 removed, 2 changed" in told.stdout
    assert "value=1" in told.stdout
    page = tmp_path / "compare.html"
    found = json.loads(run(made, "--from-version", 1, "--json", "--html", page).stdout)
    assert [d["day"] for d in found["days"]] == [str(day(3)), str(day(4))]
    assert found["statistic"] == "population stability index"
    assert "value=9" in page.read_text()


def test_a_column_that_was_to_be_left_alone_ends_with_exit_code_1(made: Planned) -> None:
    assert run(made, "--from-version", 1, "--meant", "value").exit_code == 0
    result = run(made, "--from-version", 1, "--meant", "entity")
    assert result.exit_code == 1
    assert "Not meant to change and changed all the same: value" in result.stdout


@pytest.mark.parametrize(
    ("args", "told"),
    [((), "say what to compare with"), (("--from-version", 1, "--from-time", "2024-03-01"), "give one of them")],
)
def test_what_cannot_be_meant_is_wrong_usage(made: Planned, args: tuple[object, ...], told: str) -> None:
    result = run(made, *args)
    assert result.exit_code == 2
    assert told in result.output
