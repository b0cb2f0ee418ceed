"""What a command opens of the logs does not grow with them: one kept state per table, and the
commits after it.

Tested here: processes of their own that count the files of logs that Python opens. Not tested here:
that a kept state is what the commits say (`kernel.log.test_state_files`).
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.intake.ledger import ARRIVALS, FILES
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.readings import contract_columns
from backfill_assets.kernel.core.receipts import Receipt
from backfill_assets.kernel.log.log_state import KEEP_EVERY, LOGS
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.builders import make_commit
from backfill_assets_tests.logs import place_of
from backfill_assets_tests.processes import run
from backfill_assets_tests.synthetic import START, synthetic_lake

pytestmark = pytest.mark.usefixtures("processes")
DAYS, TAIL = 12, 7  # commits after the kept state
# Of a table: its kept state, the commit that this names, whether the newest commit is whole, and
# which checkpoint is the newest.
AT_MOST = 4
# Newest commits of a planned table for its price, one receipt, and the commits at a plan's pins.
PRICED = 103
COUNTING = """
import collections, json, sys
opened = collections.Counter()
def count(event, args):
    if event == "open" and isinstance(args[0], str) and "/_delta_log/" in args[0]:
        opened[args[0].split("/tables/")[1].split("/")[0]] += 1
sys.addaudithook(count)
"""
COMMAND = """
sys.argv[0] = "backfill-assets"
from backfill_assets.cli.app import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps(opened))
"""
TICKS = """
from pathlib import Path
import dagster as dg
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.dagster.adapter.context import LakeContext
from backfill_assets.dagster.adapter.ticks import landing_tick, late_data_tick
from backfill_assets.pipeline.tables import tables
lake, looks = LakeContext(Path(sys.argv[1]), tables), []
with dg.DagsterInstance.ephemeral() as instance:
    for tick in (landing_tick, late_data_tick, landing_tick, late_data_tick):
        opened.clear()
        for verdict in tick(instance, lake, utc_now()).verdicts:
            instance.report_runless_asset_event(verdict)  # as Dagster does with a sensor's result
        looks.append(dict(opened))
print(json.dumps(looks))
"""


def _grown(root: Path, commits: int) -> None:
    """A lake whose tables have so many commits, the newest kept state being `TAIL` commits old."""
    lake, pipeline = synthetic_lake(root, DAYS)
    for contract in (*pipeline.contracts, ARRIVALS, FILES):
        _lengthen(lake, contract, commits)


def _lengthen(lake: Lake, contract: Contract, commits: int) -> None:
    """Repeat receipts of the newest commit, a day each, as this release writes them: with the
    columns of the files."""
    table = contract.name
    path, head = lake.table_place(table).local(), lake.store.head(table)
    newest = lake.store.receipt(table, head) or Receipt("0", table, "test", {})
    days = list(newest.days)
    for version in range(head + 1, commits):
        if version == commits - TAIL:
            LOGS.keep_newest_state(place_of(path), contract.day_column)
        day = days[version % len(days)] if days else None
        again = (
            {}
            if day is None
            else {day: replace(newest.days[day], columns=contract_columns(contract))}
        )
        inputs = dict.fromkeys(newest.inputs, commits - 1)
        make_commit(
            path, version, replace(newest, write_id=f"{table} {version}", days=again, inputs=inputs)
        )


@pytest.fixture(scope="module", params=[40, 1000])
def grown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("grown") / "lake"
    _grown(root, request.param)
    return root


def _opened(root: Path, *command: str) -> dict[str, int]:
    done = run("-c", COUNTING + COMMAND, "--lake", root, *command, timeout=120)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    ("command", "priced"),
    [
        (("status",), ()),
        (
            (
                "plan",
                "--from",
                str(START),
                "--to",
                str(START + ONE_DAY),
                "--tables",
                "staging",
                "--force",
            ),
            ("staging",),
        ),
    ],
)
def test_commands_open_a_state_and_later_commits(
    grown: Path, command: tuple[str, ...], priced: tuple[str, ...]
) -> None:
    opened = _opened(grown, *command)
    assert len(opened) >= 6
    assert {
        t: n for t, n in opened.items() if n > AT_MOST + TAIL + (PRICED if t in priced else 0)
    } == {}
    assert TAIL + AT_MOST < KEEP_EVERY, "else this test could not fail"


def test_a_tick_opens_no_commit_that_its_process_knows(grown: Path) -> None:
    done = run("-c", COUNTING + TICKS, grown, timeout=120)
    assert done.returncode == 0, done.stderr
    first, _, *later = json.loads(
        done.stdout.splitlines()[-1]
    )  # the second records what a new instance lacks
    assert {t: n for t, n in first.items() if n > AT_MOST + TAIL} == {}
    assert later == [{}, {}]
