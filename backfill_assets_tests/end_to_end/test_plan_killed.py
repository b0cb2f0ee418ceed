"""A plan whose processes are killed at random moments goes on, and ends with the lake of an
undisturbed one.

Tested here: SIGKILL of the runner, of every process of the run, of the Spark server and of all of
them, with one chunk at a time and with three; chunks at once on Sail with windows over their cuts
and late files before and meanwhile; and the end of the runner between raw and the ledger that names
it. Not tested here: kills simulated at every write (`test_plan_stories`), and `dagster dev`
(`test_plan_daemon`). $BACKFILL_ASSETS_PLAN_KILLS says how many kills each plan must survive,
$BACKFILL_ASSETS_PLAN_DAYS of how many days it is and $BACKFILL_ASSETS_PLAN_CHUNK how many make a
chunk.
"""

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from backfill_assets.engines.sail import no_isolation_reason
from backfill_assets.engines.server import server_status, stop_server
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.end_to_end.typed import (
    FIRST,
    PATIENCE_SECONDS,
    answer,
    chunks_of,
    command,
    content,
    days_lake,
    said,
    told_file,
)
from backfill_assets_tests.homes import make_home
from backfill_assets_tests.lakes import Delivery, delivery, land, make_lake
from backfill_assets_tests.processes import run

pytestmark = [pytest.mark.users_do, pytest.mark.in_turn("plans that are killed")]
KILLS = int(os.environ.get("BACKFILL_ASSETS_PLAN_KILLS", "2"))
DAYS = int(os.environ.get("BACKFILL_ASSETS_PLAN_DAYS", "6" if KILLS < 10 else "12"))
CHUNK = os.environ.get("BACKFILL_ASSETS_PLAN_CHUNK", "1") + "d"
UNSTRUCK_RUNS = 3  # that may fail of what was struck before
LONGEST_SECONDS = (
    12.0 if DAYS < 30 else 45.0
)  # of a run until it is struck: some to start, then a chunk every few
TABLES = ("raw", "staging", "features")
LAST = FIRST + (DAYS - 1) * ONE_DAY
KINDS = ("runner", "run", "server", "all")


@pytest.fixture(scope="module")
def spark_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake that was made by nobody's interruption; its server ends with the module."""
    lake = days_lake(tmp_path_factory.mktemp("plan_killed"), DAYS)
    answer(lake, "backfill", "--from", str(FIRST), "--to", str(LAST), "--tables", ",".join(TABLES))
    yield lake
    stop_server(lake.root, force=True)


def strike(run_plan: "subprocess.Popen[str]", lake: Lake, kind: str) -> bool:
    """SIGKILL: of the process that runs the plan, of it and its children, of the Spark server, or
    of all; whether there was one of them."""
    victims: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        runner = psutil.Process(run_plan.pid)
        victims += [runner] if kind != "server" else []
        victims += runner.children(recursive=True) if kind in ("run", "all") else []
    server = server_status(lake.root)
    if server is not None and kind in ("server", "all"):
        victims.append(psutil.Process(server.pid))
    for victim in victims:
        with suppress(psutil.NoSuchProcess):
            victim.send_signal(signal.SIGKILL)
    return bool(victims)


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 3])
def test_killed_at_random_moments_a_plan_ends_as_if_nobody_had(
    spark_server: Lake, most: int
) -> None:
    lake, chance = spark_server, random.Random(os.environ.get("BACKFILL_ASSETS_SEED", f"{most}"))
    before, done, plans, began = content(lake), 0, 0, time.monotonic()
    asked = ["--partitions", f"{FIRST}..{LAST}", "--chunk", CHUNK, "--tables", ",".join(TABLES)]
    while done < KILLS:
        plan = answer(lake, "plan", *asked, "--max-parallel", str(most), "--force")["id"]
        told_file(lake).write_text("")
        done += killed_on_its_way(lake, plan, chance, done)
        judge(lake, plan)
        assert content(lake) == before
        plans += 1
    took = time.monotonic() - began
    print(
        f"K={most}: {done} kills in {plans} plan(s) of {DAYS} days in chunks of {CHUNK}, "
        f"{took:.0f} s"
    )


DIES_BETWEEN_RAW_AND_ITS_LEDGER = """
import os, sys
from backfill_assets.cli.app import main
from backfill_assets.intake import raw
raw.commit_arrivals = lambda *_: os._exit(9)
main()
"""


