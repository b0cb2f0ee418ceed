"""The job `catch_up`: what its launchpad says at each moment, and what one click makes.

Tested here: the launchpad as Dagster asks for it, a look, a refusal, and a run that makes late days.
Not tested here: days that fail (`cli.test_catch_up`), and the page (`browser.test_plans`).
"""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.dagster.adapter.assemble import assemble, project_definitions
from backfill_assets.dagster.adapter.catch_up_job import ALL_TABLES, CHOOSE, MAKE_STALE
from backfill_assets.dagster.adapter.context import Appearance, Naming
from backfill_assets.dagster.adapter.runs import CATCH_UP
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.pipeline.tables import tables
from backfill_assets.reading.needed_days import NOTHING
from backfill_assets_tests.dagster.adapter.ticking import Made, day, stale
from backfill_assets_tests.homes import opened_home
from backfill_assets_tests.lakes import content, delivery, land, make_lake, run_rebuild, toy

pytestmark = pytest.mark.usefixtures("storages")
FIRST, LAST = "2024-03-01", "2024-03-04"


def job_of(root: Path) -> dg.JobDefinition:
    return assemble(root, tables).resolve_job_def(CATCH_UP)


def filled(job: dg.JobDefinition, choice: str = ALL_TABLES) -> dict[str, Any]:
    """What Dagster fills the launchpad in with once somebody chooses."""
    assert job.partitioned_config is not None
    found = job.partitioned_config.get_run_config_for_partition_key(choice)
    config: dict[str, Any] = {**found}["ops"][MAKE_STALE]["config"]
    return config


def run(job: dg.JobDefinition, instance: dg.DagsterInstance, **config: Any) -> list[str]:
    """One run; the lines of its log, and the last one of a failure."""
    asked = {"ops": {MAKE_STALE: {"config": config}}}
    result = job.execute_in_process(run_config=asked, instance=instance, raise_on_error=False)
    failed = [e.step_failure_data.user_failure_data for e in result.all_events if e.is_step_failure]
    logged = [record.user_message for record in instance.all_logs(result.run_id)]
    return [*logged, *(str(f.description) for f in failed if f is not None)]


def test_the_launchpad_says_what_is_stale_when_somebody_looks_not_when_it_was_loaded(
    lake: Made,
) -> None:
    job = job_of(lake[0].root)
    assert filled(job)["would_make"] == [NOTHING]
    stale(lake, 2, 3)
    config = filled(job)
    line, *_, total = config["would_make"]
    assert line.startswith(f"staging: 2 days, {day(2)}..{day(3)}; ")
    assert "changed since" in line or "were loaded" in line
    assert total.startswith("in all: ")
    assert total.endswith(" s to compute")
    assert config["as_of"].endswith(" UTC")
    assert config["act"], "one click"


def test_a_table_is_chosen_with_all_that_it_is_made_from(lake: Made) -> None:
    job = job_of(lake[0].root)
    stale(lake, 4)
    assert filled(job, "training")["would_make"][0].startswith("staging: 1 day, ")
    assert filled(job, "raw")["would_make"] == [NOTHING]


def test_settings_that_cannot_be_read_are_named_in_the_launchpad_and_nothing_would_run(
    lake: Made,
) -> None:
    job = job_of(lake[0].root)
    (lake[0].root / "lake.toml").write_text("start_date = tomorrow")
    config = filled(job)
    (line,) = config["would_make"]
    assert "lake.toml" in line
    assert not config["act"]


def test_without_a_choice_nothing_is_done_and_it_says_how_to_choose(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    stale(lake, 2)
    version = lake[0].store.head("staging")
    said = run(job_of(lake[0].root), instance)
    assert "Nothing was done: `act: true` does it" in said
    assert any(line.startswith(f"staging: 1 day, {day(2)}") for line in said)
    assert lake[0].store.head("staging") == version
    assert "Partition" in CHOOSE


def test_a_table_that_is_not_there_is_refused_with_those_that_are(
    lake: Made, instance: dg.DagsterInstance
) -> None:
    said = run(job_of(lake[0].root), instance, tables=["stagin"], act=True)
    assert "no table stagin" in said[-1]
    assert "staging" in said[-1]


def test_in_a_project_the_job_bears_its_name_and_a_folder_without_a_lake_says_so(
    tmp_path: Path,
) -> None:
    shop = Appearance(Naming.below("shop"), is_guest=True)
    job = project_definitions(tmp_path, tables, shop).resolve_job_def(f"shop__{CATCH_UP}")
    assert job.partitioned_config is not None
    found = {**job.partitioned_config.get_run_config_for_partition_key(ALL_TABLES)}
    (line,) = found["ops"][f"shop__{MAKE_STALE}"]["config"]["would_make"]
    assert "it has no lake.toml" in line


def late_lake(folder: Path, instance: dg.DagsterInstance) -> Lake:
    """Four days, made; then a late row landed, which nobody scanned."""
    rows = [delivery(n, f"2024-03-0{n} 09:00:00", None, f"k{n}", value=n) for n in range(1, 5)]
    lake = make_lake(folder, {"a.jsonl": rows}, FIRST)
    assert run_rebuild(lake, FIRST, LAST, instance, None, toy()).success
    late = delivery(40, "2024-03-05 09:00:00", "2024-03-02 09:00:00", "late")
    land(lake, "late.jsonl", [late])
    return lake


@pytest.mark.usefixtures("spark")
def test_one_click_scans_loads_and_makes_what_follows_and_the_next_one_has_nothing_to_do(
    tmp_path: Path,
) -> None:
    (home := tmp_path / "home").mkdir()
    with opened_home(home) as instance:
        lake = late_lake(tmp_path, instance)
        job = assemble(lake.root, toy()).resolve_job_def(CATCH_UP)
        assert filled(job)["would_make"][0].startswith("1 new landed file(s), not scanned yet: ")
        said = run(job, instance, act=True, note="from the page")
        assert "raw: 1 day(s) made, 2024-03-05" in said
        assert any(line.startswith("echo: ") and "2024-03-02" in line for line in said)
        assert "late" in {key for key, *_ in content(lake, "echo")}
        newest = next(lake.store.newest_commits("echo")).receipt
        assert newest is not None
        assert (newest.reason, newest.note) == ("catch-up", "from the page")
        runs = len(instance.get_runs())
        assert "Nothing to do: every day that can be is up to date" in run(job, instance, act=True)
        assert len(instance.get_runs()) == runs + 1, "no run of `rebuild`"
