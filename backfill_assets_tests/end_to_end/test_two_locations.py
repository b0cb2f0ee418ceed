"""Two code locations of one instance on one lake: its own definitions, and a project that shows the
same tables under a prefix.

Tested here: both ask for the same days, runs of both at once end well, and what the one wrote the
other does not write again. Not tested here: two lakes in one project
(`dagster.test_beside_a_project`), and people at work at once (`test_two_users`).
"""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.dagster import build_lake_defs
from backfill_assets.dagster.adapter.assemble import assemble
from backfill_assets.dagster.adapter.runs import RANGE_END, RANGE_START
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.homes import make_home
from backfill_assets_tests.lakes import delivery, land, make_lake
from backfill_assets_tests.processes import PIPES, start

pytestmark = [pytest.mark.usefixtures("spark", "processes", "storages"), pytest.mark.slow]
DAYS = ["2024-03-01", "2024-03-02", "2024-03-03"]
SPAN = {RANGE_START: DAYS[0], RANGE_END: DAYS[-1]}
OWN, SHOP = "own", "shop"
RUN = """
import sys
from pathlib import Path
from backfill_assets_tests.end_to_end.test_two_locations import run_rebuild
sys.exit(not run_rebuild(Path(sys.argv[1]), sys.argv[2]))
"""


def definitions(root: Path, location: str) -> dg.Definitions:
    """What a code location has loaded."""
    if location == OWN:
        return assemble(root, tables)
    project = dg.Definitions(assets=[dg.AssetSpec("report", deps=[dg.AssetKey([SHOP, "staging"])])])
    return dg.Definitions.merge(project, build_lake_defs(root, key_prefix=SHOP))


def prefix(location: str) -> list[str]:
    """What leads the asset keys of a location's tables."""
    return [] if location == OWN else [SHOP]


def run_rebuild(root: Path, location: str) -> bool:
    """Run raw and staging of all days by a location's job; whether it ended well."""
    keys = [dg.AssetKey([*prefix(location), table]) for table in ("raw", "staging")]
    job = definitions(root, location).resolve_job_def("__".join([*prefix(location), "rebuild"]))
    with dg.DagsterInstance.get() as instance:
        return job.execute_in_process(
            instance=instance, tags=SPAN, asset_selection=keys, raise_on_error=False
        ).success


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A lake of three days, and the home of the instance that both locations have."""
    rows = [delivery(n, f"{d} 09:00:00", None, f"k{n}", value=n) for n, d in enumerate(DAYS, 1)]
    monkeypatch.setenv("DAGSTER_HOME", str(make_home(tmp_path / "home")))
    with dg.DagsterInstance.get() as instance:
        instance.get_runs_count()  # Dagster makes no SQLite storage for two processes at once
    return make_lake(tmp_path / "lake", rows, DAYS[0])


def asked(lake: Lake, location: str) -> set[tuple[str, str, str]]:
    """Table, first and last day of what the sensor `late_data` of a location asks for."""
    repository = definitions(lake.root, location).get_repository_def()
    sensor = "__".join([*prefix(location), "late_data"])
    with (
        dg.DagsterInstance.get() as instance,
        dg.build_sensor_context(instance=instance, repository_def=repository) as context,
    ):
        tick: Any = repository.get_sensor_def(sensor).evaluate_tick(context)
    found = set()
    for request in tick.run_requests:
        first = request.tags.get(RANGE_START, request.partition_key)
        last = request.tags.get(RANGE_END, request.partition_key)
        found |= {(key.path[-1], first, last) for key in request.asset_selection}
    return found


def versions(lake: Lake) -> list[int]:
    """The newest versions of the two tables."""
    return [open_lake(lake.root).store.head(table) for table in ("raw", "staging")]


def test_two_locations_see_the_same_states_and_no_run_of_one_fails_by_the_other(
    lake: Lake,
) -> None:
    at_once = [start("-c", RUN, lake.root, where, **PIPES) for where in (OWN, SHOP)]
    told = [process.communicate(timeout=180) for process in at_once]
    assert [process.returncode for process in at_once] == [0, 0], told
    wanted = asked(lake, OWN)
    assert wanted == asked(lake, SHOP)
    assert {table for table, _, _ in wanted} == {"features", "features_as_known"}
    late = delivery(99, f"{DAYS[-1]} 22:00:00", f"{DAYS[0]} 10:00:00", "late", value=5)
    land(lake, "late.jsonl", [late])
    assert run_rebuild(lake.root, SHOP)
    made = versions(lake)
    assert run_rebuild(lake.root, OWN)
    assert versions(lake) == made, "what one wrote the other does not write again"
    with dg.DagsterInstance.get() as instance:
        for location in (OWN, SHOP):
            asked(lake, location)
            key = dg.AssetKey([*prefix(location), "staging"])
            assert set(instance.get_materialized_partitions(key)) == set(DAYS)
