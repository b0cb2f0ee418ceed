"""The built-in tables as functions of frames: the transforms with the columns of a lake that declares nothing.

Not here: the right answers (`oracle`).
"""

from datetime import datetime
from typing import TYPE_CHECKING

from backfill_assets.core.days import DayRange
from backfill_assets.pipeline.transforms.aggregation import Outcome, built_in_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ENTITY = ("entity",)


def features(staging: "DataFrame", days: DayRange, windows_days: tuple[int, int]) -> "DataFrame":
    """The built-in features as known now."""
    from backfill_assets.pipeline.transforms.declared import now

    return now(staging, days, ENTITY, built_in_columns(windows_days))


def features_as_known(
    staging: "DataFrame", days: DayRange, windows_days: tuple[int, int], grace_hours: int
) -> "DataFrame":
    """The built-in features as known at the cut of each day."""
    from backfill_assets.pipeline.transforms.declared import at_cut

    return at_cut(staging, days, ENTITY, built_in_columns(windows_days), grace_hours)


def labels(
    staging: "DataFrame", known: "DataFrame", days: DayRange, outcome: Outcome, frontier: datetime | None
) -> "DataFrame":
    """Labels by measure and rule (`outcome_by_rule`)."""
    from backfill_assets.pipeline.transforms.declared import labels as declared_labels

    return declared_labels((staging, known), days, ENTITY, outcome, frontier)


def training(known: "DataFrame", labelled: "DataFrame", days: DayRange) -> "DataFrame":
    """The built-in training rows."""
    from backfill_assets.pipeline.transforms.declared import training as declared_training

    return declared_training(known, labelled, days, ENTITY)
