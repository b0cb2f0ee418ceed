"""The tables of this product, from the settings of a lake: contract, transform, and which settings reach each content.

Lives here: the binding of contracts and pure transforms to settings, upstream first. Does not live here: the contracts'
texts (`contracts`), the transforms (`transforms`), and Dagster. Replace this file to run your own pipeline.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from backfill_assets.lake.model import Chunk, Table
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.pipeline import contracts
from backfill_assets.pipeline.transforms import features, features_as_known, labels, staging, training, windows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Frames = Mapping[str, "DataFrame"]


def tables(settings: LakeSettings) -> tuple[Table, ...]:
    """raw, staging, features, features_as_known, labels, training: each made from those before it."""
    short_long = settings.features.windows_days
    return (
        Table(contracts.raw(), settings=_landing_settings(settings)),
        Table(contracts.staging(), _staging, sources=(staging,)),
        _features(settings),
        _features_as_known(settings),
        _labels(settings),
        Table(
            contracts.training(short_long, settings.labels.horizon_days, settings.labels.maturity_days),
            _training,
            sources=(training,),
            drops_incomplete=True,
        ),
    )


def _landing_settings(settings: LakeSettings) -> Mapping[str, object]:
    return {
        "start_date": str(settings.start_date),
        "format": settings.source.format,
        "select": settings.source.select,
        "early_tolerance_days": settings.lateness.early_tolerance_days,
    }


def _staging(frames: Frames, chunk: Chunk) -> "DataFrame":
    return staging.staging(frames["raw"], chunk.days)


def _training(frames: Frames, chunk: Chunk) -> "DataFrame":
    return training.training(frames["features_as_known"], frames["labels"], chunk.days)


def _features(settings: LakeSettings) -> Table:
    short_long = settings.features.windows_days

    def build(frames: Frames, chunk: Chunk) -> "DataFrame":
        return features.features(frames["staging"], chunk.days, short_long)

    return Table(contracts.features(short_long), build, {"windows_days": short_long}, (features, windows))


def _features_as_known(settings: LakeSettings) -> Table:
    short_long, grace = settings.features.windows_days, settings.features.cutoff_grace_hours

    def build(frames: Frames, chunk: Chunk) -> "DataFrame":
        return features_as_known.features_as_known(frames["staging"], chunk.days, short_long, grace)

    reach = {"windows_days": short_long, "cutoff_grace_hours": grace}
    return Table(contracts.features_as_known(short_long), build, reach, (features_as_known, windows))


def _labels(settings: LakeSettings) -> Table:
    chosen = settings.labels
    contract = contracts.labels(chosen.horizon_days, chosen.maturity_days)
    outcome = labels.Outcome(
        chosen.horizon_days, chosen.measure, chosen.rule, chosen.horizon_days + chosen.maturity_days
    )

    def build(frames: Frames, chunk: Chunk) -> "DataFrame":
        return labels.labels(frames["staging"], frames["features_as_known"], chunk.days, outcome, chunk.frontier)

    return Table(contract, build, chosen.model_dump(), (labels,))
