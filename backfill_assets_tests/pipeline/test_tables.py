"""The tables of a lake: which settings reach which content, so that a change makes outdated only
what it reaches.

Tested here: `pipeline.tables` without an engine, also what a user's `tables(settings)` reads. Not
tested here: what the transforms compute (`transforms`).
"""

import gc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.core.states import Codes
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets.kernel.tables.settings import LakeSettings, load_settings
from backfill_assets.kernel.write.model import make_pipeline, refuse_moved_code, source_files
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.pipeline.tables import delivered, recorded_tables, tables
from backfill_assets_tests.own import OWN_PIPELINE
from backfill_assets_tests.pipeline.built_in import SOURCE, lake_settings

NAMES = ["raw", "staging", "features", "features_as_known", "labels", "training"]
SPENT = {"name": "spent", "agg": "sum", "of": "total", "days": 28}
ORDERS = {"name": "orders", "agg": "count", "days": 7}


def moved_by(**sections: Any) -> list[str]:
    """The tables whose settings digest another setting moves."""
    before, after = (
        make_pipeline(tables(s)).codes for s in (lake_settings(), lake_settings(**sections))
    )
    return [n for n in NAMES if before[n].settings_digest != after[n].settings_digest]


def test_each_table_is_made_from_those_before_it() -> None:
    made = tables(lake_settings())
    assert [t.name for t in made] == NAMES
    for place, table in enumerate(made):
        assert {i.table for i in table.contract.inputs} & set(NAMES) <= set(NAMES[:place])


@pytest.mark.parametrize(
    ("sections", "moved"),
    [
        ({"features": {"windows_days": [2, 3]}}, ["features", "features_as_known"]),
        ({"features": {"cutoff_grace_hours": 6}}, ["features_as_known"]),
        ({"labels": {"rule": "rise"}}, ["labels"]),
        ({"source": {**SOURCE, "select": "seq + 1 AS seq"}}, ["raw"]),
        ({"lateness": {"early_tolerance_days": 5}}, ["raw"]),
        ({"spark": {"memory": "7g"}}, []),
        ({"lateness": {"runs_per_day": 7}}, []),
    ],
)
def test_a_setting_makes_outdated_what_it_reaches_and_nothing_else(
    sections: dict[str, Any], moved: list[str]
) -> None:
    assert moved_by(**sections) == moved


PAYLOAD = {"entity": "STRING", "value": "BIGINT NOT NULL", "flag": "INT NOT NULL"}


@pytest.mark.parametrize(
    "payload", [{"customer": "STRING"}, PAYLOAD | {"value": "BIGINT"}, PAYLOAD | {"flag": "INT"}]
)
def test_the_built_in_features_are_refused_over_a_payload_that_lacks_their_columns(
    payload: dict[str, str],
) -> None:
    entity = ["customer"] if "customer" in payload else ["entity"]
    settings = lake_settings(source={**SOURCE, "payload": payload}, features={"entity": entity})
    with pytest.raises(SettingsError, match="value BIGINT NOT NULL, flag INT NOT NULL"):
        tables(settings)
    assert [t.name for t in delivered(settings)] == NAMES[:2], (
        "tables of one's own can be made from these"
    )


def test_a_payload_stands_in_raw_and_staging_where_the_three_columns_stood() -> None:
    made = tables(
        lake_settings(source={**SOURCE, "payload": {**PAYLOAD, "total": "DECIMAL(18,2)"}})
    )
    before = tables(lake_settings())
    for now, then in zip(made[:2], before[:2], strict=True):
        added = [c for c in now.contract.columns if c not in then.contract.columns]
        assert [(c.name, c.type, c.nullable, dict(c.tags)) for c in added] == [
            ("total", "DECIMAL(18,2)", True, {"role": "measure"})
        ]
    assert [replace(t.contract, inputs=()) for t in made[2:]] == [
        replace(t.contract, inputs=()) for t in before[2:]
    ]
    read = {i.columns for t in made[2:] for i in t.contract.inputs if i.table == "staging"}
    assert read == {before[1].contract.column_names}, "the column is read by none of them"
    assert {i.columns for t in before for i in t.contract.inputs} == {None}
    one, other = (make_pipeline(of).codes for of in (before, made))
    assert [n for n in NAMES if one[n] != other[n]] == NAMES[:2]


@pytest.mark.usefixtures("processes")
def test_neither_spark_nor_a_parser_is_imported_to_know_tables_of_a_plain_lake() -> None:
    from backfill_assets_tests.processes import run_python

    code = """
        import sys
        from backfill_assets.pipeline.tables import tables
        from backfill_assets_tests.pipeline.built_in import lake_settings
        tables(lake_settings())
        print({"pyspark", "sqlglot"} & sys.modules.keys())
    """
    assert run_python(code, fresh=True) == "set()\n"


def moved(before: Any, after: Any) -> list[str]:
    """The tables that another setting makes outdated."""
    one, other = (make_pipeline(tables(s)).codes for s in (before, after))
    return [n for n in NAMES if one[n] != other[n]]


