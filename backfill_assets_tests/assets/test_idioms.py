"""What projects do with an IO manager of Delta tables is right with ours, in every case.

Tested here: the cases of `idioms`, by `LakeIOManager`, read by deltalake. Not tested here: the
words of refusals (`test_io_manager.py`), processes of a multiprocess executor
(`test_beside_a_project.py`), and the stock managers (`benchmarks/stock_managers.py` puts both
beside each other).
"""

from collections.abc import Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.dagster import LakeIOManager, lake_checks
from backfill_assets_tests.assets.any_manager import World
from backfill_assets_tests.assets.idioms import CASES


def manager(folder: Path, evolving: bool = False) -> LakeIOManager:
    return LakeIOManager(
        lake=str(folder), schema_changes="evolve" if evolving else "refuse", default_form="arrow"
    )


def checks(asset: dg.AssetsDefinition) -> Sequence[Any]:
    return lake_checks(asset, unique=["id"])


def path(folder: Path, key: dg.AssetKey) -> Path:
    return folder / "tables" / "__".join(key.path)


@pytest.mark.parametrize("name", CASES)
def test_what_projects_do(
    name: str, lake: Path, instance: dg.DagsterInstance, request: pytest.FixtureRequest
) -> None:
    if "polars" in name and find_spec("polars") is None:
        pytest.skip("no polars here")
    with ExitStack() as stack:
        if (
            "at_once" in CASES[name].__name__
        ):  # threads that write to one storage in memory find its tables locked
            instance = stack.enter_context(dg.DagsterInstance.local_temp(str(lake.parent)))
        CASES[name](
            World(lake, instance, manager, checks, path, lambda: request.getfixturevalue("spark"))
        )
