"""The tables of declared features and labels: contract, transform, and the settings that reach each content.

Lives here: their binding to the settings of a lake. Does not live here: the tables of a lake that declares nothing
(`tables`), the contracts' texts (`declared_contracts`) and the transforms.
"""

from typing import TYPE_CHECKING, Any

from backfill_assets.core.contracts import Contract
from backfill_assets.core.ledgers import named
from backfill_assets.lake.model import Chunk, Frames, Table
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.pipeline import declared_contracts as contracts
from backfill_assets.pipeline.contracts import STAGING
from backfill_assets.pipeline.declared import declared, words
from backfill_assets.pipeline.declared_label import declared_label
from backfill_assets.pipeline.transforms.flips import flips

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The transforms are imported when they run: they import Spark, which `status` and its kin do without.
TRANSFORMS = "backfill_assets.pipeline.transforms."
MADE_BY = tuple(TRANSFORMS + name for name in ("declared", "intervals", "measures", "aggregation", "sums"))
FEATURES = "declared features 1"


def features(settings: LakeSettings) -> tuple[Table, Table]:
    """features and features_as_known with the declared columns. Raises SettingsError naming a faulty expression."""
    source = settings.source_of("features")
    settings, staging = settings.of_source(source), named(STAGING, source)
    columns, entity = declared(settings), settings.features.entity
    made, grace = tuple(c.aggregation for c in columns), settings.features.cutoff_grace_hours
    reach: dict[str, Any] = {"entity": list(entity), "columns": words(columns)}
    compiled = {c.aggregation.name: c.sql for c in columns}

    def _now(frames: Frames, chunk: Chunk) -> "DataFrame":
        from backfill_assets.pipeline.transforms.declared import now

        return now(frames[staging], chunk.days, entity, made)

    def _at_cut(frames: Frames, chunk: Chunk) -> "DataFrame":
        from backfill_assets.pipeline.transforms.declared import at_cut

        return at_cut(frames[staging], chunk.days, entity, made, grace)

    now, known = (contracts.features(settings, columns, staging, known=known) for known in (False, True))
    return (
        Table(now, _now, reach, MADE_BY, compiled=compiled, code_version=FEATURES),
        Table(
            known, _at_cut, {**reach, "cutoff_grace_hours": grace}, MADE_BY, compiled=compiled, code_version=FEATURES
        ),
    )


def labels(settings: LakeSettings) -> Table:
    """labels with a declared label, or for entities that are declared. Raises SettingsError as `declared_label`."""
    source = settings.source_of("labels")
    settings, staging = settings.of_source(source), named(STAGING, source)
    (terms, outcome), entity = declared_label(settings), settings.features.entity

    def _build(frames: Frames, chunk: Chunk) -> "DataFrame":
        from backfill_assets.pipeline.transforms.outcomes import labels

        asked = frames[staging], frames["features_as_known"]
        return labels(asked, chunk.days, entity, outcome, chunk.frontier)

    def _flips(before: str, after: str) -> str:
        return flips(before, after, entity)

    reach = {"entity": list(entity), "terms": words(terms), "condition": outcome.condition, **_times(settings)}
    compiled = {t.aggregation.name: t.sql for t in terms} | {"label": outcome.condition}
    sources = (*MADE_BY, TRANSFORMS + "outcomes", "backfill_assets.core.cuts")
    contract = contracts.labels(settings, terms, staging)
    version = "declared labels 1"
    return Table(contract, _build, reach, sources, revisions=_flips, compiled=compiled, code_version=version)


def training(settings: LakeSettings, features_as_known: Contract) -> Table:
    """training with the columns of this contract, for entities that are declared."""
    entity = settings.features.entity

    def _build(frames: Frames, chunk: Chunk) -> "DataFrame":
        from backfill_assets.pipeline.transforms.outcomes import training

        return training(frames["features_as_known"], frames["labels"], chunk.days, entity)

    contract = contracts.training(settings, features_as_known.columns, features_as_known.rules)
    reach = {"entity": list(entity)}
    sources, version = (TRANSFORMS + "outcomes",), "declared training 1"
    return Table(contract, _build, reach, sources, drops_incomplete=True, code_version=version)


def _times(settings: LakeSettings) -> dict[str, int]:
    return {"horizon_days": settings.labels.horizon_days, "maturity_days": settings.labels.maturity_days}
