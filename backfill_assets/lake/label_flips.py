"""Label flips: mature labels that late deliveries changed, counted by one query over both states (DuckDB, no JVM).

A condition is Spark SQL translated to DuckDB's; where DuckDB rounds otherwise it does so for both states, so that a
label flips only if an input did. Not here: the report (`operations.lateness`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from backfill_assets.core.contracts import Basis, Contract, first_reading, versions_of
from backfill_assets.core.days import matures_after, newest_mature
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.view import LakeView
from backfill_assets.lake.embedded import connection, selection
from backfill_assets.lake.fingerprints import quoted
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.settings import LabelSettings

FLIPS_FROM = (Basis.ARRIVALS, Basis.KNOWN_AT_CUT)  # the tables of versions, and of the entities with labels
MATURITIES_DAYS = (0, 7, 14, 30, 90)  # the usual choices: at once, a week, two, a month, a quarter
SUMMED_DIGITS = 28  # of a DOUBLE as the decimal that is summed
ORDERED = "ORDER BY event_ts, event_key"
AGGREGATES = {
    "count": "count({of}) {only}", "distinct": "count(DISTINCT {of}) {only}", "min": "min({of}) {only}",
    "max": "max({of}) {only}", "avg": "avg({of}) {only}", "sum": "coalesce(sum({of}) {only}, 0)",
    "first": f"first({{of}} {ORDERED}) {{only}}", "last": f"last({{of}} {ORDERED}) {{only}}",
}  # fmt: skip


@dataclass(frozen=True)
class Flip:
    """The count of `labels` that were mature after `maturity_days` back then, and of those that are `flipped` now."""

    maturity_days: int
    labels: int
    flipped: int

    def to_dict(self) -> dict[str, Any]:
        """Return the counts and the share (0..1) as JSON values."""
        return {**vars(self), "flipped_share": self.flipped / self.labels if self.labels else None}


@dataclass(frozen=True)
class LabelTerm:
    """An aggregate in a label's condition, over the events of the days day - `last` through day - `first`."""

    name: str
    agg: str
    of: str
    type: str
    scale: int
    first: int
    last: int


@dataclass(frozen=True)
class LabelQuestion:
    """A label: the columns of its entity, its aggregates, the condition over them (Spark SQL), its horizon in days."""

    entity: tuple[str, ...]
    terms: tuple[LabelTerm, ...]
    condition: str
    horizon_days: int


def declared_label(settings: Mapping[str, Any]) -> LabelQuestion | None:
    """Return the label that these settings of a table declare (`lake.model.Table`); None without one."""
    if "terms" not in settings or "condition" not in settings:
        return None
    terms = tuple(
        LabelTerm(name, agg, value["of"] or "1", value["type"], value["scale"], *days)
        for name, agg, value, days in settings["terms"]
    )
    return LabelQuestion(tuple(settings["entity"]), terms, settings["condition"], settings["horizon_days"])


def question_by_rule(labels: LabelSettings) -> LabelQuestion:
    """Return the label by measure and rule."""
    agg, of = ("count", "1") if labels.measure == "events" else ("sum", labels.measure)
    horizon = labels.horizon_days
    terms = (
        LabelTerm("forward", agg, of, "BIGINT", 0, -horizon, -1),
        LabelTerm("backward", agg, of, "BIGINT", 0, 0, horizon - 1),
    )
    condition = "forward > 0" if labels.rule == "any" else "forward > backward"
    return LabelQuestion(("entity",), terms, condition, horizon)


def label_flips(
    lake: Lake, pipeline: Pipeline, view: LakeView, since: datetime, frontier: datetime
) -> tuple[Flip, ...]:
    """Count the labels that were mature at `since` and differ now, per number of maturity days.

    `frontier` is that of labels; both instants are aware. Raises BackfillError where they cannot be counted.
    """
    labelled = next((t for t in pipeline.tables if declared_label(t.settings)), None)
    label = declared_label(labelled.settings) if labelled else None
    made_from = {i.table for i in labelled.contract.inputs} if labelled else {c.name for c in pipeline.contracts}
    others = [s.table for s in view.sources.values() if lake.settings.labels.source not in (None, s.name)]
    made_from -= {name for name, landed in versions_of(pipeline.contracts).items() if landed in others}
    known = [c for c in pipeline.contracts if c.name in made_from]
    roles = [(first_reading(known, basis), f"read by {basis}") for basis in FLIPS_FROM]
    lacking = [c.name if c else role for c, role in roles if c is None or view.table(c.name).version < 0]
    if lacking:
        raise _uncounted(
            since,
            f"the lake has no table {' and no table '.join(lacking)}",
            "Build these tables with `backfill-assets backfill`, or leave out --since",
        )
    if since > frontier:
        until = f"the frontier is {frontier:%Y-%m-%dT%H:%M:%SZ}, so nothing is known from later on"
        raise _uncounted(since, until, "Give an earlier day to --since")
    versions, asked = ((c, view.table(c.name).version) for c, _ in roles if c)
    return count_flips(lake, label or question_by_rule(lake.settings.labels), (versions, asked), since)


