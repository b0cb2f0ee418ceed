"""The tables of this product, upstream first: contract, transform, and the settings that reach each content.

Also settings for a user's `tables(settings)` that record the values it reads, because rows may depend on them. Not
here: the texts of contracts (`contracts`), the computation (`transforms`) and digests (`lake.model`).
"""

import gc
import weakref
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import BaseModel

from backfill_assets.core.contracts import Contract
from backfill_assets.core.days import matures_after
from backfill_assets.core.engines import DeclaredExpression
from backfill_assets.core.errors import SettingsError
from backfill_assets.core.ledgers import named
from backfill_assets.core.payload import DEFAULT_PAYLOAD, words
from backfill_assets.lake.model import Chunk, Frames, Table, Transform
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.pipeline import contracts
from backfill_assets.pipeline.transforms import queries
from backfill_assets.pipeline.transforms.aggregation import Outcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The transforms are imported when they run, because they import Spark; expressions are, because their parser is slow.
TRANSFORMS = "backfill_assets.pipeline.transforms."
MADE_BY = tuple(TRANSFORMS + name for name in ("declared", "intervals", "measures", "aggregation"))
MATURITY = "backfill_assets.core.days"
ENTITY = ("entity",)
Section = Literal["features", "labels"]
ALL = "*"  # of a section whose values were handed on as a whole


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
    names = [c.name for c in payload]

    def _build(frames: Frames, chunk: Chunk) -> "DataFrame":
        from backfill_assets.pipeline.transforms.staging import staging

        doubles = [c.name for c in payload if c.is_floating]
        return staging(frames[raw], chunk.days, names, chunk.wanted, doubles)

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
            code_version="staging 2",
            earlier_versions=(
                "staging 1",
            ),  # an identical redelivery was a version of its own: no reader saw another row
            facts=queries.lateness_of_versions,
            account=partial(queries.accounted, payload=names),
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
    source_settings = settings.of_source(settings.source_of(section))
    payload = source_settings.source.payload_columns
    return not declares and source_settings.features.entity == ENTITY and {*DEFAULT_PAYLOAD} <= {*payload}


def _features(settings: LakeSettings) -> tuple[Table, Table]:
    """features and features_as_known. Raises SettingsError for a faulty expression, or a payload without columns."""
    source, built_in = settings.source_of("features"), _has_built_in(settings, "features")
    settings, staging = settings.of_source(source), named(contracts.STAGING, source)
    entity, grace = settings.features.entity, settings.features.cutoff_grace_hours
    finer = settings.features.by_day_first
    if settings.features.columns:
        from backfill_assets.pipeline.declared import declared_features

        declared = declared_features(settings)
    else:
        _refuse_lacking_columns(settings)
        declared = contracts.built_in_features(settings)
    columns = tuple(c.aggregation for c in declared)
    reach: dict[str, Any] = {"entity": list(entity), "columns": [c.settings for c in declared]}
    if built_in:
        reach = {"windows_days": settings.features.windows_days}
    compiled = {} if built_in else {c.aggregation.name: c.sql for c in declared}
    expressions = [e for c in declared for e in _expressions(c, f"[[features.columns]] {c.aggregation.name}", settings)]

    def _now(frames: Frames, chunk: Chunk) -> "DataFrame":
        from backfill_assets.pipeline.transforms.declared import now

        return now(frames[staging], chunk.days, entity, columns, by_day_first=finer)

    def _at_cut(frames: Frames, chunk: Chunk) -> "DataFrame":
        from backfill_assets.pipeline.transforms.declared import at_cut

        return at_cut(frames[staging], chunk.days, entity, columns, grace, by_day_first=finer)

    def _table(transform: Transform, reach: dict[str, Any], *, as_known: bool) -> Table:
        contract = contracts.features(settings, declared, staging, as_known=as_known, built_in=built_in)
        version = f"{contract.name} 1" if built_in else "declared features 1"
        shown: dict[str, Any] = {"compiled": compiled, "expressions": tuple(expressions)}
        return Table(contract, transform, reach, MADE_BY, code_version=version, **shown)

    known = {**reach, "cutoff_grace_hours": grace}
    return _table(_now, reach, as_known=False), _table(_at_cut, known, as_known=True)


def _expressions(column: contracts.Declared, where: str, settings: LakeSettings) -> Iterator[DeclaredExpression]:
    """The expressions of a column, declared at `where`."""
    types = {name: str(kind) for name, kind in contracts.event_types(settings).items()}
    yield DeclaredExpression(where, column.of or "", types, column.aggregation.agg)
    if column.where:
        yield DeclaredExpression(where, column.where, types)


