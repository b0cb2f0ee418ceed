"""The cases of `assets/idioms.py` by our IO manager and by the stock one for Delta tables, as one
table.

    python -m backfill_assets_tests.benchmarks.stock_managers table PYTHON_OF_OURS
    PYTHON_OF_THE_STOCK_ONE
    python -m backfill_assets_tests.benchmarks.stock_managers ours|stock    # one column, as JSON, by this Python

The stock one is `DeltaLakeIOManager` of dagster-deltalake with the type handlers of
dagster-deltalake-pandas and -polars, in an environment of its own that finds these tests on its
path: `pip install dagster-deltalake-pandas dagster-deltalake-polars`. Ours needs polars for one
case. Lives here: both managers, and the table. Does not live here: the cases. Not run by the suite,
which puts ours to them (`assets/test_idioms.py`).
"""

import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import dagster as dg

from backfill_assets_tests.assets.any_manager import World, Wrong
from backfill_assets_tests.assets.idioms import CASES

PACKAGES = "dagster_deltalake", "dagster_deltalake_pandas", "dagster_deltalake_polars"
LONGEST = 150  # letters of what a manager does instead


def stock(folder: Path, instance: dg.DagsterInstance) -> World:
    """A project with the stock manager."""
    base, pandas, polars = map(import_module, PACKAGES)

    class Stock(base.DeltaLakeIOManager):  # type: ignore[misc, name-defined]  # it is in another environment
        """All of its type handlers."""

        @staticmethod
        def type_handlers() -> Sequence[Any]:
            """Arrow, pandas and polars."""
            frames = pandas.DeltaLakePandasTypeHandler(), polars.DeltaLakePolarsTypeHandler()
            return [base.handler.DeltaLakePyArrowTypeHandler(), *frames]

    def manager(root: Path, evolving: bool = False) -> Any:
        return Stock(
            root_uri=str(root), storage_options=base.LocalConfig(), overwrite_schema=evolving
        )

    def path(root: Path, key: dg.AssetKey) -> Path:
        return root / (key.path[-2] if len(key.path) > 1 else "public") / key.path[-1]

    def checks(asset: dg.AssetsDefinition) -> Sequence[Any]:
        @dg.asset_check(asset=asset.key, name="unique", blocking=True)
        def unique() -> dg.AssetCheckResult:
            found = world.rows(*asset.key.path)
            return dg.AssetCheckResult(passed=len({row[:2] for row in found}) == len(found))

        return [unique]

    world = World(folder, instance, manager, checks, path, lambda: None)
    return world


def ours(folder: Path, instance: dg.DagsterInstance) -> World:
    """A project with ours; Spark is a session of the project's own."""
    from backfill_assets_tests.assets.test_idioms import checks, manager, path

    def spark() -> Any:
        from pyspark.sql import SparkSession

        return (
            SparkSession.builder.master("local[1]")
            .config("spark.ui.enabled", "false")
            .getOrCreate()
        )

    return World(folder, instance, manager, checks, path, spark)


def outcomes(made: Callable[[Path, dg.DagsterInstance], World]) -> dict[str, str]:
    """What becomes of each case: "right", or what happens instead."""
    found = {}
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder, dg.DagsterInstance.ephemeral() as instance:
            try:
                case(made(Path(folder) / "lake", instance))
                found[name] = "right"
            except Wrong as wrong:
                found[name] = " ".join(str(wrong).split())[:LONGEST]
            except Exception as error:  # noqa: BLE001  # whatever it is, the other cases go on
                found[name] = f"{type(error).__name__}: {' '.join(str(error).split())}"[:LONGEST]
        print(name, "|", found[name], file=sys.stderr)
    return found


def table(*pythons: str) -> None:
    """Print both columns beside each other; what does not end as it should is told in words."""
    columns = []
    for which, python in zip(("ours", "stock"), pythons, strict=True):
        words = [python, "-W", "ignore", "-m", __spec__.name, which]
        run = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
        columns.append(json.loads(run.stdout.splitlines()[-1]))
    ours_, stock_ = columns
    print("| case | ours | stock |\n|---|---|---|")
    for name in CASES:
        print(f"| {name} | {ours_[name]} | {stock_[name].replace('|', '/')} |")
    right = [sum(found == "right" for found in column.values()) for column in columns]
    print(f"| right of {len(CASES)} | {right[0]} | {right[1]} |")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1] == "table":
        table(*sys.argv[2:])
    else:
        print(json.dumps(outcomes({"ours": ours, "stock": stock}[sys.argv[1]])))
