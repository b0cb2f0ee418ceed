"""What a user's DataFrames may ask of the second engine, and whether it answers that as Spark does.

Programs of their own ask, because sessions of Spark Connect need one.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets_tests.engines.test_frames import Frame, query
from backfill_assets_tests.processes import run_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.long

STAGING = Contract(
    "staging",
    "s",
    (Column("event_key", "STRING", "k"), Column("event_date", "DATE", "d")),
    "event_date",
    ("event_key",),
    (),
)


def seen_in_a_query(staging: "DataFrame") -> "DataFrame":
    staging.selectExpr("*", "uuid() AS id").createOrReplaceTempView("hidden_too")
    return staging.sparkSession.sql(
        "SELECT h.id FROM {staging} JOIN hidden_too h USING (event_key)", staging=staging
    )


def ordered(expression: str) -> Frame:
    return query(f"SELECT entity, {expression} AS v FROM {{staging}} GROUP BY entity")


ORDERED: Mapping[str, Frame] = {
    "chance behind a view": seen_in_a_query,
    "the newest by a time that may tie": query(
        "SELECT *, row_number() OVER (PARTITION BY entity ORDER BY event_ts DESC) AS n FROM "
        "{staging}"
    ),
    "a running sum by rows": query(
        "SELECT sum(value) OVER (ORDER BY event_ts ROWS UNBOUNDED PRECEDING) AS s FROM {staging}"
    ),
    "any of a group": ordered("first(value)"),
    "a list": ordered("collect_list(value)"),
    "a sum of computed doubles": ordered("sum(value / 3)"),
    "a deviation": ordered("stddev(value)"),
    "a slope": ordered("regr_slope(value, flag)"),
    "who ties": ordered("max_by(value, event_ts)"),
    "a limit": query("SELECT * FROM {staging} LIMIT 2"),
    "a limit of rows that tie": query("SELECT * FROM {staging} ORDER BY value LIMIT 2"),
    "one of each": lambda s: s.dropDuplicates(["entity"]),
}
ALIASES = [
    "datepart",
    "pow",
    "printf",
    "regexp",
]  # of functions that were asked about by another name
ASKED = """
    import json, sys
    from pyspark.sql import Window, functions as F
    from backfill_assets.kernel.core.contracts import Column, Contract
    from backfill_assets.kernel.write.model import Table
    from backfill_assets.engines.sail_plans import plan_differences
    from backfill_assets.engines.steadiness import refuse_unsteady
    from backfill_assets_tests.engines.test_frames import SCHEMA, UNDECIDED
    from backfill_assets_tests.engines.test_sail_plans import ORDERED, STAGING
    from backfill_assets_tests.second_engine_catalogue import COLUMNS
    from backfill_assets_tests.second_engine_probe import session_on, small_rows

    contract = Contract("rows", "Rows.", tuple(Column(n, t, n) for n, t in COLUMNS.items()), "p", ("id",), ())
    with session_on('sail') as session:
        rows = small_rows(session)
        again = rows.groupBy("g", rows.p.alias("day")).count().withColumnRenamed("count", "events")
        frames = {
            "counts": rows.where("i > 0 AND s IS NOT NULL").groupBy("g").count(),
            "joined": again.join(rows.select("g").distinct(), "g"),
            "decimals": rows.groupBy("g").agg(F.sum(F.col("b").cast("decimal(30,0)")).alias("n"), F.max("b")),
            "sums": rows.groupBy("g").agg(F.sum("b")),
            "plus": rows.withColumn("n", F.col("b") + 1),
            "text": rows.select(F.expr("b * 2")),
            "greatest": rows.groupBy("g").agg(F.max("x")),
            "seconds": rows.select(F.col("u").cast("bigint")),
            "choice": rows.select(F.when(F.col("b") > 0, F.col("x")).otherwise(F.col("d"))),
            "any": rows.dropDuplicates(["g"]).limit(3),
            "tied": rows.withColumn("n", F.row_number().over(Window.partitionBy("g").orderBy("b"))),
            "total": rows.withColumn("n", F.row_number().over(Window.partitionBy("g").orderBy(F.desc("b"), "id", "p"))),
            "twice": rows.join(again, "g").withColumn("n", F.lag("i").over(Window.orderBy("id", "p"))),
            "ranked": rows.select(F.rank().over(Window.orderBy("g")), F.sum("d").over(Window.partitionBy("g"))),
            "ranges": rows.select(F.count("d").over(Window.orderBy("i").rangeBetween(-1, 0))),
            "mean": rows.select(F.avg("d").over(Window.partitionBy("g"))),
            "sql": session.sql("SELECT lead(b) OVER (ORDER BY id, p) AS n, sum(d) OVER (ORDER BY id, p ROWS BETWEEN 2 "
                               "PRECEDING AND CURRENT ROW) AS m FROM {t}", None, t=rows),
            "sql twice": session.sql("SELECT lead(b) OVER (ORDER BY id, p) AS n FROM {t}", None,
                                     t=rows.select("*", F.explode("ai").alias("e"))),
            "query": session.sql("SELECT g, sum(b) AS n FROM {t} GROUP BY g", None, t=rows),
        }
        own, staging = Table(contract, lambda frames, chunk: rows), session.createDataFrame([], SCHEMA)
        asked = {name: make(staging) for name, (make, _) in UNDECIDED.items()}
        asked |= {name: make(staging) for name, make in ORDERED.items()}
        unsteady = {name: plan_differences(f, {"staging": staging}, [STAGING]) for name, f in asked.items()}
        try:
            refuse_unsteady(session, own, rows.where("nothing = 1"), {}, {})
        except Exception as error:
            mistake = str(error)
        told = {"mistake": "nothing" in mistake, "let in": [n for n, names in unsteady.items() if not names]}
        told["by name"] = list(unsteady["chance behind a view"])
        told |= {name: list(plan_differences(f, {"rows": rows}, [contract])) for name, f in frames.items()}
    json.dump(told, sys.stdout)
"""


@pytest.mark.usefixtures("processes")
def test_what_a_plan_asks_for_and_is_known_to_differ_is_named() -> None:
    told = json.loads(run_python(ASKED))
    assert told.pop("let in") == [], "Spark may give other rows than its inputs say"
    assert told.pop("by name") == ["table hidden_too"]
    assert told.pop("mistake"), "it is told by the column that is not there"
    assert told == {
        "counts": [],
        "joined": [],
        "decimals": [],
        "sums": ["sum"],
        "plus": ["+"],
        "text": ["*"],
        "greatest": ["max of DOUBLE"],
        "seconds": ["cast as bigint"],
        "choice": ["case of DECIMAL and DOUBLE"],
        "any": ["limit", "deduplicate"],
        "query": ["sum"],
        "tied": ["row_number over an order that may not be total"],
        "total": [],
        "ranked": [],
        "sql": [],
        "twice": ["lag over an order that may not be total"],
        "mean": ["avg over"],
        "ranges": ["range", "count over range"],
        "sql twice": ["lead over an order that may not be total"],
    }


@pytest.mark.usefixtures("processes")
def test_each_answer_of_sail_over_awkward_values_that_is_not_sparks_is_on_the_lists() -> None:
    probe = (
        "import sys; sys.argv = ['', 'sail']\nfrom backfill_assets_tests.second_engine_probe "
        "import main\nmain()"
    )
    found = json.loads(run_python(probe, timeout=400))
    assert found.pop("asked") > 1_700
    assert found == {"let": [], "needless": ALIASES}
