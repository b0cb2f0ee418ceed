"""Random histories of a lake end as a lake that is built anew from the same files.

Tested here: two of them, always the same. Not tested here: hundreds of others (`thorough.py`).
"""

import os
from pathlib import Path
from random import Random

import pytest

from backfill_assets_tests.benchmarks.happenings import History
from backfill_assets_tests.benchmarks.histories import play
from backfill_assets_tests.homes import make_home

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("spark")]


@pytest.mark.parametrize("seed", range(1, 1 + int(os.environ.get("BACKFILL_ASSETS_SEEDS", 2))))
def test_a_random_history_ends_as_a_lake_built_anew(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(make_home(tmp_path / "home")))
    history = History(tmp_path / "kept" / "lake", Random(seed))
    try:
        play(history, 4)
    finally:
        print("\n".join(history.story))
