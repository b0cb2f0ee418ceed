"""`mend` as a person types it: shown first, done with --yes, refused in one line where nothing is wrong. No JVM."""

from pathlib import Path

import pytest

from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.logs import commit_file
from backfill_assets_tests.operations.planned import Planned

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture
def made(tmp_path: Path) -> Planned:
    return Planned(tmp_path / "lake")


def test_a_torn_commit_is_shown_then_set_aside_and_the_days_are_as_before(made: Planned) -> None:
    version = made.write("staging", {0: 9})
    file = commit_file(made.lake.table_place("staging").local(), version)
    file.write_bytes(file.read_bytes()[:-5])
    found = run("status", on=made)
    assert (found.exit_code, "Usage" in found.output, "mend staging" in found.output) == (1, False, True), found.output
    shown = run("mend", "staging", on=made)
    assert shown.exit_code == 0, shown.output
    assert file.name in shown.stdout
    assert "Nothing was done. Add --yes to do it." in shown.stdout
    assert file.is_file()
    assert "name the table; staging of this lake's needs it" in run("mend", on=made).stderr
    assert read(run("mend", "staging", "--yes", "--json", on=made)) == {
        "done": True, "table": "staging", "aside": [file.name], "lost": [],
    }  # fmt: skip
    assert made.values("staging")[0] == 1
    assert file.with_name(f"{file.name}.torn").is_file()


def test_a_ledger_that_lost_a_file_is_mended_by_its_name(made: Planned) -> None:
    table = made.lake.table_place("arrivals").local()
    for file in (p for p in table.rglob("*.parquet") if "_delta_log" not in p.parts):
        file.unlink()
    assert "Next: backfill-assets catch-up" in run("mend", "arrivals", "--yes", on=made).stdout
    assert made.states().view.source("raw").doubted_arrivals()


@pytest.mark.parametrize(
    ("table", "told", "code"), [("staging", "nothing is wrong with it", 1), ("nobody", "no such table", 2)]
)
def test_where_nothing_is_wrong_it_is_refused_in_one_line(made: Planned, table: str, told: str, code: int) -> None:
    refused = run("mend", table, "--yes", on=made)
    assert refused.exit_code == code
    assert told in refused.output
    assert "Traceback" not in refused.output
