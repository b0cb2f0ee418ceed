"""A user's transform is refused by its analysed plan, with the expression named; what depends on inputs only is not.

Tested here: `load.steadiness` with `core.unsteady`, on plans that Spark analyses and nothing runs. Not tested here: the
text of plans by itself (`core.test_plan_text`).
"""

import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.logger import PySparkLogger

from backfill_assets.core.contracts import Column, Contract, Input
from backfill_assets.core.days import asked_days
from backfill_assets.core.errors import BackfillError, ContractBroken
from backfill_assets.engine.loss import QUERY_LOGS, silence_raised_errors
from backfill_assets.lake.model import Chunk, Table
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.load.steadiness import explained_plan, explaining_mistakes, refuse_unsteady
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.files import SMALLEST

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

on_spark = pytest.mark.on_spark(
    "the plans that it judges are Spark's; on Sail only expressions from a tested list are let in"
)

DAY = Column("event_date", "DATE", "d")
STAGING = Contract("staging", "s", (Column("event_key", "STRING", "k"), DAY), "event_date", ("event_key",), ())
OWN = Contract("own", "o", (DAY,), "event_date", ("event_date",), (Input("staging"),))
SCHEMA = (
    "event_key string, entity string, value bigint, flag int, event_ts timestamp, known_from timestamp, "
    "known_until timestamp, version_ts timestamp, seq bigint, event_date date"
)
Frame = Callable[["DataFrame"], "DataFrame"]


@pytest.fixture(scope="module")
def staging(spark: "SparkSession") -> "DataFrame":
    return spark.createDataFrame([], SCHEMA)


def refuse(frame: "DataFrame") -> None:
    table = Table(OWN, lambda frames, chunk: frame)
    refuse_unsteady(frame.sparkSession, table, frame, {"staging": frame}, {"staging": STAGING})


def query(text: str) -> Frame:
    return lambda staging: staging.sparkSession.sql(text, staging=staging)


def seen_through_a_view(staging: "DataFrame") -> "DataFrame":
    staging.selectExpr("*", "uuid() AS id").createOrReplaceTempView("hidden_chance")
    return staging.sparkSession.table("hidden_chance").select("id")


def seen_in_a_query(staging: "DataFrame") -> "DataFrame":
    staging.selectExpr("*", "uuid() AS id").createOrReplaceTempView("hidden_too")
    return staging.sparkSession.sql("SELECT h.id FROM {staging} JOIN hidden_too h USING (event_key)", staging=staging)


