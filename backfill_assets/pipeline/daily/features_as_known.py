"""features_as_known: the columns of features from what was known at each day's cut, which no later
arrival changes.

Not here: the same as known now (`features`).
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from backfill_assets.kernel.core.contracts import InputKind
from backfill_assets.kernel.write.model import Chunk, Frames, Table
from backfill_assets.pipeline.columns import Aggregates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def features_as_known(windows: Aggregates, features: Table) -> Table:
    """The table `features` of these `windows`, made from the versions of events known at midnight
    plus the grace."""
    settings, entity, events = windows.settings.features, windows.entity, windows.staging.name
    grace = settings.cutoff_grace_hours
    contract = replace(
        features.contract,
        name="features_as_known",
        description="The same windows as known at the cut: midnight after the day, plus grace. "
        "Later arrivals never change them.",
        inputs=tuple(replace(i, kind=InputKind.KNOWN_AT_CUT) for i in features.contract.inputs),
        waits_for_cut=True,
    )

    def transform(frames: Frames, chunk: Chunk) -> "DataFrame":
        """The features of a chunk's days, as known at the cut of each day."""
        from backfill_assets.pipeline.transforms.declared import features_at_cut

        finer = settings.by_day_first
        return features_at_cut(
            frames[events], chunk.days, entity, windows.aggregations, grace, by_day_first=finer
        )

    return replace(
        features,
        contract=contract,
        transform=transform,
        settings={**features.settings, "cutoff_grace_hours": grace},
        code_version=windows.version("features_as_known"),
    )