TOML = """start_date = 2024-03-01
[source]
files = "landing/*.jsonl"
format = "jsonl"
select = "seq"
[labels]
horizon_days = {horizon}
maturity_days = {maturity}
[pipeline]
tables = "pipeline.py:tables"
"""
GIVEN = "    raw, staging, *_ = ours(settings)\n"
READS = {
    "nothing": ("", set()),
    "a value": ("    horizon = settings.labels.horizon_days\n", {"horizon"}),
    "a value of a section held by a name": (
        "    l = settings.labels\n    l = l.horizon_days\n",
        {"horizon"},
    ),
    "all of a section": ("    given = settings.labels.model_dump()\n", {"horizon", "maturity"}),
    "all of the settings": ("    given = settings.model_dump()\n", {"horizon", "maturity"}),
    "a value by its name": (
        "    given = getattr(settings.labels, 'maturity_days')\n",
        {"maturity"},
    ),
    "pairs": ("    given = dict(settings.labels)\n", {"horizon", "maturity"}),
    "a text": ("    given = str(settings.labels)\n", {"horizon", "maturity"}),
    "a comparison": ("    given = settings.labels == settings.labels\n", {"horizon", "maturity"}),
    "another section": ("    given = settings.features.windows_days\n", set()),
    "a section that a function keeps": (
        "    l = settings.labels\n    tables.later = lambda: l.horizon_days\n",
        {"horizon", "maturity"},
    ),
    "the settings as a function keeps them": (
        "    tables.later = lambda: settings\n",
        {"horizon", "maturity"},
    ),
}


@pytest.fixture(scope="module", autouse=True)
def _little_garbage() -> None:
    """What a section that is kept costs is a search for garbage, else among all that tests made
    until now."""
    gc.freeze()


def codes(root: Path, reads: str, horizon: int = 7, maturity: int = 7) -> dict[str, Codes]:
    (root / "lake.toml").write_text(TOML.format(horizon=horizon, maturity=maturity))
    (root / "pipeline.py").write_text(OWN_PIPELINE.replace(GIVEN, reads + GIVEN))
    return dict(chosen_pipeline(open_lake(root)).codes)


@pytest.mark.parametrize(("reads", "counted"), READS.values(), ids=READS.keys())
def test_a_value_counts_where_it_is_read(tmp_path: Path, reads: str, counted: set[str]) -> None:
    before = codes(tmp_path, reads)
    others = {
        "horizon": codes(tmp_path, reads, horizon=30),
        "maturity": codes(tmp_path, reads, maturity=30),
    }
    assert {
        n
        for n, c in others.items()
        if c["totals"].settings_digest != before["totals"].settings_digest
    } == counted
    for after in others.values():
        assert (after["raw"], after["staging"]) == (before["raw"], before["staging"]), (
            "their settings are their own"
        )
        assert after["totals"].code_digest == before["totals"].code_digest
    assert codes(tmp_path, reads) == before


def test_what_is_given_is_settings_to_whoever_asks(tmp_path: Path) -> None:
    (tmp_path / "lake.toml").write_text(TOML.format(horizon=7, maturity=7))
    settings = load_settings(tmp_path, {})

    def tables(given: LakeSettings) -> tuple[object, ...]:
        assert isinstance(given, LakeSettings)
        assert (given.labels.horizon_days, given.grace, given.source_of("labels")) == (
            7,
            settings.grace,
            "",
        )
        assert len({given, given}) == 1
        with pytest.raises(AttributeError, match="nope"):
            _ = given.labels.nope  # type: ignore[attr-defined]
        return (1,)

    assert recorded_tables(tables, settings)[0] == (1,)


INPUTS = (
    'Table(TOTALS, totals, code_inputs=("model.json", "env:BACKFILL_TEST_FACTOR", '
    '"package:helper_lib"))'
)


def test_a_named_input_counts_as_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lake.toml").write_text(TOML.format(horizon=7, maturity=7))
    (tmp_path / "pipeline.py").write_text(OWN_PIPELINE.replace("Table(TOTALS, totals)", INPUTS))
    (tmp_path / "lib").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    files = {"model.json": "1", "lib/helper_lib.py": "RATE = 1\n"}

    def made(factor: str = "1", **changed: str) -> Codes:
        for name, text in {**files, **changed}.items():
            (tmp_path / name).write_text(text)
        monkeypatch.setenv("BACKFILL_TEST_FACTOR", factor)
        return chosen_pipeline(open_lake(tmp_path)).codes["totals"]

    found = [
        made(),
        made("2"),
        made(**{"model.json": "2"}),
        made(**{"lib/helper_lib.py": "RATE = 2\n"}),
    ]
    assert len({c.code_digest for c in found}) == len(found)
    assert made() == found[0]
    assert {replace(c, code_digest="") for c in found} == {replace(found[0], code_digest="")}


def test_a_named_file_that_changes_while_a_table_is_computed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lake.toml").write_text(TOML.format(horizon=7, maturity=7))
    given = 'Table(TOTALS, totals, code_inputs=("model.json", "package:duckdb"))'
    (tmp_path / "pipeline.py").write_text(OWN_PIPELINE.replace("Table(TOTALS, totals)", given))
    (tmp_path / "model.json").write_text("1")
    table = chosen_pipeline(open_lake(tmp_path)).table("totals")
    refuse_moved_code(table)
    assert source_files(table) == ((tmp_path / "pipeline.py").resolve(),), (
        "a named file is no source"
    )
    (tmp_path / "model.json").write_text("2")
    with pytest.raises(BackfillError, match=r"model\.json changed after"):
        refuse_moved_code(table)
