"""Commands, Dagster's definitions and tables of one's own on a lake of two sources.

Tested here: that each works, and says which source it means. Not tested here: what the tables hold
(`test_sources`).
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backfill_assets_tests.end_to_end.test_sources import FILES, TOML
from backfill_assets_tests.end_to_end.worlds import SHARED, World, land_bytes
from backfill_assets_tests.processes import run

pytestmark = [pytest.mark.users_do, pytest.mark.in_turn("commands of sources")]
OUTCOMES = """/*
description = "How much of the truth is bad, per day."
day = "day"
key = ["day"]
columns = { day = "DATE -- when", bad = "BIGINT -- how much" }
inputs = { staging_truth = {} }
*/
SELECT event_date AS day, try_sum(bad) AS bad FROM staging_truth WHERE known_until IS NULL GROUP BY event_date
"""
DAYS = ("--from", "2024-03-01", "--to", "2024-03-06")


class Lake:
    """The lake of two sources, and its commands."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        own = '[pipeline]\nsql = "*.sql"\n[spark]\nmemory = "1g"\n'
        (root / "lake.toml").write_text(TOML.replace(SHARED, own))
        (root / "outcomes.sql").write_text(OUTCOMES)

    def land(self, *names: str) -> None:
        for name in names:
            text = "".join(json.dumps(r) + "\n" for r in FILES[name])
            land_bytes(World(self.root), f"{name}.jsonl", text.encode())

    def run(self, *args: str) -> "subprocess.CompletedProcess[str]":
        return run("-m", "backfill_assets", *args, "--lake", self.root, timeout=600)

    def told(self, *args: str) -> Any:
        done = self.run(*args, "--json")
        assert done.returncode == 0, done.stderr + done.stdout
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def spark_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """The lake, loaded but for what comes late, with its server, which is stopped at the end."""
    lake = Lake(tmp_path_factory.mktemp("commands") / "lake")
    lake.land(*(f"events/{n}" for n in range(1, 7)), "truth/4")
    done = lake.run("backfill", *DAYS)
    assert done.returncode == 0, done.stderr
    yield lake
    lake.run("server", "stop")


def test_late_truth_is_caught_up_with_by_the_command(spark_server: Lake) -> None:
    spark_server.land("truth/10", "truth/12")
    done = spark_server.told("catch-up")
    assert done["left"] == {}
    written = {name for run in done["runs"] for name in (t["table"] for t in run["tables"])}
    assert not {n for n in written if "events" in n or "features" in n}
    rows = spark_server.told(
        "sql", "SELECT day::VARCHAR AS day, bad FROM outcomes WHERE bad > 0 ORDER BY day"
    )
    assert [(r["day"][-1], r["bad"]) for r in rows] == [("2", 1), ("3", 1), ("5", 2), ("6", 1)]
    frontiers = spark_server.told("status")["frontiers"]
    assert frontiers == {
        "events": "2024-03-07T00:00:00+00:00",
        "truth": "2024-03-13T00:00:00+00:00",
    }
    asked = "SELECT count(*) AS n FROM quarantine_truth, files_truth, arrivals_events LIMIT 1"
    assert spark_server.told("sql", asked)[0]["n"] > 0


@pytest.mark.parametrize(
    "command",
    [
        "scan",
        "doctor --deep",
        "report",
        "lateness",
        "lateness --source truth",
        "show raw_truth 2024-03-04",
        "audit",
        "show labels 2024-03-03",
        "compare --table staging_truth --days 2024-03-03 --from-version 0",
        "plan --from 2024-03-02 --to 2024-03-03 --force",
        "backfill --from 2024-03-02 --to 2024-03-03 --tables labels",
    ],
)
def test_every_command_works_on_them(spark_server: Lake, command: str) -> None:
    done = spark_server.run(*command.split(), "--json")
    assert done.returncode in (0, 1 if command.startswith("doctor") else 0), (
        done.stderr + done.stdout
    )
    assert "Traceback" not in done.stderr