@pytest.mark.slow
def test_a_chunk_that_died_between_raw_and_its_ledger_is_not_written_again(
    spark_server: Lake,
) -> None:
    lake, before = spark_server, content(spark_server)
    asked = [
        "--partitions",
        f"{FIRST}..{FIRST}",
        "--chunk",
        "1d",
        "--tables",
        ",".join(TABLES),
        "--force",
    ]
    plan = answer(lake, "plan", *asked)["id"]
    told_file(lake).write_text("")
    died = run("-c", DIES_BETWEEN_RAW_AND_ITS_LEDGER, "--lake", lake.root, "run", plan)
    assert (died.returncode, chunks_of(lake, "raw", plan), chunks_of(lake, "staging", plan)) == (
        9,
        ["1"],
        [],
    )
    answer(lake, "run", plan)
    assert {t: chunks_of(lake, t, plan) for t in TABLES} == {t: ["1"] for t in TABLES}
    assert content(lake) == before


@pytest.mark.slow
@pytest.mark.skipif(bool(no_isolation_reason()), reason=no_isolation_reason() or "")
def test_one_rerun_ends_a_killed_plan_of_chunks_at_once_whatever_lands_before_and_meanwhile(
    tmp_path: Path,
) -> None:
    chance = random.Random(os.environ.get("BACKFILL_ASSETS_SEED", "late"))
    lake = sail_lake(tmp_path / "killed")
    span = ["--from", str(FIRST), "--to", str(FIRST + 7 * ONE_DAY)]
    said(lake, "backfill", *span)
    land(lake, "late.jsonl", [late(n, n) for n in (0, 2, 3, 5)])
    said(lake, "scan")
    plan = answer(
        lake, "plan", *span, "--chunk", "2d", "--max-parallel", "2", "--max-row-change", "9"
    )["id"]
    with command(lake, "run", plan) as runner:
        with suppress(subprocess.TimeoutExpired):
            runner.wait(chance.uniform(2, 2 * LONGEST_SECONDS))
        strike(runner, lake, "run")
    land(lake, "later.jsonl", [late(n, n + 10) for n in (1, 6)])
    said(lake, "scan")
    assert answer(lake, "run", plan)["state"] == "finished"  # at the first rerun: it ended well
    said(lake, "catch-up")
    at_once = sail_lake(tmp_path / "at_once")
    for name in ("late.jsonl", "later.jsonl"):
        shutil.copy2(lake.root / "landing" / name, at_once.root / "landing" / name)
    said(at_once, "backfill", *span)
    assert content(lake) == content(at_once)
    for made in (lake, at_once):
        stop_server(made.root, force=True)


def sail_lake(folder: Path) -> Lake:
    """Eight days of three entities on Sail; windows of two and three days reach over chunks of
    two."""
    rows = [late(n // 3, n, f"{FIRST + n // 3 * ONE_DAY} 10:00:00") for n in range(24)]
    make_home(folder)
    return make_lake(
        folder / "lake", rows, FIRST, spark={"engine": "sail", "memory": "512m", "idle_minutes": 5}
    )


def late(number: int, key: int, arrived: str = f"{FIRST + 7 * ONE_DAY} 12:00:00") -> Delivery:
    """What happened on the day of that number."""
    happened = f"{FIRST + number * ONE_DAY} 09:00:00"
    return delivery(
        key, arrived, happened, f"{arrived[:10]}-{key}", entity=f"e{key % 3}", value=key
    )


def killed_on_its_way(lake: Lake, plan: str, chance: random.Random, before: int) -> int:
    """Run the plan to its end; how often it was struck, which together with those `before` is at
    most `KILLS`."""
    struck, runs = before, 0
    while answer(lake, "plan", "show", plan)["state"] != "finished":
        runs += 1
        assert runs <= struck - before + 1 + UNSTRUCK_RUNS, told_file(lake).read_text()[-4000:]
        with command(lake, "run", plan) as runner:
            while struck < KILLS and runner.poll() is None:
                try:
                    runner.wait(chance.uniform(1, LONGEST_SECONDS))
                except subprocess.TimeoutExpired:
                    struck += strike(runner, lake, KINDS[struck % len(KINDS)])
            runner.wait(PATIENCE_SECONDS)
    return struck - before


def judge(lake: Lake, plan: str) -> None:
    ended = answer(lake, "plan", "show", plan)
    assert {c["state"] for c in ended["progress"]} == {"done"}
    whole = len(ended["progress"])
    numbers = sorted(str(n) for n in range(1, whole))
    for table in (
        TABLES
    ):  # the boundary chunk is the last: with inputs as they were, they have nothing to do
        assert sorted(chunks_of(lake, table, plan)) == numbers, (
            "a chunk took effect twice, or not at all"
        )
    told = told_file(lake).read_text()
    for number in range(1, whole + 1):
        assert f"chunk {number}: gate passed" in told, f"the gate of {number} was skipped"
