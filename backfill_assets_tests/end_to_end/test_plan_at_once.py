"""Chunks at once: never more than the plan allows, and so many; from the command line and from the
browser's job.

Tested here: the runs of Dagster behind a plan of five days, two at a time (two waves and a part of
a third), and what an interrupt of three leaves. Not tested here: waves alone
(`plans/test_run.py`), children alone (`plans/test_work.py`). $BACKFILL_ASSETS_AT_ONCE=all
looks at one, two and three from both sides.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.engines.server import stop_server
from backfill_assets.kernel.core.plans import CHUNK_TAG
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.end_to_end.typed import (
    PATIENCE_SECONDS,
    answer,
    at_work,
    chunks_of,
    command,
    days_lake,
    told_file,
)
from backfill_assets_tests.processes import until

pytestmark = pytest.mark.long

DAYS = 7
TABLES = ("raw", "staging")
ALL = os.environ.get("BACKFILL_ASSETS_AT_ONCE") == "all"
MOST_SECONDS = 25.0  # ten until a run ends by itself, and a busy machine


@pytest.fixture(scope="module")
def spark_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake of seven days; its server ends with the module."""
    lake = days_lake(tmp_path_factory.mktemp("at_once"), DAYS)
    yield lake
    stop_server(lake.root, force=True)


def spans(lake: Lake, plan: str) -> list[tuple[float, float, int]]:
    """Beginning, end and chunk of every run of a plan, in the order in which they began."""
    home = str(lake.root.parent)
    with dg.DagsterInstance.from_config(home) as instance:
        found = instance.get_run_records(dg.RunsFilter(job_name="rebuild", tags={"plan": plan}))
    told = [(r.start_time, r.end_time, int(r.dagster_run.tags[CHUNK_TAG])) for r in found]
    return sorted(
        (begin, end, number) for begin, end, number in told if begin is not None and end is not None
    )


def most_at_once(found: list[tuple[float, float, int]]) -> int:
    return max(sum(begin <= moment < end for begin, end, _ in found) for moment, _, _ in found)


def last(days: int) -> str:
    return f"2024-03-0{days}"


def judge(lake: Lake, plan: str, most: int, days: int) -> None:
    found = [s for s in spans(lake, plan) if s[2] <= days]
    assert most_at_once(found) == most
    assert sorted(number for _, _, number in found) == list(range(1, days + 1))
    for at, (begin, _, _) in enumerate(
        found
    ):  # ascending: nothing begins before what is two waves back has ended
        assert all(end <= begin for _, end, number in found if number <= found[at][2] - 2 * most)
    for table in TABLES:
        assert sorted(chunks_of(lake, table, plan)) == [str(n) for n in range(1, days + 1)]


@pytest.mark.parametrize("most", (1, 2, 3) if ALL else (2,))
def test_from_the_command_line_chunks_run_ascending_as_many_at_once_as_said(
    spark_server: Lake, most: int
) -> None:
    lake, days = spark_server, 2 * most + 1
    asked = (
        f"--partitions 2024-03-01..{last(days)} --chunk 1d --canary 0 --tables {','.join(TABLES)}"
    ).split()
    plan = answer(lake, "plan", *asked, "--max-parallel", str(most), "--retries", "2", "--force")
    assert plan["pins"]["codes"].keys() >= set(TABLES)  # the code is frozen: another one is refused
    assert answer(lake, "run", plan["id"])["state"] == "finished"
    judge(lake, plan["id"], most, days)


def test_an_interrupt_ends_every_chunk_at_once_and_says_how_to_go_on(
    spark_server: Lake, tmp_path: Path
) -> None:
    lake, days = spark_server, 4
    asked = [
        "--partitions",
        f"2024-03-01..{last(days)}",
        "--chunk",
        "1d",
        "--canary",
        "0",
        "--tables",
        "raw,staging",
    ]
    plan = answer(lake, "plan", *asked, "--max-parallel", "3", "--force")["id"]
    with command(lake, "run", plan) as run:
        until(lambda: len(at_work(lake)) == 4, told_file(lake), PATIENCE_SECONDS)
        run.send_signal(signal.SIGTERM)
        began = time.monotonic()
        run.wait(PATIENCE_SECONDS)
    assert time.monotonic() - began < MOST_SECONDS
    assert run.returncode == -signal.SIGTERM  # to a shell 143
    assert at_work(lake) == []
    assert answer(lake, "plan", "show", plan)["state"] == "stopped"
    assert answer(lake, "run", plan)["state"] == "finished"
    assert sorted(chunks_of(lake, "staging", plan)) == [str(n) for n in range(1, days + 1)]
