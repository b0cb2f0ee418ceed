"""`doctor`, `verify`, `checklist`, `mend` and `maintain` as a person meets them. No JVM. Not here:
the examinations (`upkeep.test_doctor`) and what can go (`upkeep.test_maintain`)."""

from datetime import timedelta
from pathlib import Path

import pytest

from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.clocks import Clock, set_to
from backfill_assets_tests.planned import Planned
from backfill_assets_tests.synthetic import START, synthetic_lake

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture
def made(tmp_path: Path) -> Planned:
    return Planned(tmp_path / "lake")


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


def test_the_upkeep_is_shown_first_and_deletes_only_with_yes(made: Planned) -> None:
    made.chunk(1, (1, 2), 2)
    with set_to(Clock(off=timedelta(days=120))):
        shown = run("maintain", on=made)
        assert "staging: 2 replaced data file(s)" in shown.stdout
        assert "`backfill-assets maintain --yes` does it" in shown.stdout
        done = run("maintain", "--yes", on=made)
        assert "deleted" in done.stdout
        again = run("maintain", on=made)
        assert again.stdout.startswith("Nothing can go.")
        assert again.exit_code == 0
