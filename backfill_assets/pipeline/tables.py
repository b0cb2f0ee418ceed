"""The tables of this product, upstream first: contract, transform, and the settings that reach each content.

Not here: the texts of contracts (`contracts`), the computation (`transforms`) and Dagster.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from backfill_assets.core.contracts import Contract, Input
from backfill_assets.core.days import matures_after
from backfill_assets.core.errors import SettingsError
from backfill_assets.core.ledgers import named
from backfill_assets.core.payload import DEFAULT_PAYLOAD, words
from backfill_assets.lake.model import Chunk, Frames, Table
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.pipeline import contracts
from backfill_assets.pipeline.recorded_settings import unrecorded
from backfill_assets.pipeline.transforms import queries
from backfill_assets.pipeline.transforms.aggregation import Aggregation, Outcome, built_in_columns, outcome_by_rule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The transforms are imported when they run, because they import Spark; expressions are, because their parser is slow.
TRANSFORMS = "backfill_assets.pipeline.transforms."
MADE_BY = tuple(TRANSFORMS + name for name in ("declared", "intervals", "measures", "aggregation"))
MATURITY = "backfill_assets.core.days"
ENTITY = ("entity",)
Section = Literal["features", "labels"]


def tables(settings: LakeSettings) -> tuple[Table, ...]:
    """raw, staging, features, features_as_known, labels, training: each reads only tables before it.

    Where sources have names there is a raw and a staging of each, and `[features]` and `[labels]` choose theirs.
    Raises SettingsError where they do not, where the payload lacks a column of the built-in features, and for a faulty
    expression.
    """
    settings = unrecorded(settings)
    features = _features(settings)
    return (*delivered(settings), *features, _labels(settings), _training(settings, features[1].contract))


def delivered(settings: LakeSettings) -> tuple[Table, ...]:
    """raw and staging of each source, whatever the payload: the inputs of tables of one's own."""
    settings = unrecorded(settings)
    return tuple(table for name in settings.delivered for table in _delivered(settings.of_source(name), name))


