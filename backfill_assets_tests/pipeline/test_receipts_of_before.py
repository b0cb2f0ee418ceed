"""Days that commit 31ec1bd wrote are as they were (staging apart): receipts name the same code in another form.

Tested here: digests of receipts that 31ec1bd wrote under Python 3.11, for built-in tables, declared ones, one in Python
and one in SQL. Not tested here: what a change of code or settings does from now on (`lake/test_model.py`).
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.core.receipts import Built, DayEntry
from backfill_assets.core.states import Codes
from backfill_assets.core.view import Stamp
from backfill_assets.lake import code
from backfill_assets.lake.home import open_lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.pipeline.chosen import chosen_pipeline

OWN = '''
from pyspark.sql import functions as F
from backfill_assets import Column, Contract, Input, Table, tables as built_in
from helpers import LEAST

TOTALS = Contract(
    "totals", "Events per entity and day.",
    (Column("entity", "STRING", "whose"), Column("day", "DATE", "when"), Column("n", "BIGINT", "how many")),
    day_column="day", key=("entity",), inputs=(Input("staging"),),
)


def tables(settings):
    """Ours and the built-in ones."""
    horizon = settings.labels.horizon_days

    def totals(frames, chunk):
        # what counts today
        current = frames["staging"].where("known_until IS NULL AND entity IS NOT NULL")
        counted = current.groupBy("entity", current.event_date.alias("day")).count()
        return counted.select("entity", "day", F.expr(f"`count` + {LEAST} * {horizon} AS n"))

    return *built_in(settings), Table(TOTALS, totals, {"least": LEAST})
'''
SQL = """/*
description = "Sums per entity and day, as known."
day = "day"
key = ["entity"]
columns = { entity = "STRING", day = "DATE", spent = "BIGINT NULL" }
inputs = { staging = { as_known = true } }
parameters = { since = 2024-03-02 }
*/
SELECT entity, event_date AS day, sum(value) AS spent  -- in cents
FROM staging WHERE event_date >= :since GROUP BY ALL
"""
SOURCE = """start_date = 2024-03-01
[source]
files = "landing/**/*.jsonl"
format = "jsonl"
select = "seq, arrival_ts, version_ts, event_ts, event_key, op, entity, value, flag"
"""
USUAL = """[features]
windows_days = [2, 3]
[labels]
horizon_days = 1
maturity_days = 0
[spark]
confs = { "spark.sql.legacy.timeParserPolicy" = "CORRECTED" }
[pipeline]
tables = "pipeline.py:tables"
sql = "sql/*.sql"
"""
DECLARED = """[labels]
horizon_days = 1
label = "sum_ahead(value) > 2"
maturity_days = 0
[[features.columns]]
name = "n"
agg = "count"
days = 2
"""
FILES = {"lake.toml": SOURCE + USUAL, "pipeline.py": OWN, "helpers.py": "LEAST = 1\n", "sql/spent.sql": SQL}
RECEIPTS = {
    "usual": {
        "features": ("811cc323f2d0bfa3fabfdde83049ece4", "0c816e9ac9fe48c19ca6a19fa2c5f2de"),
        "features_as_known": ("a2cf15f5ecc885081a3972ddc75e5a23", "de4099b375f6d385e0416f882ed7ca95"),
        "labels": ("a8e9ae13a00e450ee3b4b501f624e051", "aa2557e8be840db976cc7909cadde149"),
        "raw": ("4c73df791447b0ee00be15053f843ae8", "3cb48482aed2f43f8e988be985b6fa20"),
        "spent": ("95f97b2712e9b24116b5be591cb6f9ac", "1e3879c390a082f8532b0ef29539c61e"),
        "staging": ("5333c866980c8c49f4f945321307b9e0", "e10808d43975dc400731053386849f86"),
        "totals": ("cacb8d86ab1f247d17df955153b13e2e", "7fe9efccee3ec5d7124a6fd522f3a389"),
        "training": ("8613e34e3374829f88a5b211ced19ddf", "e10808d43975dc400731053386849f86"),
    },
    "declared": {
        "features": ("52088c49f1ab403edb7d013fce188d57", "e7cdb553f3d13e3b155ab3116933e3be"),
        "features_as_known": ("f9cdfe25a9264f5473bb1fbc33413b89", "328d1816271ccc029abb95901fb2d9f2"),
        "labels": ("9846be83d46b0da1228ee1bb7c34b4b0", "446576cddc1c7d67cc893f60ae6b325c"),
        "raw": ("4c73df791447b0ee00be15053f843ae8", "3cb48482aed2f43f8e988be985b6fa20"),
        "staging": ("5333c866980c8c49f4f945321307b9e0", "e10808d43975dc400731053386849f86"),
        "training": ("104d0a2a5f4d3c5b6821e2e3d4747f50", "8c636b68a825c872d527ed3490f6f863"),
    },
}


def made(root: Path, files: Mapping[str, str]) -> Pipeline:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return chosen_pipeline(open_lake(root))


def stamp(table: str, lake: str) -> Stamp:
    """The stamp of a day that 31ec1bd wrote."""
    return Stamp(DayEntry(1, "1", "digest", Built.COMPLETE), 1, "write", *RECEIPTS[lake][table], "run")


def of_before(codes: Mapping[str, Codes], lake: str) -> set[str]:
    """The tables whose days of before are as today's code and settings would make them."""
    return {name for name, found in codes.items() if found.are_of(stamp(name, lake))}


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the receipts name a user's code as Python 3.11 shows it")
def test_days_of_before_are_not_outdated(tmp_path: Path) -> None:
    codes = made(tmp_path, FILES).codes
    assert of_before(codes, "usual") == set(codes) == set(RECEIPTS["usual"])


def test_days_of_declared_tables_of_before_are_not_outdated(tmp_path: Path) -> None:
    codes = made(tmp_path, {"lake.toml": SOURCE + DECLARED}).codes
    assert of_before(codes, "declared") == set(codes) == set(RECEIPTS["declared"])


@pytest.mark.parametrize(
    ("file", "old", "new", "outdated"),
    [
        ("pipeline.py", "`count` +", "`count` -", {"totals"}),
        ("helpers.py", "1", "2", {"totals"}),
        ("sql/spent.sql", "sum(value)", "max(value)", {"spent"}),
        ("sql/spent.sql", "since = 2024-03-02", "since = 2024-03-03", {"spent"}),
        ("lake.toml", "windows_days = [2, 3]", "windows_days = [2, 4]", {"features", "features_as_known"}),
    ],
)
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the receipts name a user's code as Python 3.11 shows it")
def test_other_code_or_settings_make_days_of_before_outdated_as_ever(
    tmp_path: Path, file: str, old: str, new: str, outdated: set[str]
) -> None:
    codes = made(tmp_path, FILES | {file: FILES[file].replace(old, new)}).codes
    assert set(codes) - of_before(codes, "usual") == outdated


def test_days_that_are_written_now_name_another_form(tmp_path: Path) -> None:
    codes = made(tmp_path, {"lake.toml": SOURCE + DECLARED}).codes
    assert all(replace(c, legacy=()) != Codes(*RECEIPTS["declared"][name]) for name, c in codes.items())


def test_every_python_is_known_of_every_version_of_before() -> None:
    known = json.loads(code.LEGACY.read_text())
    for version, digests in known.items():
        assert tuple(digests) == code.LEGACY_PYTHONS, version
        assert len({tuple(d) for d in digests.values()}) == len(code.LEGACY_PYTHONS), "each Python gave its own"
