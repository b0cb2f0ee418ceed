"""Section `[plan]` of `lake.toml`, and what Dagster is told of it. Not here: the rate
(`test_pace`), and that a load goes before a plan in a pool (`test_yielding`)."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from backfill_assets import LakeSettings
from backfill_assets.dagster.adapter.assemble import assemble
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.tables.settings import load_settings
from backfill_assets.pipeline.tables import tables
from backfill_assets.plans.settings import PlanSettings, priority_tags, step_pool
from backfill_assets.plans.work import ChunkWork, make_chunk_here
from backfill_assets_tests.planning import bare_staging, planned

BODY = {"start_date": "2024-03-01", "assets_only": True}


def settings(**plan: Any) -> LakeSettings:
    """Settings with such a section."""
    return LakeSettings.model_validate({**BODY, "plan": plan})


def test_a_lake_without_the_section_has_no_pool_and_no_priority() -> None:
    made = LakeSettings.model_validate(BODY)
    assert (step_pool(made), priority_tags(made)) == (None, {})


def test_a_pool_and_a_priority_are_said_in_words_of_dagster() -> None:
    made = settings(pool="lake", priority=-1)
    assert (step_pool(made), priority_tags(made)) == ("lake", {"dagster/priority": "-1"})


@pytest.mark.parametrize(
    "plan", [{"pool": "my lake"}, {"pool": ""}, {"priority": 2**31}, {"runs_per_hour": 0}]
)
def test_what_dagster_would_not_take_is_refused(plan: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        PlanSettings.model_validate(plan)


def test_hours_of_an_earlier_release_are_refused_with_what_to_do(tmp_path: Path) -> None:
    text = 'start_date = 2024-03-01\nassets_only = true\n[plan]\nwindow = "22:00-06:00"\n'
    (tmp_path / "lake.toml").write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=r"plan\.window: hours of plans are gone: .* by cron"):
        load_settings(tmp_path)


def test_every_step_of_the_lake_is_in_the_pool_and_the_job_of_plans_has_the_priority(
    tmp_path: Path,
) -> None:
    bare_staging(tmp_path)
    file = tmp_path / "lake.toml"
    section = '\n[plan]\npool = "lake"\npriority = -1\n'
    file.write_text(file.read_text("utf-8") + section, encoding="utf-8")
    defs = assemble(tmp_path, tables)
    steps = [a for a in defs.assets or () if hasattr(a, "op")]
    assert steps
    assert {getattr(asset, "op").pool for asset in steps} == {"lake"}  # noqa: B009
    assert defs.resolve_job_def("backfill_range").tags["dagster/priority"] == "-1"
    assert "dagster/priority" not in defs.resolve_job_def("rebuild").tags


def test_a_run_of_a_chunk_has_the_priority_and_its_receipts_do_not_name_it(tmp_path: Path) -> None:
    lake, pipeline = bare_staging(tmp_path)
    plan = planned(lake, pipeline)
    made = lake.settings.model_copy(update={"plan": PlanSettings(priority=-5)})
    asked = list[Work]()

    def keep(work: Work) -> str:
        """Make nothing."""
        asked.append(work)
        return ""

    work = ChunkWork(plan, plan.chunks[0], plan.tables, plan.chunks[0].days)
    make_chunk_here(lambda: (replace(lake, settings=made), pipeline), work, keep)
    assert asked[0].tags["dagster/priority"] == "-5"
    assert "dagster/priority" not in work.tags