def _delivered(settings: LakeSettings, source: str) -> tuple[Table, Table]:
    payload, raw = settings.source.payload_columns, named(contracts.RAW, source)

    def _build(frames: Frames, chunk: Chunk) -> "DataFrame":
        from backfill_assets.pipeline.transforms.staging import staging

        return staging(frames[raw], chunk.days, [c.name for c in payload], chunk.wanted)

    return (
        Table(
            contracts.raw(payload, source),
            settings=_landing_settings(settings),
            facts=queries.lateness_of_deliveries,
        ),
        Table(
            contracts.staging(payload, source),
            _build,
            sources=(TRANSFORMS + "staging",),
            code_version="staging 1",
            facts=queries.lateness_of_versions,
            account=queries.accounted,
        ),
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


def _has_built_in(settings: LakeSettings, section: Section) -> bool:
    """Whether a section declares nothing, and its source has the entity and payload of a lake that declares nothing."""
    declares = settings.features.columns if section == "features" else settings.labels.label
    own = settings.of_source(settings.source_of(section))
    usual = own.features.entity == ENTITY and {*DEFAULT_PAYLOAD} <= {*own.source.payload_columns}
    return usual and not declares


def _read_by_built_in(settings: LakeSettings) -> tuple[str, ...] | None:
    return contracts.read_of_staging(settings.source.payload_columns, (c.name for c in DEFAULT_PAYLOAD))


def _features(settings: LakeSettings) -> tuple[Table, Table]:
    """features and features_as_known. Raises SettingsError for a faulty expression, or a payload without columns."""
    source, built_in = settings.source_of("features"), _has_built_in(settings, "features")
    settings, staging = settings.of_source(source), named(contracts.STAGING, source)
    entity, grace = settings.features.entity, settings.features.cutoff_grace_hours
    columns: tuple[Aggregation, ...]
    reach: dict[str, Any]
    if built_in:
        windows = settings.features.windows_days
        columns, compiled, reach = built_in_columns(windows), dict[str, str](), {"windows_days": windows}
        made, version = contracts.built_in_features(windows, _read_by_built_in(settings)), "{} 1"
    else:
        from backfill_assets.pipeline.declared import declared, feature_set
        from backfill_assets.pipeline.declared import words as compiled_words

        _refuse_lacking_columns(settings)
        found = declared(settings)
        columns, compiled = tuple(c.aggregation for c in found), {c.aggregation.name: c.sql for c in found}
        reach = {"entity": list(entity), "columns": compiled_words(found)}
        made, version = feature_set(settings, found, staging), "declared features 1"

    def _now(frames: Frames, chunk: Chunk) -> "DataFrame":
        from backfill_assets.pipeline.transforms.declared import now

        return now(frames[staging], chunk.days, entity, columns)

    def _at_cut(frames: Frames, chunk: Chunk) -> "DataFrame":
        from backfill_assets.pipeline.transforms.declared import at_cut

        return at_cut(frames[staging], chunk.days, entity, columns, grace)

    now, known = (contracts.feature_table(made, staging, as_known=known) for known in (False, True))
    at_cut = {**reach, "cutoff_grace_hours": grace}
    return (
        Table(now, _now, reach, MADE_BY, compiled=compiled, code_version=version.format(now.name)),
        Table(known, _at_cut, at_cut, MADE_BY, compiled=compiled, code_version=version.format(known.name)),
    )


def _refuse_lacking_columns(settings: LakeSettings) -> None:
    """Raise SettingsError where the built-in features are wanted and the payload lacks one of their columns."""
    amounts = [c for c in DEFAULT_PAYLOAD if c.name not in ENTITY]
    if not settings.features.columns and not {*amounts} <= {*settings.source.payload_columns}:
        needed = ", ".join(f"{c.name} {c.type} NOT NULL" for c in amounts)
        raise SettingsError(
            "[source.payload] in lake.toml",
            "the built-in features look at other columns",
            "Nothing was done",
            f"Declare features of your own ([[features.columns]]), or these columns: {needed}",
        )


def _labels(settings: LakeSettings) -> Table:
    """labels. Raises SettingsError for a faulty expression."""
    source, built_in = settings.source_of("labels"), _has_built_in(settings, "labels")
    settings, staging = settings.of_source(source), named(contracts.STAGING, source)
    chosen, entity = settings.labels, settings.features.entity
    times = {"horizon_days": chosen.horizon_days, "maturity_days": chosen.maturity_days}
    outcome: Outcome
    reach: dict[str, Any]
    if built_in:
        matures = matures_after(chosen.horizon_days, chosen.maturity_days)
        outcome = outcome_by_rule(chosen.measure, chosen.rule, chosen.horizon_days, matures)
        reach, compiled, version = chosen.model_dump(exclude={"label", "source"}), dict[str, str](), "labels 1"
        asked = (*ENTITY, "feature_date") if settings.features.columns else None
        inputs = Input(staging, columns=_read_by_built_in(settings)), Input("features_as_known", columns=asked)
        contract = contracts.labels(chosen.horizon_days, chosen.maturity_days, *inputs)
    else:
        from backfill_assets.pipeline.declared import label_contract
        from backfill_assets.pipeline.declared import words as compiled_words
        from backfill_assets.pipeline.declared_label import declared_label

        terms, outcome = declared_label(settings)
        reach = {"entity": list(entity), "terms": compiled_words(terms), "condition": outcome.condition, **times}
        compiled = {t.aggregation.name: t.sql for t in terms} | {"label": outcome.condition}
        contract, version = label_contract(settings, terms, staging), "declared labels 1"

    def _build(frames: Frames, chunk: Chunk) -> "DataFrame":
        from backfill_assets.pipeline.transforms.declared import labels

        return labels((frames[staging], frames["features_as_known"]), chunk.days, entity, outcome, chunk.frontier)

    def _flips(before: str, after: str) -> str:
        return queries.flips(before, after, entity)

    sources = (*MADE_BY, MATURITY)
    return Table(contract, _build, reach, sources, revisions=_flips, compiled=compiled, code_version=version)


def _training(settings: LakeSettings, features_as_known: Contract) -> Table:
    """training with the columns of `features_as_known`."""
    entity, chosen = settings.features.entity, settings.labels
    if _has_built_in(settings, "features"):
        contract = contracts.training(settings.features.windows_days, chosen.horizon_days, chosen.maturity_days)
        reach, version = dict[str, Any](), "training 1"
    else:
        from backfill_assets.pipeline.declared import training_contract

        contract = training_contract(settings, features_as_known)
        reach, version = {"entity": list(entity)}, "declared training 1"

    def _build(frames: Frames, chunk: Chunk) -> "DataFrame":
        from backfill_assets.pipeline.transforms.declared import training

        return training(frames["features_as_known"], frames["labels"], chunk.days, entity)

    sources = (TRANSFORMS + "declared",)
    return Table(contract, _build, reach, sources, drops_incomplete=True, code_version=version)
