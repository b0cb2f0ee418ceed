"""What lake.toml and a candidate change about the tables of a lake: gates that name what is not
there are refused, SELECTs of consumers lie with the tables that they read, and a candidate's
pipeline ends at its own tables. Not here: which tables a lake has (`test_chosen`)."""

from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.tables.gate_bounds import ColumnGate, GateSettings, TableGate
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Table
from backfill_assets.pipeline.lake_pipeline import pipeline_of
from backfill_assets_tests.builders import FEATURES, RAW, STAGING
from backfill_assets_tests.files import bare_lake

TABLES = tuple(map(Table, (RAW, STAGING, FEATURES)))


def with_gates(folder: Path, gates: GateSettings) -> Lake:
    lake = bare_lake(folder)
    return replace(lake, settings=lake.settings.model_copy(update={"gates": gates}))


@pytest.mark.parametrize(
    ("table", "bounds", "why"),
    [
        ("stagin", TableGate(), "names stagin, and the lake has no such table"),
        ("staging", TableGate(columns={"valu": ColumnGate()}), "names valu, and the table has no"),
        ("staging", TableGate(max_key_share=0.5), "no table groups or joins it by a key"),
    ],
)
def test_a_gate_that_names_what_is_not_there_is_refused(
    tmp_path: Path, table: str, bounds: TableGate, why: str
) -> None:
    lake = with_gates(tmp_path, GateSettings(tables={table: bounds}))
    with pytest.raises(SettingsError, match=why):
        pipeline_of(lake, TABLES)


def test_a_select_of_a_consumer_lies_with_the_tables_that_it_reads(tmp_path: Path) -> None:
    query = "SELECT count(*) FROM STAGING"
    made = pipeline_of(with_gates(tmp_path, GateSettings(reads=(query,))), TABLES)
    assert {c.name: c.consumer_queries for c in made.contracts} == {
        "raw": (),
        "staging": (query,),
        "features": (),
    }


def test_the_pipeline_of_a_candidate_ends_at_its_own_tables(tmp_path: Path) -> None:
    candidate = replace(bare_lake(tmp_path), shared=tmp_path, own=frozenset({"staging"}))
    made = pipeline_of(candidate, TABLES)
    assert [t.name for t in made.tables] == ["raw", "staging"]
    assert [c.name for c in made.followers] == ["features"], "made from its own table"