def python(staging: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F

    return staging.withColumn("x", F.udf(lambda value: value)("entity"))


UNSTEADY: Mapping[str, tuple[Frame, str]] = {
    "the clock": (query("SELECT current_timestamp() AS at FROM {staging}"), r"`current_timestamp\(\)` reads the clock"),
    "today": (query("SELECT * FROM {staging} WHERE event_date < current_date()"), r"`current_date\("),
    "seconds since 1970": (query("SELECT unix_timestamp() AS s FROM {staging}"), r"`current_timestamp\(\)`"),
    "chance": (query("SELECT rand() AS r FROM {staging}"), r"`rand\(.*\)` is chance"),
    "chance with a seed": (query("SELECT rand(7) AS r FROM {staging}"), r"`rand\(7\)` is chance, with a seed too"),
    "chance behind a view": (seen_through_a_view, r"`uuid\("),
    "chance behind a view, by its name": (seen_in_a_query, r"`uuid\("),
    "a sample": (lambda s: s.sample(0.5, seed=1), "`Sample 0.0, 0.5"),
    "numbers of tasks": (query("SELECT monotonically_increasing_id() AS i FROM {staging}"), "depends on where"),
    "a Python UDF": (python, r"`<lambda>\(entity.*is a function of Python"),
    "Python on batches": (lambda s: s.mapInPandas(lambda rows: rows, SCHEMA), "`MapInPandas .*runs Python on rows"),
    "the newest by a time that may tie": (
        query("SELECT *, row_number() OVER (PARTITION BY entity ORDER BY event_ts DESC) AS n FROM {staging}"),
        r"`row_number\(\) OVER \(entity, event_ts DESC NULLS LAST\)` depends on the order of rows that tie",
    ),
    "a running sum by rows": (
        query("SELECT sum(value) OVER (ORDER BY event_ts ROWS UNBOUNDED PRECEDING) AS s FROM {staging}"),
        r"`sum\(value\) OVER",
    ),
    "any of a group": (query("SELECT entity, first(value) AS v FROM {staging} GROUP BY entity"), "takes any row of"),
    "a list": (query("SELECT collect_list(value) AS v FROM {staging} GROUP BY entity"), "lists rows as they come"),
    "a sum of computed doubles": (query("SELECT sum(value / 3) AS s FROM {staging}"), "adds DOUBLEs in any order"),
    "a deviation": (query("SELECT entity, stddev(value) AS s FROM {staging} GROUP BY entity"), "adds DOUBLEs"),
    "a slope": (query("SELECT regr_slope(value, flag) AS s FROM {staging}"), "adds DOUBLEs"),
    "a sum of doubles that a query above made": (
        query(
            "WITH q AS (SELECT entity, sqrt(value) AS r FROM {staging}) "
            "SELECT sum(a.r) FROM q a JOIN q b USING (entity)"
        ),
        "adds DOUBLEs",
    ),
    "a running mean of means": (
        query("SELECT avg(v) OVER (PARTITION BY entity) AS m FROM (SELECT entity, event_date, avg(value) AS v "
              "FROM {staging} GROUP BY entity, event_date)"),
        "adds DOUBLEs",
    ),
    "who ties": (query("SELECT max_by(value, event_ts) AS v FROM {staging} GROUP BY entity"), "any of the rows that"),
    "a limit": (query("SELECT * FROM {staging} LIMIT 2"), "`GlobalLimit 2` takes any rows"),
    "a limit of rows that tie": (query("SELECT * FROM {staging} ORDER BY value LIMIT 2"), "`GlobalLimit 2`"),
    "one of each": (lambda s: s.dropDuplicates(["entity"]), r"`Deduplicate \[entity\]` keeps any row"),
    "an expression among very many": (
        lambda s: s.selectExpr(*(f"value + {n} AS c{n}" for n in range(90)), "rand(5) AS r"), r"`rand\(5\)`",
    ),
}  # fmt: skip
STEADY: Mapping[str, Frame] = {
    "sums and counts": query(
        "SELECT entity, event_date, sum(value), count(*), max(event_ts) FROM {staging} GROUP BY ALL"
    ),
    "counts of what a double decides": query(
        "SELECT entity, sum(CASE WHEN value / 3 > 0.5 THEN 1 ELSE 0 END), count_if(sqrt(value) > 2), "
        "coalesce(sum(CASE WHEN value / 3 > 0.5 THEN value END), 0) FROM {staging} GROUP BY entity"
    ),
    "a share of sums": query("SELECT entity, sum(value) / count(*) AS s, avg(value) FROM {staging} GROUP BY entity"),
    "a sum of decimals": query("SELECT sum(CAST(value / 3 AS DECIMAL(18, 6))) AS s FROM {staging}"),
    "a text that looks like chance": query("SELECT *, 'rand()' AS t FROM {staging} WHERE entity <> 'rand()'"),
    "columns named like calls": query("SELECT `max(value)` FROM (SELECT max(value) FROM {staging})"),
    "the newest by a total order": query(
        "SELECT *, row_number() OVER (PARTITION BY entity, event_date ORDER BY event_ts, event_key) AS n FROM {staging}"
    ),
    "the newest under other names": query(
        "SELECT row_number() OVER (PARTITION BY d ORDER BY k) FROM "
        "(SELECT event_key AS k, event_date AS d FROM {staging})"
    ),
    "the newest of groups": query(
        "SELECT *, lag(v) OVER (PARTITION BY entity ORDER BY event_date) AS before FROM "
        "(SELECT entity, event_date, sum(value) AS v FROM {staging} GROUP BY entity, event_date)"
    ),
    "ranks, which are the same for rows that tie": query("SELECT rank() OVER (ORDER BY value) AS r FROM {staging}"),
    "a sum over all of a window": query("SELECT sum(value) OVER (PARTITION BY entity) AS s FROM {staging}"),
    "a sorted list": query("SELECT sort_array(collect_list(value)) AS v FROM {staging} GROUP BY entity"),
    "the value of the newest key": query(
        "SELECT max_by(value, (event_ts, event_key)) AS v FROM {staging} GROUP BY entity, event_date"
    ),
    "the first by key": query("SELECT * FROM {staging} ORDER BY event_date, event_key LIMIT 2"),
    "all columns alike": lambda s: s.selectExpr("entity", "value + 1 AS v").distinct(),
    "chance by a seed and the key": query("SELECT * FROM {staging} WHERE pmod(xxhash64(event_key, 7), 10) = 0"),
}


@on_spark
@pytest.mark.parametrize("case", UNSTEADY)
def test_what_may_give_other_rows_from_the_same_inputs_is_refused_and_named(staging: "DataFrame", case: str) -> None:
    frame, named = UNSTEADY[case]
    with pytest.raises(ContractBroken, match=named) as refused:
        refuse(frame(staging))
    assert str(refused.value).startswith("the transform of own: the same inputs may give other rows: ")


@on_spark
@pytest.mark.parametrize("case", STEADY)
def test_what_depends_on_its_inputs_only_is_not_refused(staging: "DataFrame", case: str) -> None:
    refuse(STEADY[case](staging))


@on_spark
def test_asking_leaves_no_view_behind(staging: "DataFrame") -> None:
    session = staging.sparkSession
    assert "Analyzed Logical Plan" in explained_plan(session, staging)
    assert session.sql("SHOW VIEWS LIKE 'plan_*'").count() == 0


@on_spark
def test_the_tables_of_this_package_are_steady(staging: "DataFrame") -> None:
    """They are not looked at in every run: here they are, as if a user had brought them."""
    ours = tables(LakeSettings.model_validate(tomllib.loads(SMALLEST)))
    contracts = {t.name: t.contract for t in ours}
    session, chunk = (
        staging.sparkSession,
        Chunk(asked_days("2024-03-01", "2024-03-03"), datetime(2024, 4, 1, tzinfo=UTC)),
    )
    for table in ours[1:]:
        frames = {i.table: session.createDataFrame([], _schema(contracts[i.table])) for i in table.contract.inputs}
        assert table.transform is not None
        assert not table.brings_code
        theirs = replace(table, sources=(sys.modules[__name__],))
        assert theirs.brings_code
        refuse_unsteady(session, theirs, table.transform(frames, chunk), frames, contracts)


def _schema(contract: Contract) -> str:
    return ", ".join(f"{c.name} {c.type}" for c in contract.columns)


def test_a_mistake_in_a_transform_is_told_with_file_and_line() -> None:
    def transform(frames: Mapping[str, Any], chunk: Chunk) -> Any:
        return frames["nothing"]

    table = Table(OWN, transform)
    with (
        pytest.raises(BackfillError, match=r"the transform of own: test_steadiness\.py, line \d+: KeyError: 'nothing'"),
        explaining_mistakes(table),
    ):
        transform({}, Chunk(asked_days(date(2024, 3, 1), None), None))


def test_an_error_of_a_query_that_pyspark_raises_is_not_printed_as_well(caplog: pytest.LogCaptureFixture) -> None:
    silence_raised_errors()
    for name in QUERY_LOGS:
        PySparkLogger.getLogger(name).error("said twice")
    assert caplog.messages == []
