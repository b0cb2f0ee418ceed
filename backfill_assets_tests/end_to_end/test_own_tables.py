"""A user's tables by `lake.toml` alone, in Python and in SQL, through the commands and the embedded
engine.

Tested here: that commands, reader and reports work on them, and that an unsteady or broken
transform is refused. Not tested here: the six tables of this product, and mistakes in the settings
(`pipeline.test_chosen`).
"""

import json
import re
import subprocess
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path

import pytest

from backfill_assets_tests.end_to_end.worlds import land, make_world
from backfill_assets_tests.oracle import Rules, delivery
from backfill_assets_tests.own import OWN_PIPELINE
from backfill_assets_tests.processes import run, run_python

pytestmark = [
    pytest.mark.long,
    pytest.mark.on_spark(
        "its SQL sums as only Spark is trusted to; what Sail refuses is told in load.test_sail"
    ),
]
RULES = Rules(date(2024, 3, 1), datetime.fromisoformat("2024-03-05"), date(2024, 3, 4))
ROWS = [
    delivery(1, "2024-03-02 10:00", key="a", value=3),
    delivery(2, "2024-03-03 10:00", key="b", value=4),
    delivery(3, "2024-03-03 11:00", "2024-03-02 09:00", key="c", entity="B", value=5),
]
KNOWN = """/*
description = "Money as known at the cut, over two days."
day = "day"
key = ["entity"]
columns = { entity = "STRING -- whose", day = "DATE -- when", spent = "BIGINT -- how much" }
inputs = { staging = { before = 1, as_known = true } }
*/
SELECT entity, known_on AS day, sum(value) AS spent FROM staging WHERE entity IS NOT NULL GROUP BY ALL
"""
DAYS = ("--from", "2024-03-01", "--to", "2024-03-04")


class Own:
    """A lake with a pipeline of its own, and the commands."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "lake"
        land(make_world(self.root, RULES), "rows.jsonl", ROWS)
        path = self.root / "lake.toml"
        text = path.read_text().partition("[spark]")[0]
        path.write_text(
            f'{text}\n[pipeline]\ntables = "pipeline.py:tables"\nsql = "*.sql"\n[spark]\nmemory = '
            '"1g"\n'
        )
        (self.root / "known.sql").write_text(KNOWN)
        self.write(OWN_PIPELINE)

    def write(self, pipeline: str) -> None:
        (self.root / "pipeline.py").write_text(pipeline)

    def run(self, *args: str) -> "subprocess.CompletedProcess[str]":
        return run("-m", "backfill_assets", *args, "--lake", self.root, timeout=300)

    def rows(self, query: str) -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(self.run("sql", query, "--json").stdout)
        return found


@pytest.fixture(scope="module")
def spark_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Own]:
    """The lake, loaded, with its server, which is stopped at the end."""
    own = Own(tmp_path_factory.mktemp("own"))
    done = own.run("backfill", *DAYS)
    assert done.returncode == 0, done.stderr
    yield own
    own.run("server", "stop")


def test_both_kinds_of_tables_hold_what_they_say(spark_server: Own) -> None:
    totals = spark_server.rows(
        "SELECT entity, day::VARCHAR AS day, events FROM totals ORDER BY day, entity"
    )
    assert [tuple(r.values()) for r in totals] == [
        ("A", "2024-03-02", 1),
        ("B", "2024-03-02", 1),
        ("A", "2024-03-03", 1),
    ]
    known = spark_server.rows(
        "SELECT entity, day::VARCHAR AS day, spent FROM known ORDER BY day, entity"
    )
    assert [tuple(r.values()) for r in known] == [
        ("A", "2024-03-02", 3),  # B's event of that day arrived after its cut
        ("A", "2024-03-03", 7),
        ("B", "2024-03-03", 5),
        ("A", "2024-03-04", 4),
    ]


def test_an_own_op_gets_the_session_of_the_lake_as_in_any_project_of_dagster(
    spark_server: Own,
) -> None:
    shown = run_python(
        """
        import dagster as dg
        from dagster_pyspark import PySparkResource
        from backfill_assets.definitions import defs

        @dg.op
        def asks(pyspark: PySparkResource) -> None:
            print(pyspark.spark_session.sql("SELECT 6 * 7 AS n").collect())

        @dg.job
        def asking() -> None:
            asks()

        dg.Definitions.merge(defs, dg.Definitions(jobs=[asking])).resolve_job_def("asking").execute_in_process()
        """,
        env={"BACKFILL_ASSETS_LAKE": str(spark_server.root)},
    )
    assert "[Row(n=42)]" in shown


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            '"known_until IS NULL',
            '"rand() < 2 AND known_until IS NULL',
            "the transform of totals: .*`rand(",
        ),
        (
            'frames["staging"]',
            'frames["stagin"]',
            r"of totals: pipeline\.py, line \d+: KeyError: 'stagin'",
        ),
        ("known_until IS NULL", "no_such IS NULL", "the transform of totals: .*no_such"),
    ],
)
def test_an_unsteady_or_broken_transform_writes_nothing(
    spark_server: Own, old: str, new: str, told: str
) -> None:
    before = spark_server.rows("SELECT * FROM totals ORDER BY ALL")
    spark_server.write(OWN_PIPELINE.replace(old, new))
    try:
        done = spark_server.run("backfill", *DAYS, "--tables", "totals")
        assert done.returncode == 1, done.stdout
        assert re.search(told.replace("rand(", r"rand\("), done.stderr), done.stderr
        assert "Traceback" not in done.stderr
        assert spark_server.rows("SELECT * FROM totals ORDER BY ALL") == before
    finally:
        spark_server.write(OWN_PIPELINE)
