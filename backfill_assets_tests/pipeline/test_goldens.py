"""The known answers: deliveries to training rows, transform after transform, against the checksums
of `golden.json`.

Tested here: all transforms in a row, and that the oracle of the other tests is right. Not tested
here: the load path around them (`end_to_end`). The deliveries are read by the SQL of `golden.json`
itself, with DuckDB.
"""

import json
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from backfill_assets.kernel.core.days import DayRange, inclusive_range
from backfill_assets.pipeline.transforms.staging import staging_rows
from backfill_assets_tests import by_hand, oracle
from backfill_assets_tests.engine_choice import DataFrame, SparkSession
from backfill_assets_tests.pipeline.built_in import (
    features,
    features_as_known,
    labels,
    outcome_by_rule,
    training,
)
from backfill_assets_tests.pipeline.frames import to_spark, without_zone
from backfill_assets_tests.pipeline.oracle import Rules, answers, engine
from backfill_assets_tests.pipeline.worlds import aware

pytestmark = pytest.mark.users_do
SETS = ["trap_fixture", "openstack_changes"]
ALL_DAYS = DayRange(date(1970, 1, 1), date(2100, 1, 1))
FEATURES = (
    "entity||'|'||feature_date||'|'||events_short||'|'||events_long||'|'||value_short||'|'||value_long"
    "||'|'||flagged_long||'|'||days_since_last"
)
TEXTS = {
    "features": (FEATURES, "entity, feature_date"),
    "features_as_known": (FEATURES, "entity, feature_date"),
    "training": (f"{FEATURES}||'|'||label", "entity, feature_date"),
    "current": (
        "event_key||'|'||strftime(event_ts, '%Y-%m-%d %H:%M:%S')||'|'||coalesce(entity, "
        "'')||'|'||value||'|'||flag",
        "event_key",
    ),
}
ANSWERS = {
    "features": "features_final_as_of_T",
    "features_as_known": "features_point_in_time",
    "training": "training",
    "current": "staging_as_of_T",
}


@dataclass(frozen=True)
class Known:
    """A data set with known answers: its deliveries as of T (Arrow, zone-less times), its rules and
    its checksums."""

    raw: Any
    rules: Rules
    checksums: dict[str, str]


def open_set(shared: Path, name: str, at: str = "T") -> Known:
    """The data set of that name as of its `T` or `T1`."""
    told = json.loads((shared / "data" / name / "golden.json").read_text(encoding="utf-8"))
    params, golden = told["params"], told["golden"]
    read = duckdb.connect()  # the answers' own SQL makes views that are not temporary
    read.execute(told["sql"]["deliveries_view"].replace("$DATASETS", str(shared / "data")))
    raw = read.sql(
        "SELECT seq, arrival_ts, version_ts, event_ts, event_key, op, entity, value::bigint AS "
        "value, "
        "flag::int AS flag, 'file' AS source_file, arrival_ts::date AS arrival_date "
        f"FROM d WHERE arrival_ts < TIMESTAMP '{params[at]}'"
    )
    rules = Rules(
        inclusive_range(date.fromisoformat(params["D0"]), date.fromisoformat(params["D1"])),
        (params["w1"], params["w2"]),
        params["grace_h"],
        params["H"],
        params["M"],
        "flag" if params.get("label_value") == "s.flag" else "events",
        params["label_rule"],
        datetime.fromisoformat(params[at]),
    )
    staged = f"staging_as_of_{at}"
    sums = {
        table: golden[staged if table == "current" else said]["checksum_md5"]
        for table, said in ANSWERS.items()
    }
    return Known(raw.to_arrow_table(), rules, sums)


def md5(connection: duckdb.DuckDBPyConnection, table: str, source: str) -> str:
    """The checksum of a source (a table's name in the connection) by the text that `golden.json`
    gives for `table`."""
    text, order = TEXTS[table]
    return str(
        connection.execute(
            f"SELECT md5(string_agg({text}, chr(10) ORDER BY {order})) FROM {source}"
        ).fetchall()[0][0]
    )


def made_md5(frame: "DataFrame", table: str) -> str:
    """The checksum of a frame."""
    return md5(engine().register("made", without_zone(frame.toArrow())), table, "made")


def test_the_oracle_gives_the_answers_reasoned_by_hand() -> None:
    assert oracle.expected(by_hand.DELIVERIES, by_hand.RULES) == by_hand.ANSWERS


@pytest.mark.parametrize(
    "name", ["trap_fixture", pytest.param("openstack_changes", marks=pytest.mark.slow)]
)
def test_the_oracle_gives_the_known_answers(shared: Path, name: str) -> None:
    known = open_set(shared, name)
    answered = answers(known.raw, known.rules)
    assert {table: md5(answered, table, table) for table in ANSWERS} == known.checksums


@pytest.mark.parametrize("name", SETS)
def test_the_transforms_in_a_row_give_the_known_answers(
    spark: "SparkSession", shared: Path, name: str
) -> None:
    known = open_set(shared, name)
    rules, days = known.rules, known.rules.days
    staged = staging_rows(to_spark(spark, known.raw), ALL_DAYS).cache()
    as_known = features_as_known(staged, days, rules.windows_days, rules.grace_hours).cache()
    matures = rules.horizon_days + rules.maturity_days
    outcome = outcome_by_rule(rules.measure, rules.rule, rules.horizon_days, matures)
    labelled = labels(staged, as_known, days, outcome, aware(rules.frontier))
    made = {
        "features": features(staged, days, rules.windows_days),
        "features_as_known": as_known,
        "training": training(as_known, labelled, days),
        "current": staged.where("known_until IS NULL"),
    }
    found = {table: made_md5(frame, table) for table, frame in made.items()}
    as_known.unpersist()
    staged.unpersist()
    assert found == known.checksums


@pytest.mark.parametrize("name", SETS)
def test_staging_as_of_an_earlier_time_is_a_filter(
    spark: "SparkSession", shared: Path, name: str
) -> None:
    earlier = open_set(shared, name, "T1")
    at = f"TIMESTAMP'{earlier.rules.frontier}'"
    staged = staging_rows(to_spark(spark, open_set(shared, name).raw), ALL_DAYS)
    then = staged.where(f"known_from < {at} AND (known_until IS NULL OR known_until >= {at})")
    assert made_md5(then, "current") == earlier.checksums["current"]