def _uncounted(since: datetime, culprit: str, fix: str) -> BackfillError:
    return BackfillError(f"label flips since {since:%Y-%m-%d}", culprit, "They were not counted", fix)


def count_flips(
    lake: Lake, label: LabelQuestion, tables: tuple[tuple[Contract, int], tuple[Contract, int]], since: datetime
) -> tuple[Flip, ...]:
    """Count the labels that were mature at `since` (aware), and those that differ now; one answer per MATURITIES_DAYS.

    `tables` are the table of versions and the table of entities per day, each with its Delta version. The labels of a
    day count if day + 1 + horizon + maturity days <= since. A version is known at an instant if known_from < instant <=
    known_until (NULL: no end); an arrival at the instant itself is not. Raises BackfillError for an expression that
    DuckDB does not know.
    """
    import duckdb

    last = [newest_mature(since, matures_after(label.horizon_days, m)) for m in MATURITIES_DAYS]
    with connection(lake) as engine:
        for name, at in zip(("versions", "asked"), tables, strict=True):  # contract and version
            engine.execute(f"CREATE TEMP VIEW {name} AS {selection(lake.store.data_files(*at), at[0])}")
        try:
            (counted,) = engine.sql(_query(label, since, last)).fetchall()
        except duckdb.Error as error:
            raise _uncounted(
                since,
                f"the label {label.condition} cannot be asked without Spark: {str(error).splitlines()[0]}",
                "Leave out --since; each write of a day tells how many of its labels it changed (label_flips)",
            ) from None
    return tuple(Flip(m, *counted[2 * i : 2 * i + 2]) for i, m in enumerate(MATURITIES_DAYS))


def _query(label: LabelQuestion, since: datetime, last: Sequence[date]) -> str:
    instant = f"TIMESTAMPTZ '{since.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f+00}'"
    then = f"known_from < {instant} AND (known_until IS NULL OR known_until >= {instant})"
    who = ", ".join(map(_name, label.entity))
    within = f"BETWEEN d - {max(t.last for t in label.terms)} AND d - ({min(t.first for t in label.terms)})"
    same = " AND ".join(f"versions.{_name(e)} = asked.{_name(e)}" for e in label.entity)

    def _answers(known: str) -> str:
        terms = ", ".join(f"{_term(t, known)} AS {_name(t.name)}" for t in label.terms)
        return (
            f"SELECT {who}, d, coalesce(CAST(({_duck(label.condition)}) AS BOOLEAN), false) AS label FROM "
            f"(SELECT {', '.join(f'asked.{_name(e)}' for e in label.entity)}, d, {terms} FROM asked_days AS asked "
            f"LEFT JOIN versions ON {same} AND event_date {within} GROUP BY ALL)"
        )

    ripe = [f"d <= DATE '{day}'" for day in last]
    counts = [f"count(*) FILTER (WHERE {r}), count(*) FILTER (WHERE {r} AND n.label <> t.label)" for r in ripe]
    return f"""
    WITH asked_days AS (SELECT {who}, feature_date AS d FROM asked WHERE feature_date <= DATE '{max(last)}'),
    n AS ({_answers("known_until IS NULL")}), t AS ({_answers(then)})
    SELECT {", ".join(counts)} FROM n JOIN t USING ({who}, d)"""


def _term(term: LabelTerm, known: str) -> str:
    """Return the aggregate over the versions for which `known` is true, in a query grouped by entity and day."""
    of = f"({_duck(term.of)})"
    if term.type == "DOUBLE":  # as the product sums it: whatever the order of rows
        of = f"TRY_CAST({of} AS DECIMAL({SUMMED_DIGITS},{term.scale}))" if term.agg == "sum" else f"({of} + 0)"
    reach = f"event_date BETWEEN d - {term.last} AND d - ({term.first})"
    only = f"FILTER (WHERE {reach} AND ({known}) AND {of} IS NOT NULL)"
    return AGGREGATES[term.agg].format(of=of, only=only)


def _duck(text: str) -> str:
    """Translate an expression of Spark SQL to DuckDB's."""
    import sqlglot

    return sqlglot.transpile(text, read="spark", write="duckdb")[0]


def _name(column: str) -> str:
    return quoted(column)
