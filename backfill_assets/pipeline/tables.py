"""The tables of this product, from the settings of a lake: contract, transform, and which settings reach each content.

Lives here: the binding of contracts and pure transforms to settings, upstream first. Does not live here: the contracts'
texts (`contracts`), the transforms (`transforms`), and Dagster. Replace this file to run your own pipeline.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from backfill_assets.core.cuts import matures_after
from backfill_assets.core.errors import SettingsError
from backfill_assets.core.payload import DEFAULT_PAYLOAD, words
from backfill_assets.lake.model import Chunk, Table
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.pipeline import contracts
from backfill_assets.pipeline.transforms import lateness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Frames = Mapping[str, "DataFrame"]
# The transforms are imported when they run: they import Spark, which `status` and its kin do without.
TRANSFORMS = "backfill_assets.pipeline.transforms."
CUTS = "backfill_assets.core.cuts"


def tables(settings: LakeSettings) -> tuple[Table, ...]:
    """raw, staging, features, features_as_known, labels, training: each made from those before it.

    Raises SettingsError where the payload lacks what the built-in features look at.
    """
    _refuse_other_payloads(settings)
    short_long = settings.features.windows_days
    return (
        *delivered(settings),
        _features(settings),
        _features_as_known(settings),
        _labels(settings),
        Table(
            contracts.training(short_long, settings.labels.horizon_days, settings.labels.maturity_days),
            _training,
            sources=(TRANSFORMS + "training",),
            drops_incomplete=True,
        ),
    )


def delivered(settings: LakeSettings) -> tuple[Table, Table]:
    """raw and staging, whatever the payload: what tables of one's own are made from."""
    payload = settings.source.payload_columns
    return (
        Table(contracts.raw(payload), settings=_landing_settings(settings), facts=lateness.of_deliveries),
        Table(contracts.staging(payload), _staging, sources=(TRANSFORMS + "staging",), facts=lateness.of_versions),
    )


def _refuse_other_payloads(settings: LakeSettings) -> None:
    lacking = [c for c in DEFAULT_PAYLOAD if c not in settings.source.payload_columns]
    if lacking or settings.features.entity != ("entity",):
        needed = ", ".join(f"{c.name} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in DEFAULT_PAYLOAD)
        raise SettingsError(
            "[source.payload] in lake.toml",
            "the built-in features and labels look at other columns",
            "Nothing was done",
            f"Declare {needed} (with `entity` naming entities), or give tables of your own",
        )


def _landing_settings(settings: LakeSettings) -> Mapping[str, object]:
    window = settings.lateness.window_days
    return {
        "start_date": str(settings.start_date),
        "format": settings.source.format,
        "select": settings.source.select,
        "early_tolerance_days": settings.lateness.early_tolerance_days,
        **({"window_days": window} if window is not None else {}),
        **({"payload": words(settings.source.payload_columns)} if settings.source.payload is not None else {}),
    }


def _staging(frames: Frames, chunk: Chunk) -> "DataFrame":
    from backfill_assets.pipeline.transforms.staging import staging

    return staging(frames["raw"], chunk.days)


def _flips(before: "DataFrame", after: "DataFrame") -> "DataFrame":
    from backfill_assets.pipeline.transforms.labels import flips

    return flips(before, after)


def _training(frames: Frames, chunk: Chunk) -> "DataFrame":
    from backfill_assets.pipeline.transforms.training import training

    return training(frames["features_as_known"], frames["labels"], chunk.days)


def _features(settings: LakeSettings) -> Table:
    short_long = settings.features.windows_days

    def _build(frames: Frames, chunk: Chunk) -> "DataFrame":
        from backfill_assets.pipeline.transforms.features import features

        return features(frames["staging"], chunk.days, short_long)

    return Table(
        contracts.features(short_long),
        _build,
        {"windows_days": short_long},
        (TRANSFORMS + "features", TRANSFORMS + "windows", TRANSFORMS + "sums"),
    )


def _features_as_known(settings: LakeSettings) -> Table:
    short_long, grace = settings.features.windows_days, settings.features.cutoff_grace_hours

    def _build(frames: Frames, chunk: Chunk) -> "DataFrame":
        from backfill_assets.pipeline.transforms.features_as_known import features_as_known

        return features_as_known(frames["staging"], chunk.days, short_long, grace)

    reach = {"windows_days": short_long, "cutoff_grace_hours": grace}
    return Table(
        contracts.features_as_known(short_long),
        _build,
        reach,
        (TRANSFORMS + "features_as_known", TRANSFORMS + "windows", TRANSFORMS + "sums"),
    )


def _labels(settings: LakeSettings) -> Table:
    chosen = settings.labels
    matures = matures_after(chosen.horizon_days, chosen.maturity_days)

    def _build(frames: Frames, chunk: Chunk) -> "DataFrame":
        from backfill_assets.pipeline.transforms.labels import LabelOutcome, labels

        outcome = LabelOutcome(chosen.horizon_days, chosen.measure, chosen.rule, matures)
        return labels(frames["staging"], frames["features_as_known"], chunk.days, outcome, chunk.frontier)

    contract = contracts.labels(chosen.horizon_days, chosen.maturity_days)
    sources = (TRANSFORMS + "labels", TRANSFORMS + "sums", CUTS)
    return Table(contract, _build, chosen.model_dump(), sources, revisions=_flips)
