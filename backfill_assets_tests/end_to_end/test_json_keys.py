"""Programs that read `--json` find the keys that they know: each command's, pinned in a file.
Not here: what the values mean (each command's own test), and words and options (`cli/test_words.py`). Where a key is
new, the file gets it, and the changelog a line; one that goes or gets another name breaks somebody's program."""

import json
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.engine.server import stop_server
from backfill_assets_tests.browser.site import lay_out_sample
from backfill_assets_tests.cli.typed import run

PINNED = Path(__file__).with_name("json_keys.txt")
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
def sample(spark: object, processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sample]:
    folder = tmp_path_factory.mktemp("sample")
    home, root = lay_out_sample(folder)
    yield Sample(root, home)
    stop_server(root, force=True)


def key_paths(document: Any, place: str = "") -> Iterator[str]:
    """Every path of keys in a document; items of a list are one, keys that the lake names are `*`."""
    if isinstance(document, list):
        for item in document:
            yield from key_paths(item, f"{place}[]")
    elif isinstance(document, dict):
        for key, value in document.items():
            name = "*" if NAMED_BY_THE_LAKE.search(key) else key
            yield f"{place}.{name}"
            yield from key_paths(value, f"{place}.{name}")


def test_every_command_prints_the_keys_that_programs_know(sample: Sample, tmp_path: Path) -> None:
    day = str(json.loads((sample.root / ".demo").read_text())["first"])
    found, plan = [], ""
    for command in COMMANDS:
        document = sample.run(command.replace("DAY", day).replace("PLAN", plan).replace("FOLDER", str(tmp_path)))
        if command.startswith("plan --from"):
            plan = document["id"]
        found += [f"{command}: {path}" for path in sorted({*key_paths(document)})]
    if os.environ.get("BACKFILL_ASSETS_PIN"):
        PINNED.write_text("\n".join(found) + "\n")
    assert found == PINNED.read_text().splitlines()
