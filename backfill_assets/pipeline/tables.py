"""The tables of this product, from the settings of a lake: contract, transform, and which settings reach each content.

Lives here: the binding of contracts and pure transforms to settings, upstream first. Does not live here: the contracts'
texts (`contracts`), the transforms (`transforms`), and Dagster. Replace this file to run your own pipeline.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from backfill_assets.core.contracts import Contract
from backfill_assets.core.cuts import matures_after
from backfill_assets.core.errors import SettingsError
from backfill_assets.core.ledgers import named
from backfill_assets.core.payload import DEFAULT_PAYLOAD, PayloadColumn, words
from backfill_assets.lake.model import Chunk, Frames, Table
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.pipeline import contracts
from backfill_assets.pipeline.recorded_settings import unrecorded
from backfill_assets.pipeline.transforms import lateness, layers
from backfill_assets.pipeline.transforms.flips import flips

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The transforms are imported when they run: they import Spark, which `status` and its kin do without. And what reads
# expressions only where there are any: its parser takes a tenth of a second.
TRANSFORMS = "backfill_assets.pipeline.transforms."
CUTS = "backfill_assets.core.cuts"
ENTITY = ("entity",)


def tables(settings: LakeSettings) -> tuple[Table, ...]:
    """raw, staging, features, features_as_known, labels, training: each made from those before it.

    Where sources have names there is a raw and a staging of each, and `[features]` and `[labels]` choose theirs.
    Raises SettingsError where they do not, the payload lacks what the built-in features look at, or an expression is at
    fault.
    """
    settings = unrecorded(settings)
    are_usual = _is_usual(settings, "features") and not settings.features.columns
    are_usual_labels = _is_usual(settings, "labels") and settings.labels.label is None
    features = _usual_features(settings) if are_usual else _declared_features(settings)
    labels = _labels(settings) if are_usual_labels else _declared_labels(settings)
    training = _usual_training(settings) if are_usual else _declared_training(settings, features[1].contract)
    return (*delivered(settings), *features, labels, training)


def delivered(settings: LakeSettings) -> tuple[Table, ...]:
    """raw and staging of each source, whatever the payload: what tables of one's own are made from."""
    settings = unrecorded(settings)
    return tuple(table for name in settings.delivered for table in _delivered(settings.of_source(name), name))


def _delivered(settings: LakeSettings, source: str) -> tuple[Table, Table]:
    payload = settings.source.payload_columns
    raw = contracts.raw(payload, source)
    return Table(raw, settings=_landing_settings(settings), facts=lateness.of_deliveries), _staging(payload, source)


def _is_usual(settings: LakeSettings, section: Literal["features", "labels"]) -> bool:
    """Whether what a section is made from has the payload, and entities, of a lake that declares none."""
    own = settings.of_source(settings.source_of(section))
    return own.features.entity == ENTITY and not _lacking(own, DEFAULT_PAYLOAD)


def _declared_features(settings: LakeSettings) -> tuple[Table, Table]:
    amounts = [c for c in DEFAULT_PAYLOAD if c.name not in ENTITY]
    own = settings.of_source(settings.source_of("features"))
    if not settings.features.columns and _lacking(own, amounts):
        needed = ", ".join(f"{c.name} {c.type} NOT NULL" for c in amounts)
        raise SettingsError(
            "[source.payload] in lake.toml",
            "the built-in features look at other columns",
            "Nothing was done",
            f"Declare features of your own ([[features.columns]]), or these columns: {needed}",
        )
    from backfill_assets.pipeline.declared_tables import features

    return features(settings)


def _declared_labels(settings: LakeSettings) -> Table:
    from backfill_assets.pipeline.declared_tables import labels

    return labels(settings)


def _declared_training(settings: LakeSettings, known: Contract) -> Table:
    from backfill_assets.pipeline.declared_tables import training

    return training(settings, known)


def _lacking(settings: LakeSettings, columns: Iterable[PayloadColumn]) -> list[PayloadColumn]:
    return [c for c in columns if c not in settings.source.payload_columns]


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


