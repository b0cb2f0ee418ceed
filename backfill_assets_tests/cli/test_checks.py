"""`controls` as a person meets it.

Tested here: `cli.checks`. Not tested here: what is found (`operations.test_controls`).
"""

from pathlib import Path

import pytest

from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.operations.readable_lake import readable_lake

pytestmark = pytest.mark.usefixtures("storages")


def test_the_outcome_is_one_line_and_the_exit_code_0(tmp_path: Path) -> None:
    readable_lake(tmp_path)
    done = run(*("controls",), "--lake", tmp_path)
    assert done.exit_code == 0, done.stderr
    assert "This lake has no controls" in done.stdout
