"""Training rows: features as known at the cut, joined to mature labels only.

Lives here: that join. Does not live here: leaving out incomplete days (`load.derived`).
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.core.days import DayRange


def training(features_as_known: DataFrame, labels: DataFrame, days: DayRange) -> DataFrame:
    """The feature columns and `label` for entities and days of `days` (half-open) whose label is mature."""
    inside = F.col("feature_date").between(F.lit(days.start), F.lit(days.last))
    mature = labels.where(F.col("label_state") == "mature")
    chosen = mature.select("entity", F.col("label_date").alias("feature_date"), "label")
    return (
        features_as_known.where(inside)
        .join(chosen, ["entity", "feature_date"])
        .select(*features_as_known.columns, "label")
    )
