"""`export` as a person meets it.

Tested here: `cli.sql`, `attach` too. Not tested here: what is brought (`operations.test_export`).
"""

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from backfill_assets.lake.versions import record
from backfill_assets_tests.cli.typed import read, run
from backfill_assets_tests.operations.planned import DAYS, Planned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("storages")


def test_a_table_goes_to_a_place_and_the_outcome_is_one_line(tmp_path: Path) -> None:
    made = Planned(tmp_path / "lake")
    told = run("export", "staging", "--to", tmp_path / "out", on=made).stdout
    assert "written (8 rows), 0 day(s) as they were" in " ".join(told.split())
    [again] = read(run("export", "staging", "--to", tmp_path / "out", "--json", on=made))
    assert (again["replaced"], again["same"]) == ([], DAYS)


def test_a_lake_without_exports_says_so_and_words_that_do_not_fit_are_usage(tmp_path: Path) -> None:
    made = Planned(tmp_path / "lake")
    assert "no exports" in run("export", on=made).stdout
    assert run("export", "--to", "out", on=made).exit_code == 2
    assert run("export", "staging", "--days", "2024-03-01..2024-03-02", on=made).exit_code == 2
    unknown = run("export", "nobody", on=made)
    assert unknown.exit_code == 1
    assert "lake.toml has no such export" in unknown.stderr


@pytest.mark.parametrize("reader", ["duckdb", "polars", "spark"])
def test_all_tables_are_of_the_newest_lake_version_unless_their_heads_are_asked_for(
    tmp_path: Path, reader: str
) -> None:
    made = Planned(tmp_path / "lake")
    heads = run("attach", reader, on=made).stdout
    record(made.lake, made.pipeline.contracts, "a run")
    made.write("staging", {0: 9})
    told = run("attach", reader, on=made).stdout
    of_version = {"duckdb": "/staging', version => 1);", "polars": "/staging', version=1)", "spark": "/staging@v1`;"}
    assert of_version[reader] in told
    assert run("attach", reader, "--newest", on=made).stdout == heads


def test_an_export_and_a_snapshot_are_of_the_newest_lake_version_unless_the_newest_commits_are_asked_for(
    tmp_path: Path,
) -> None:
    made = Planned(tmp_path / "lake")
    record(made.lake, made.pipeline.contracts, "a run")
    made.write("staging", {0: 9})  # as a chunk that is under way
    export = ["export", "staging", "--to", tmp_path / "out", "--json"]
    keep = ["snapshot", "create", "--tables", "staging", "--unfit", "take", "--json"]
    for newest in ([], ["--newest"]):
        [exported] = read(run(*export, *newest, on=made))
        kept = read(run(*keep, f"s{len(newest)}", *newest, on=made))
        version = 1 + len(newest)
        assert (exported["version"], kept["tables"]["staging"]["version"]) == (version, version)


@pytest.mark.on_spark("its catalog and SQL are Spark's")
def test_spark_reads_every_table_by_name_after_what_attach_says(spark: "SparkSession", tmp_path: Path) -> None:
    made = Planned(tmp_path / "the lake's")
    lines = run("attach", "spark", on=made).stdout.split(";\n")
    names = [*read(run("attach", "spark", "--json", on=made))]
    try:
        for line in filter(None, map(str.strip, lines)):
            spark.sql(line).collect()
        for name in names:
            told = pa.table(spark.sql(f"SELECT * FROM {name}").toArrow()).to_pylist()
            there = DeltaTable(str(made.lake.table_place(name).local())).to_pyarrow_table().to_pylist()
            assert sorted(map(str, map(dict.items, told))) == sorted(map(str, map(dict.items, there)))
    finally:
        for name in names:
            spark.sql(f"DROP TABLE IF EXISTS {name}").collect()
