"""The built-in tables: contracts, and transforms as functions of frames, of a lake that declares
nothing. Not here: the right answers (`oracle`)."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from backfill_assets import LakeSettings
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.pipeline.daily.labels import label_from_rule
from backfill_assets.pipeline.tables import tables
from backfill_assets.pipeline.transforms.aggregation import Outcome, built_in_columns

if TYPE_CHECKING:  # not by `engines`, which reads the environment: this is code of tables
    from pyspark.sql import DataFrame

ENTITY = ("entity",)
SOURCE = {"files": "landing/**", "format": "jsonl", "select": "seq"}


def lake_settings(**sections: Any) -> LakeSettings:
    """The settings of a lake with these sections."""
    return LakeSettings.model_validate({"start_date": "2024-03-01", "source": SOURCE, **sections})


def contracts(
    windows_days: tuple[int, int] = (7, 28), horizon_days: int = 7, maturity_days: int = 7
) -> dict[str, Contract]:
    """The contracts of the built-in tables by name, upstream first."""
    labels = {"horizon_days": horizon_days, "maturity_days": maturity_days}
    settings = lake_settings(features={"windows_days": windows_days}, labels=labels)
    return {t.name: t.contract for t in tables(settings)}


def contract(name: str) -> Contract:
    """The contract of one of the built-in tables."""
    return contracts()[name]


def outcome_by_rule(measure: str, rule: str, horizon_days: int, matures_after_days: int) -> Outcome:
    """The outcome of a label by measure and rule."""
    asked = {"measure": measure, "rule": rule, "horizon_days": horizon_days}
    terms, condition = label_from_rule(lake_settings(labels=asked))
    return Outcome(tuple(t.aggregation for t in terms), condition, matures_after_days)


def features(staging: "DataFrame", days: DayRange, windows_days: tuple[int, int]) -> "DataFrame":
    """The built-in features as known now."""
    from backfill_assets.pipeline.transforms.declared import features_now

    return features_now(staging, days, ENTITY, built_in_columns(windows_days))


def features_as_known(
    staging: "DataFrame", days: DayRange, windows_days: tuple[int, int], grace_hours: int
) -> "DataFrame":
    """The built-in features as known at the cut of each day."""
    from backfill_assets.pipeline.transforms.declared import features_at_cut

    return features_at_cut(staging, days, ENTITY, built_in_columns(windows_days), grace_hours)


def labels(
    staging: "DataFrame",
    known: "DataFrame",
    days: DayRange,
    outcome: Outcome,
    frontier: datetime | None,
) -> "DataFrame":
    """Labels by measure and rule (`outcome_by_rule`)."""
    from backfill_assets.pipeline.transforms.declared import label_rows as declared_labels

    return declared_labels((staging, known), days, ENTITY, outcome, frontier)


def training(known: "DataFrame", labelled: "DataFrame", days: DayRange) -> "DataFrame":
    """The built-in training rows."""
    from backfill_assets.pipeline.transforms.declared import training_rows as declared_training

    return declared_training(known, labelled, days, ENTITY)