def _refuse_lacking_columns(settings: LakeSettings) -> None:
    """Raise SettingsError where the payload lacks a column of the built-in features."""
    amounts = [c for c in DEFAULT_PAYLOAD if c.name not in ENTITY]
    if not {*amounts} <= {*settings.source.payload_columns}:
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
    section, entity = settings.labels, settings.features.entity
    where, decided = f'[labels] measure = "{section.measure}"', list[DeclaredExpression]()
    if section.label is None:
        terms, condition = contracts.label_from_rule(settings)
    else:
        from backfill_assets.pipeline.declared import decided_by, declared_label

        where, (terms, condition) = "[labels] label", declared_label(settings)
        decided = [DeclaredExpression(where, condition, {t.aggregation.name: str(decided_by(t)) for t in terms})]
    outcome = Outcome(
        tuple(t.aggregation for t in terms), condition, matures_after(section.horizon_days, section.maturity_days)
    )
    reach: dict[str, Any] = section.model_dump(exclude={"label", "source"})
    if not built_in:
        times = {"horizon_days": section.horizon_days, "maturity_days": section.maturity_days}
        reach = {"entity": list(entity), "terms": [t.settings for t in terms], "condition": condition, **times}

    def _build(frames: Frames, chunk: Chunk) -> "DataFrame":
        from backfill_assets.pipeline.transforms.declared import labels

        inputs = (frames[staging], frames["features_as_known"])
        return labels(inputs, chunk.days, entity, outcome, chunk.frontier, by_day_first=settings.features.by_day_first)

    return Table(
        contracts.labels(settings, terms, staging, built_in=built_in),
        _build,
        reach,
        (*MADE_BY, MATURITY),
        revisions=partial(queries.flips, entity=entity),
        compiled={} if built_in else {t.aggregation.name: t.sql for t in terms} | {"label": condition},
        expressions=(*(e for t in terms for e in _expressions(t, where, settings)), *decided),
        code_version="labels 1" if built_in else "declared labels 1",
    )


def _training(settings: LakeSettings, features_as_known: Contract) -> Table:
    """training with the columns of `features_as_known`."""
    entity, built_in = settings.features.entity, _has_built_in(settings, "features")

    def _build(frames: Frames, chunk: Chunk) -> "DataFrame":
        from backfill_assets.pipeline.transforms.declared import training

        return training(frames["features_as_known"], frames["labels"], chunk.days, entity)

    return Table(
        contracts.training(settings, features_as_known),
        _build,
        {} if built_in else {"entity": list(entity)},
        (TRANSFORMS + "declared",),
        drops_incomplete=True,
        code_version="training 1" if built_in else "declared training 1",
    )


class _View:
    """A section of settings that records which of its values are read."""

    __slots__ = ("__weakref__", "_noted", "_path", "_section", "_views")

    def __init__(self, section: BaseModel, path: str, noted: dict[str, Any], views: "list[weakref.ref[_View]]") -> None:
        self._section, self._path, self._noted, self._views = section, path, noted, views
        views.append(weakref.ref(self))

    @property  # type: ignore[misc]  # only ever read
    def __class__(self) -> Any:
        """The class of the settings, so that `isinstance` holds for the view, too."""
        return type(self._section)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._section, name)
        if name not in type(self._section).model_fields:
            self.note_all()
        elif isinstance(found, BaseModel):
            return _View(found, f"{self._path}{name}.", self._noted, self._views)
        else:
            self._noted[self._path + name] = self._section.model_dump(mode="json", include={name})[name]
        return found

    def __iter__(self) -> Iterator[Any]:
        self.note_all()
        return iter(self._section)

    def __eq__(self, other: object) -> bool:
        self.note_all()
        return bool(self._section == unrecorded(other))

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        self.note_all()
        return repr(self._section)

    def note_all(self) -> None:
        """Record the whole section as read, without the values that equal their defaults."""
        self._noted[self._path + ALL] = self._section.model_dump(mode="json", exclude_defaults=True)


def recorded(tables: Callable[[LakeSettings], Any], settings: LakeSettings) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Call `tables(settings)`; return its tables and the values that it read, by their names in `lake.toml`. A section
    that something still holds afterwards, such as a transform, counts as read as a whole."""
    noted: dict[str, Any] = {}
    views: list[weakref.ref[_View]] = []
    given = tuple(tables(cast(LakeSettings, _View(settings, "", noted, views))))
    if any(view() is not None for view in views):
        gc.collect()  # a view in a circle of objects that nothing holds is no more read
    for view in [found for ref in views if (found := ref()) is not None]:
        view.note_all()
    return given, noted


def unrecorded(settings: Any) -> Any:
    """The settings without the view: this package's own tables name the settings that reach their content."""
    return settings._section if type(settings) is _View else settings
