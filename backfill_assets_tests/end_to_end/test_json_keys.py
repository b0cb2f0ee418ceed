"""Programs that read `--json` find the keys that they know, and other releases the lake's files:
pinned in two files. Not here: what the values mean (each command's own test), and words and options
(`cli/test_words.py`). Where a key is new, the file gets it, and the changelog a line; one that goes
or gets another name breaks somebody's program."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets import testing
from backfill_assets.engines.server import stop_server
from backfill_assets.reading.opening import open_lake
from backfill_assets_tests.browser.site import lay_out_sample
from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.end_to_end.lake_forms import lines_of
from backfill_assets_tests.pins import hold_pin

PINNED = Path(__file__).with_name("json_keys.txt")
FILES = Path(__file__).with_name("lake_files.txt")
# In the order in which they are run; `DAY` is a day of the lake, `PLAN` the plan's id.
COMMANDS = (
    "scan",
    "status",
    "show staging DAY",
    "sql 'SELECT day, state FROM system.days LIMIT 1'",
    "report",
    "audit",
    "lateness",
    "checklist",
    "plan --from DAY --to DAY --tables staging --force",
    "plan list",
    "run PLAN",
    "plan show PLAN",
    "compare --plan PLAN",
    "rollback --plan PLAN --yes",
    "release --plan PLAN --yes",
    "backfill --from DAY --to DAY --tables features --force",
    "catch-up",
    "candidate create beside --tables labels",
    "candidate list",
    "candidate discard beside",
    "reconcile --layers",
    "prove --random 1",
    "export features --to FOLDER",
    "forget customer-001 --note letter",
    "doctor",
    "verify",
    "controls",
    "drift",
    "snapshot create s1 --tables staging --from DAY --to DAY",
    "snapshot list",
    "snapshot show s1",
    "snapshot drop s1",
    "maintain",
    "server status",
)
# What a lake names itself: tables, days, runs, hashes.
NAMED_BY_THE_LAKE = re.compile(r"\d|^(raw|staging|features|features_as_known|labels|training)$")


@dataclass(frozen=True)
class Sample:
    """The sample lake and the home of its Dagster."""

    root: Path
    home: Path

    def run(self, command: str) -> Any:
        """The document that a command prints with `--json`."""
        names = {"DAGSTER_HOME": str(self.home), "BACKFILL_ASSETS_LAKE": str(self.root)}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in names.items():
                patch.setenv(name, value)
            done = run(*shlex.split(command), "--json")
        assert done.exit_code in (0, 1), f"{command}: {done.output}"
        assert done.stdout, f"{command}: {done.stderr} {done.exception!r}"
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def sample(
    spark: object, processes: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sample]:
    folder = tmp_path_factory.mktemp("sample")
    home, root = lay_out_sample(folder)
    yield Sample(root, home)
    stop_server(root, force=True)


def key_paths(document: Any, place: str = "") -> Iterator[str]:
    """Every path of keys in a document; items of a list are one, keys that the lake names are
    `*`."""
    if isinstance(document, list):
        for item in document:
            yield from key_paths(item, f"{place}[]")
    elif isinstance(document, dict):
        for key, value in document.items():
            name = "*" if NAMED_BY_THE_LAKE.search(key) else key
            yield f"{place}.{name}"
            yield from key_paths(value, f"{place}.{name}")


@dataclass(frozen=True)
class Used:
    """What was seen while every command ran: the keys that it printed, and the files that the lake
    had by then."""

    printed: list[str]
    files: set[str]


def fail_a_run(home: Path) -> None:
    """A run of the home that failed, as one does on a full machine: the lake keeps which one was the
    newest."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        instance.add_run(dg.DagsterRun("backfill", status=dg.DagsterRunStatus.FAILURE))


def land_late_order(lake: Path) -> None:
    """A delivery of an order of the lake's first days that nobody knew of."""
    newest = max((lake / "landing").rglob("*.jsonl"), key=lambda path: path.name)
    oldest = min((lake / "landing").rglob("*.jsonl"), key=lambda path: path.name)
    of_then = json.loads(oldest.read_text(encoding="utf-8").partition("\n")[0])
    received = json.loads(newest.read_text(encoding="utf-8").partition("\n")[0])["received_at"]
    late = {**of_then, "delivery": 800_000, "order_id": "order-late", "received_at": received}
    testing.land(open_lake(lake).lake, "late.jsonl", [late])


@pytest.fixture(scope="module")
def used(sample: Sample, tmp_path_factory: pytest.TempPathFactory) -> Used:
    """The sample lake after every command, the last of which is not the first to leave files."""
    day = str(json.loads((sample.root / ".demo").read_text())["first"])
    found, plan, files = [], "", lines_of(sample.root)
    for command in COMMANDS:
        if command == "catch-up":
            land_late_order(sample.root)
            fail_a_run(sample.home)
        folder = tmp_path_factory.getbasetemp()
        document = sample.run(
            command.replace("DAY", day).replace("PLAN", plan).replace("FOLDER", str(folder))
        )
        if command.startswith("plan --from"):
            plan = document["id"]
        found += [f"{command}: {path}" for path in sorted({*key_paths(document)})]
        files |= lines_of(sample.root)
    return Used(found, files)


def test_every_command_prints_the_keys_that_programs_know(used: Used) -> None:
    hold_pin(PINNED, used.printed)


def test_a_lake_consists_of_the_files_and_keys_that_other_releases_know(used: Used) -> None:
    hold_pin(FILES, sorted(used.files))
