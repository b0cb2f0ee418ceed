"""`maintain` as a person meets it.

Tested here: `maintain` of `cli.doctor`. Not tested here: what can go (`operations.test_maintain`).
"""

from datetime import timedelta
from pathlib import Path

import pytest

from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.clocks import Clock, set_to
from backfill_assets_tests.operations.planned import Planned

pytestmark = pytest.mark.usefixtures("storages")


@pytest.fixture
def made(tmp_path: Path) -> Planned:
    found = Planned(tmp_path / "lake")
    found.chunk(1, (1, 2), 2)
    return found


def test_it_shows_first_and_deletes_only_with_yes(made: Planned) -> None:
    with set_to(Clock(off=timedelta(days=120))):
        shown = run("maintain", on=made)
        assert "staging: 2 replaced data file(s)" in shown.stdout
        assert "`backfill-assets maintain --yes` does it" in shown.stdout
        done = run("maintain", "--yes", on=made)
        assert "deleted" in done.stdout
        again = run("maintain", on=made)
        assert again.stdout.startswith("Nothing can go.")
        assert again.exit_code == 0
