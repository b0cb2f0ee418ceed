"""`prove` as a person meets it: days that nothing wrote are named.

Tested here: `cli.checks`. Not tested here: computing days again (`operations.test_prove`).
"""

from pathlib import Path

import pytest

from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.operations.readable_lake import readable_lake

pytestmark = pytest.mark.usefixtures("storages")


def test_days_that_were_not_written_are_an_error_and_no_engine_starts(tmp_path: Path) -> None:
    readable_lake(tmp_path)
    done = run("prove", "--days", "2030-01-01", "--lake", tmp_path)
    assert done.exit_code == 1
    assert "none of these days was written" in done.stderr
    assert run("prove", "--tables", "nix", "--lake", tmp_path).exit_code == 2