def _staging(payload: tuple[PayloadColumn, ...], source: str) -> Table:
    raw = named(contracts.RAW, source)

    def _build(frames: Frames, chunk: Chunk) -> "DataFrame":
        from backfill_assets.pipeline.transforms.staging import staging

        return staging(frames[raw], chunk.days, [c.name for c in payload], chunk.wanted)

    return Table(
        contracts.staging(payload, source),
        _build,
        sources=(TRANSFORMS + "staging",),
        code_version="staging 1",
        facts=lateness.of_versions,
        account=layers.of_deliveries,
    )


def _staged(settings: LakeSettings, section: Literal["features", "labels"]) -> str:
    """The name of the table of versions that a section's tables are made from."""
    return named(contracts.STAGING, settings.source_of(section))


def _flips(before: str, after: str) -> str:
    return flips(before, after, ("entity",))


def _training(frames: Frames, chunk: Chunk) -> "DataFrame":
    from backfill_assets.pipeline.transforms.training import training

    return training(frames["features_as_known"], frames["labels"], chunk.days)


def _usual_features(settings: LakeSettings) -> tuple[Table, Table]:
    return _features(settings), _features_as_known(settings)


def _usual_read(settings: LakeSettings, section: Literal["features", "labels"]) -> tuple[str, ...] | None:
    """The columns of staging that the tables of a lake look at that declares no features."""
    own = settings.of_source(settings.source_of(section))
    return contracts.read_of_staging(own.source.payload_columns, (c.name for c in DEFAULT_PAYLOAD))


def _usual_training(settings: LakeSettings) -> Table:
    horizon, maturity = settings.labels.horizon_days, settings.labels.maturity_days
    contract = contracts.training(settings.features.windows_days, horizon, maturity)
    sources = (TRANSFORMS + "training",)
    return Table(contract, _training, sources=sources, code_version="training 1", drops_incomplete=True)


def _features(settings: LakeSettings) -> Table:
    short_long, staging = settings.features.windows_days, _staged(settings, "features")

    def _build(frames: Frames, chunk: Chunk) -> "DataFrame":
        from backfill_assets.pipeline.transforms.features import features

        return features(frames[staging], chunk.days, short_long)

    return Table(
        contracts.reading(contracts.features(short_long, staging), **{staging: _usual_read(settings, "features")}),
        _build,
        {"windows_days": short_long},
        (TRANSFORMS + "features", TRANSFORMS + "windows", TRANSFORMS + "sums"),
        code_version="features 1",
    )


def _features_as_known(settings: LakeSettings) -> Table:
    short_long, grace = settings.features.windows_days, settings.features.cutoff_grace_hours
    staging = _staged(settings, "features")
    read = {staging: _usual_read(settings, "features")}

    def _build(frames: Frames, chunk: Chunk) -> "DataFrame":
        from backfill_assets.pipeline.transforms.features_as_known import features_as_known

        return features_as_known(frames[staging], chunk.days, short_long, grace)

    reach = {"windows_days": short_long, "cutoff_grace_hours": grace}
    return Table(
        contracts.reading(contracts.features_as_known(short_long, staging), **read),
        _build,
        reach,
        (TRANSFORMS + "features_as_known", TRANSFORMS + "windows", TRANSFORMS + "sums"),
        code_version="features_as_known 1",
    )


def _labels(settings: LakeSettings) -> Table:
    chosen, staging = settings.labels, _staged(settings, "labels")
    matures = matures_after(chosen.horizon_days, chosen.maturity_days)

    def _build(frames: Frames, chunk: Chunk) -> "DataFrame":
        from backfill_assets.pipeline.transforms.labels import LabelOutcome, labels

        outcome = LabelOutcome(chosen.horizon_days, chosen.measure, chosen.rule, matures)
        return labels(frames[staging], frames["features_as_known"], chunk.days, outcome, chunk.frontier)

    asked = ("entity", "feature_date") if settings.features.columns else None
    contract = contracts.labels(chosen.horizon_days, chosen.maturity_days, staging)
    read = {staging: _usual_read(settings, "labels")}
    contract = contracts.reading(contract, features_as_known=asked, **read)
    sources = (TRANSFORMS + "labels", TRANSFORMS + "sums", CUTS)
    reach = chosen.model_dump(exclude={"label", "source"})
    return Table(contract, _build, reach, sources, revisions=_flips, code_version="labels 1")
