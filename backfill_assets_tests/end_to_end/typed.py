"""The command line on a lake with an embedded server, for tests that kill what they started. Here:
starting a command in a process of its own, what it says, what receipts say of a plan, and who works
on a lake. Not here: commands of tests that need no server (`cli.typed`), and any assertion about a
lake."""

import json
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import psutil
from click.testing import CliRunner

from backfill_assets.cli.app import app
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.plans import CHUNK_TAG, PLAN_TAG
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.audit import audit_table
from backfill_assets.kernel.write.model import make_pipeline
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.homes import make_home
from backfill_assets_tests.lakes import delivery, make_lake
from backfill_assets_tests.processes import start

PATIENCE_SECONDS = 900.0
FIRST = date(2024, 3, 1)
EMBEDDED = {"engine": "embedded", "memory": "1g"}
HERE = frozenset(
    {"audit", "plan", "release", "rollback", "show", "status"}
)  # no engine, so no process of their own


def days_lake(folder: Path, days: int) -> Lake:
    """A lake into which a delivery a day landed, with a home of Dagster beside it."""
    moments = [f"{FIRST + n * ONE_DAY} 10:00:00" for n in range(days)]
    rows = [delivery(n, moment, None, f"k{n}", value=n) for n, moment in enumerate(moments, 1)]
    lake = make_lake(folder / "lake", rows, FIRST, spark=EMBEDDED)
    make_home(folder)
    return lake


def command(lake: Lake, *words: str) -> "subprocess.Popen[str]":
    """The command line at work on the lake, in a session of its own; what it tells goes to
    `told_file`."""
    env = {"DAGSTER_HOME": str(lake.root.parent)}
    whole = ["-m", "backfill_assets", "--lake", str(lake.root), *words]
    with told_file(lake).open("a") as told:
        return start(*whole, env=env, stdout=subprocess.PIPE, stderr=told, start_new_session=True)


def told_file(lake: Lake) -> Path:
    """Everything that commands said on stderr."""
    return lake.root.parent / "told.txt"


def said(lake: Lake, *words: str) -> str:
    """What a command that succeeds says on stdout. It runs in this process where one of its own
    would add its start."""
    if words[0] in HERE:
        home = {"DAGSTER_HOME": str(lake.root.parent)}
        done = CliRunner().invoke(
            app, ["--lake", str(lake.root), *words], env=home, catch_exceptions=False
        )
        assert done.exit_code == 0, done.output
        return done.stdout
    with command(lake, *words) as made:
        text, _ = made.communicate(timeout=PATIENCE_SECONDS)
    assert made.returncode == 0, text + told_file(lake).read_text()[-4000:]
    return text


def answer(lake: Lake, *words: str) -> Any:
    """What a command that succeeds says with --json."""
    return json.loads(said(lake, *words, "--json"))


def chunks_of(lake: Lake, table: str, plan: str) -> list[str]:
    """The chunks of a plan that a table's receipts name, in the order of its commits."""
    found = [c.receipt for c in lake.store.commits(table) if c.receipt is not None]
    return [r.tags[CHUNK_TAG] for r in found if r.tags.get(PLAN_TAG) == plan]


def content(lake: Lake) -> dict[str, dict[str, tuple[int, str]]]:
    """Per table and day the rows and fingerprint of what a reader finds in the files."""
    pipeline = make_pipeline(tables(lake.settings))
    return {
        t.name: {str(d): (p.rows, p.fingerprint) for d, p in audit_table(lake, t.contract).items()}
        for t in pipeline.tables
        if lake.store.exists(t.name)
    }


def at_work(lake: Lake) -> list[psutil.Process]:
    """The processes whose command line names the lake, but for its Spark server and who watches
    that."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if str(lake.root) in words and "run" in words:
            found.append(process)
    return found
