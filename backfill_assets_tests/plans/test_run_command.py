"""`backfill-assets run`: a plan of days that are right ends without a run; several chunks at once
are processes. Not here: runs of Dagster (`end_to_end`)."""

import json
from pathlib import Path

import pytest

from backfill_assets.plans.files import find_plan, resume_plan
from backfill_assets.plans.progress import read_progress
from backfill_assets.plans.run_command import chunk_maker
from backfill_assets.plans.work import ChunkWork
from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.planning import planned
from backfill_assets_tests.synthetic import Made, synthetic_lake


@pytest.fixture
def lake(tmp_path: Path) -> Made:
    """Ten fresh days."""
    return synthetic_lake(tmp_path / "lake", 10)


@pytest.mark.slow
def test_a_plan_of_days_that_are_right_ends_without_a_run(lake: Made) -> None:
    plan = planned(*lake, force=False)
    done = run("--lake", lake[0].root, "run", plan.id, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["state"] == "finished"
    again = run("--lake", lake[0].root, "run", plan.id)
    assert again.exit_code == 0
    assert "it is finished" in again.output


@pytest.mark.slow
def test_a_plan_that_stops_after_its_canary_ends_with_3_until_it_is_resumed(lake: Made) -> None:
    plan, words = planned(*lake, force=False, stop_after="canary"), ("--lake", lake[0].root, "run")
    done = run(*words, plan.id, "--json")
    assert (done.exit_code, json.loads(done.stdout)["state"]) == (3, "waiting"), done.output
    assert run(*words, plan.id).exit_code == 1
    resume_plan(lake[0], plan, "looked")
    assert run(*words, plan.id).exit_code == 0


@pytest.mark.usefixtures("processes")
def test_chunks_at_once_are_processes_that_find_their_chunk_by_the_plan(lake: Made) -> None:
    plan = find_plan(lake[0], planned(*lake, force=False, max_parallel=2).id)
    works = [ChunkWork(plan, chunk, plan.tables, chunk.days) for chunk in plan.chunks[1:3]]
    assert chunk_maker(lake[0]).make(works) == ["", ""]
    lost = [ChunkWork(plan, chunk, plan.tables, chunk.days) for chunk in plan.chunks[1:3]]
    (lake[0].root / ".plans" / f"{plan.id}.json").unlink()
    assert all("exit code 2" in cause for cause in chunk_maker(lake[0]).make(lost))


@pytest.mark.slow
def test_a_plan_asked_of_the_daemon_is_active_and_nothing_is_made_here(lake: Made) -> None:
    plan, words = planned(*lake), ("--lake", lake[0].root, "run")
    before = lake[0].store.view("staging", "event_date").version
    done = run(*words, plan.id, "--daemon", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["state"] == "active"
    assert lake[0].store.view("staging", "event_date").version == before
    refused = run(*words, plan.id, "--daemon", "--accept", "1")
    assert refused.exit_code == 2
    assert "for the person who looked" in refused.output
    for wrong, why in (
        (["staging.flag.max_drift"], "Add --reason WHY"),
        (["staging.nix"], "no bound of its gates"),
        (["99"], "no chunk"),
        (["1", "--accept", "2"], "one chunk at a time"),
    ):
        refused = run(*words, plan.id, "--accept", *wrong)
        assert (refused.exit_code, why in " ".join(refused.output.split())) == (2, True), (
            refused.output
        )
    assert read_progress(*lake, plan).accepted == ()


@pytest.mark.usefixtures("processes")
def test_dagsters_home_is_made_before_processes_share_it(
    lake: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, home = planned(*lake, force=False, max_parallel=2), tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    done = run("--lake", lake[0].root, "run", plan.id)
    assert done.exit_code == 0, done.output
    assert list(home.rglob("runs.db"))
