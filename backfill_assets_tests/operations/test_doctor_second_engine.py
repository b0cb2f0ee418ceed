"""What the doctor says of expressions and SQL that Sail is known to compute otherwise. Nothing is run."""

from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.core.contracts import AGGREGATION, Column
from backfill_assets.core.errors import SettingsError
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Table
from backfill_assets.lake.second_engine_settings import refuse_unequal_settings
from backfill_assets.lake.source_settings import FeatureColumnSettings
from backfill_assets.operations.diagnosis import Level
from backfill_assets.operations.doctor_second_engine import examine_second_engine, functions_named
from backfill_assets_tests.builders import CONTRACTS
from backfill_assets_tests.files import bare_lake

HEADER = "/*\ndescription = 'sum(value) + 1'\n*/\n"


def on(engine: str, folder: Path) -> Lake:
    lake = bare_lake(folder)
    spark = lake.settings.spark.model_copy(update={"engine": engine})
    return replace(lake, settings=lake.settings.model_copy(update={"spark": spark}))


@pytest.mark.parametrize(("query", "culprit"), [("sum(value)", "sum: on sail"), ("try_sum(value)", "")])
def test_a_table_in_sql_that_sail_would_refuse_is_named_where_the_lake_has_it(
    tmp_path: Path, query: str, culprit: str
) -> None:
    path = tmp_path / "totals.sql"
    path.write_text(f"{HEADER}SELECT entity, {query} AS n FROM staging GROUP BY entity", encoding="utf-8")
    tables = [Table(CONTRACTS[1]), Table(CONTRACTS[2], sources=(path,))]
    assert examine_second_engine(on("embedded", tmp_path), tables) == []
    (found,) = examine_second_engine(on("sail", tmp_path), tables)
    assert found.level is (Level.ERROR if culprit else Level.OK)
    assert culprit in found.what


def test_a_declared_column_is_named_with_its_tables_as_a_run_refuses_it(tmp_path: Path) -> None:
    column = FeatureColumnSettings(name="n", agg="distinct", of="entity", days=7)
    lake = on("sail", tmp_path)
    features = lake.settings.features.model_copy(update={"columns": (column,)})
    lake = replace(lake, settings=lake.settings.model_copy(update={"features": features}))
    declared = Column("n", "BIGINT", "of entities", tags={AGGREGATION: "distinct"})
    made = [replace(c, columns=(*c.columns, declared)) for c in CONTRACTS[2:4]]
    (found,) = examine_second_engine(lake, [Table(c) for c in made])
    assert (found.level, found.object.startswith("[[features.columns]] n: of in lake.toml")) == (Level.ERROR, True)
    assert found.what == "distinct: on sail not always what Spark gives"
    with pytest.raises(SettingsError) as refused:
        refuse_unequal_settings(lake.settings, made)
    assert (refused.value.object, refused.value.culprit, refused.value.fix) == (found.object, found.what, found.advice)


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("from pyspark.sql import functions as F\nF.rand(F.col('a')) + F.sum('b')", ["rand"]),
        ("import pyspark.sql.functions as f\nf.struct(f.weekday())", ["weekday"]),
        ("from pyspark.sql.functions import col, initcap", ["initcap"]),
        ("import random\nrandom.rand()", []),
        ("def (", []),
    ],
)
def test_functions_that_sail_computes_otherwise_are_seen_in_a_text_of_python(source: str, named: list[str]) -> None:
    assert functions_named(source) == named


@pytest.mark.parametrize(
    ("body", "level", "told"),
    [("F.rand()", Level.WARN, "its file names rand: on sail"), ("F.lit(1)", Level.OK, "was not here")],
)
def test_a_table_in_python_is_named_by_what_it_uses_or_as_not_looked_at(
    tmp_path: Path, body: str, level: Level, told: str
) -> None:
    path = tmp_path / "own.py"
    path.write_text(f"from pyspark.sql import functions as F\nF = {body}", encoding="utf-8")
    tables = [Table(CONTRACTS[1]), Table(CONTRACTS[2], lambda frames, chunk: frames["staging"], sources=(path,))]
    *_, found = examine_second_engine(on("sail", tmp_path), tables)
    assert (found.level, CONTRACTS[2].name in found.object) == (level, True)
    assert told in found.what
