"""The pins of a plan: what it was made with, and whether that still holds.

Lives here: taking pins, and refusing by name what moved, with both digests. Does not live here: freezing a lake: table
versions are recorded, and what was written since is told, for late data lands while a plan runs and belongs in it.
"""

import platform
from collections.abc import Iterator, Sequence

from backfill_assets.core.errors import BackfillError
from backfill_assets.core.plans import Pins, Plan
from backfill_assets.core.states import States
from backfill_assets.lake.code import LIBRARIES, installed_versions
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline

PACKAGES = ("backfill-assets", "dagster", *LIBRARIES)


def take_pins(lake: Lake, pipeline: Pipeline, states: States) -> Pins:
    """Today's code, settings, packages, engine, table heads and `as_of`."""
    return Pins(
        {name: c.code_digest for name, c in pipeline.codes.items()},
        {name: c.settings_digest for name, c in pipeline.codes.items()},
        {"engine": lake.settings.spark.engine, "python": platform.python_version(), **installed_versions(PACKAGES)},
        {name: table.version for name, table in states.view.tables.items()},
        states.view.as_of,
    )


def refuse_moved(plan: Plan, lake: Lake, pipeline: Pipeline, states: States) -> None:
    """Raise where a pin of the plan holds no longer: code, settings, packages, engine or `as_of`."""
    moved = list(moved_pins(plan.pins, take_pins(lake, pipeline, states), plan.tables))
    if moved:
        more = f"; {len(moved) - 3} more" if len(moved) > 3 else ""
        raise BackfillError(
            f"the plan {plan.id}",
            f"its pins hold no longer: {'; '.join(moved[:3])}{more}",
            "No further chunk was run; what is written stays",
            f"Put back what moved and run it again, or `backfill-assets plan cancel {plan.id}` and plan the rest anew",
        )


def moved_pins(pinned: Pins, now: Pins, tables: Sequence[str]) -> Iterator[str]:
    """What moved, in words: the pinned value, then today's."""
    for name in tables:
        yield from _moved(f"the code of {name}", pinned.codes.get(name, "none"), now.codes.get(name, "none"))
        yield from _moved(f"the settings of {name}", pinned.settings.get(name, "none"), now.settings.get(name, "none"))
    for package, known in pinned.packages.items():
        yield from _moved(package, known, now.packages.get(package, "none"))
    yield from _moved("as_of", str(pinned.as_of), str(now.as_of))


def _moved(what: str, pinned: str, now: str) -> Iterator[str]:
    if pinned != now:
        yield f"{what} was {pinned}, is {now}"
