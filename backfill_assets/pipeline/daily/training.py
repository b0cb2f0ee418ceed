"""training: what a model may learn from, features as known at the cut joined to mature labels.

Not here: the maturity of a label (`labels`).
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from backfill_assets.kernel.core.contracts import Column, Contract, Input
from backfill_assets.kernel.write.model import Chunk, Frames, Table
from backfill_assets.pipeline.columns import TRANSFORMS, Aggregates
from backfill_assets.pipeline.daily.labels import IS_0_OR_1

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def training(windows: Aggregates, known: Contract, labels: Contract) -> Table:
    """The rows of `known` (features_as_known, of these `windows`) with a mature label, and this
    label last."""
    origins = {
        c.name: () if c.name == known.day_column else (f"{known.name}.{c.name}",)
        for c in known.columns
    }
    entity = windows.entity
    contract = Contract(
        "training",
        "What a model may learn from: features as known at the cut, joined to mature labels only.",
        columns=(
            *(replace(c, made_from=origins[c.name]) for c in known.columns),
            Column("label", "INT", "the mature label: 0 or 1", made_from=(f"{labels.name}.label",)),
        ),
        day_column=known.day_column,
        key=known.key,
        inputs=(Input(known.name), Input(labels.name)),
        waits_for_cut=True,
        matures_after_days=labels.matures_after_days,
        rules=(*known.rules, IS_0_OR_1),
    )

    def transform(frames: Frames, chunk: Chunk) -> "DataFrame":
        """The training rows of a chunk's days."""
        from backfill_assets.pipeline.transforms.declared import training_rows

        return training_rows(frames[known.name], frames[labels.name], chunk.days, entity)

    return Table(
        contract,
        transform,
        settings={} if windows.built_in else {"entity": list(entity)},
        sources=(TRANSFORMS + "declared",),
        drops_incomplete=True,
        code_version=windows.version("training"),
    )
