"""Section `[plan]` of `lake.toml`: how plans yield to other runs of the lake.

Not here: the wait for a chunk's turn (`plans.pace`), and limits of pools and of the queue, which
Dagster's instance says (guide: plans).
"""

from typing import Annotated

from pydantic import Field

from backfill_assets.kernel.tables.sections import Section
from backfill_assets.kernel.tables.settings import LakeSettings

PRIORITY_TAG = "dagster/priority"  # of a run: in Dagster's queue, and before a pool
MOST_PRIORITY = 2**31 - 1  # in Dagster's storage


class PlanSettings(Section):
    """`pool`: Dagster's pool of every step that makes days of the lake. `priority`: of the runs of
    plans, where others have 0; below 0 they begin no further chunk while another run of the lake
    is queued or at work. `runs_per_hour`: so many chunks at most begin within an hour."""

    pool: Annotated[str, Field(pattern=r"^[A-Za-z0-9_/]+$")] | None = None
    priority: int = Field(default=0, strict=True, ge=-MOST_PRIORITY, le=MOST_PRIORITY)
    runs_per_hour: int | None = Field(default=None, strict=True, ge=1, le=1000)


class PlansSettings(Section):
    """The section that plans add to the settings of a lake."""

    plan: PlanSettings = PlanSettings()


def plan_settings(settings: LakeSettings) -> PlanSettings:
    """Return how the plans of a lake yield."""
    return settings.of_room(PlansSettings).plan


def step_pool(settings: LakeSettings) -> str | None:
    """Return the pool of the steps that make days of a lake; None: they have none."""
    return plan_settings(settings).pool


def priority_tags(settings: LakeSettings) -> dict[str, str]:
    """Return the tags by which Dagster knows the priority of a plan's runs; none for 0, which is
    that of runs without."""
    priority = plan_settings(settings).priority
    return {PRIORITY_TAG: str(priority)} if priority else {}
