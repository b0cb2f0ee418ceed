"""How late deliveries come, read exactly from raw (no JVM), its cost, and up to which day each
table is complete.

Not here: the arithmetic (`reports.completeness`) and drawing (`reports.lateness_command`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, NotRequired, TypedDict

from backfill_assets.kernel.core.answers import DayText, InstantText
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import Built
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.core.view import LakeView, Source
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.store import TableStore
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.readable import readable_with
from backfill_assets.reports import completeness as measures
from backfill_assets.reports.completeness import Advice, Aged, Cell, Watermark

DAY_S = ONE_DAY.total_seconds()
# One row in a hundred may be missing: below what a model notices, above what a bill forgives.
DEFAULT_SHARE = 0.99
PERCENTILES = ", ".join(
    f"percentile_cont(CAST(late AS DOUBLE), {p})" for p in (0.5, 0.9, 0.95, 0.99)
)
COUNTS = "count(*) FILTER (WHERE arrival > event), count(*) FILTER (WHERE late < 0)"


@dataclass(frozen=True)
class LatenessScope:
    """The scope of a report."""

    days: DayRange | None = None  # of arrival; None: all
    share: float = DEFAULT_SHARE  # that shall have arrived (0..1)
    source: str = ""  # "": the only source of a lake, else the source of features, else the first


@dataclass(frozen=True)
class Spread:
    """Lateness of some rows, in seconds, exact: quantiles between two rows are interpolated
    linearly."""

    rows: int
    min: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float

    def in_days(self) -> dict[str, float]:
        """Return lateness in days, by the names that reports use."""
        return {name: value / DAY_S for name, value in vars(self).items() if name != "rows"}


class SpreadForm(TypedDict):
    """Lateness in days."""

    min: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float


class DayLatenessForm(SpreadForm):
    """The upserts of a day as JSON values."""

    day: DayText
    rows: int
    late: int
    late_share: float


class WatchedForm(TypedDict):
    """How complete days are by their age, and on which arrival days that rests."""

    watched_from: DayText | None
    watched_to: DayText | None
    by_age: Sequence[Aged]


_SomeSpan = TypedDict("_SomeSpan", {"from": DayText | None, "to": DayText | None})


class LatenessForm(_SomeSpan):
    """How late rows arrive: shares 0..1, durations in days; null: not known."""

    lake: str
    source: NotRequired[str]
    frontier: InstantText | None
    rows: int
    late: int
    early: int
    deletes: int
    late_share: float | None
    lateness_days: SpreadForm | None
    rows_by_age_days: Mapping[str, int]
    age_days: int | None
    look_back_days: int | None
    look_backs: Sequence[Advice]
    watermarks: Sequence[Watermark]
    completeness: WatchedForm
    wanted_share: float
    by_arrival_day: Sequence[DayLatenessForm]
    by_event_day: Sequence[DayLatenessForm]


@dataclass(frozen=True)
class DayLateness:
    """The upserts of one arrival day or event day."""

    day: date
    late: int  # rows that came on a later day than their event's
    spread: Spread  # of their lateness

    def to_dict(self) -> DayLatenessForm:
        """Return the day as JSON values, durations in days."""
        counts = {"day": str(self.day), "rows": self.spread.rows, "late": self.late}
        share = {"late_share": self.late / self.spread.rows}
        values: DayLatenessForm = json_of(counts | share | self.spread.in_days())
        return values


@dataclass(frozen=True)
class Lateness:
    """The upserts of raw: rows per arrival day and event day, and how late they were."""

    cells: tuple[Cell, ...] = ()
    overall: Spread | None = None  # None: there are no upserts
    by_arrival: tuple[DayLateness, ...] = ()
    by_event: tuple[DayLateness, ...] = ()
    early: int = 0  # upserts that arrived before their event's time
    deletes: int = 0  # they have no lateness and count nowhere else


def read_lateness(
    store: TableStore, raw: str, version: int, days: DayRange | None = None
) -> Lateness:
    """Read how late the deliveries are that `version` of the table `raw` holds and that arrived on
    `days` (None: all). Deletes are counted and not measured."""
    within = f"arrival_date BETWEEN DATE '{days.start}' AND DATE '{days.last}'" if days else "TRUE"
    upserts = (
        "SELECT CAST(arrival_ts AS DATE) AS arrival, CAST(event_ts AS DATE) AS event, "
        "CAST(arrival_ts AS BIGINT) - "
        f"CAST(event_ts AS BIGINT) AS late FROM deliveries WHERE op = 'upsert' AND {within}"
    )

    def ask(query: str) -> Iterator[tuple[Any, ...]]:
        for batch in store.query(query, {"deliveries": (raw, version)}):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    # One row of one column.
    ((deletes,),) = ask(f"SELECT count(*) FROM deliveries WHERE op = 'delete' AND {within}")
    counted = ask(f"SELECT arrival, event, count(*) FROM ({upserts}) GROUP BY 1, 2 ORDER BY 1, 2")
    cells = tuple(Cell(*row) for row in counted)
    if not cells:
        return Lateness(deletes=deletes)
    grouped = ask(
        f"SELECT arrival, event, {COUNTS}, count(*), min(late), {PERCENTILES}, max(late) FROM "
        f"({upserts}) "
        "GROUP BY GROUPING SETS ((), (arrival), (event)) ORDER BY arrival, event"
    )
    by_arrival, by_event = [], []
    for arrival, event, late, early_rows, rows, *microseconds in grouped:
        spread = Spread(rows, *(value / 1e6 for value in microseconds))
        if arrival is not None:
            by_arrival.append(DayLateness(arrival, late, spread))
        elif event is not None:
            by_event.append(DayLateness(event, late, spread))
        else:  # the group of all rows: neither day is set
            overall, early = spread, early_rows
    return Lateness(
        cells=cells,
        overall=overall,
        by_arrival=tuple(by_arrival),
        by_event=tuple(by_event),
        early=early,
        deletes=deletes,
    )


@dataclass(frozen=True, kw_only=True)
class LatenessReport(Lateness):
    """Lateness of the loaded rows, and what follows from it."""

    lake: str
    scope: LatenessScope
    frontier: datetime | None
    watched: DayRange | None  # the arrival days that `completeness` rests on
    ages: tuple[tuple[int, int], ...]  # (age in days, rows), ascending
    completeness: tuple[Aged, ...]
    look_backs: tuple[Advice, ...]
    watermarks: tuple[Watermark, ...]

    @property
    def rows(self) -> int:
        """Return the number of measured upserts."""
        return self.overall.rows if self.overall else 0

    @property
    def late(self) -> int:
        """Return the number of upserts that arrived on a later day (UTC) than their event's."""
        return sum(d.late for d in self.by_arrival)

    @property
    def age_days(self) -> int | None:
        """Return the smallest age at which the wanted share has arrived; None: at none that could
        be watched."""
        return measures.age_for(self.scope.share, self.completeness)

    @property
    def look_back_days(self) -> int | None:
        """Return the smallest look-back that sees the wanted share; None: none within
        `look_backs`."""
        return measures.look_back_for(self.scope.share, self.look_backs)

    def to_dict(self) -> LatenessForm:
        """Return the report as JSON values: shares 0..1, durations in days."""
        days, watched = self.scope.days, self.watched
        report: dict[str, Any] = {
            "lake": self.lake,
            "frontier": self.frontier,
            "rows": self.rows,
            "late": self.late,
            "early": self.early,
            "deletes": self.deletes,
            "age_days": self.age_days,
            "look_back_days": self.look_back_days,
            "look_backs": self.look_backs,
            "watermarks": self.watermarks,
        }
        if self.scope.source:
            report["source"] = self.scope.source
        report |= {
            "from": days.start if days else None,
            "to": days.last if days else None,
            "late_share": self.late / self.rows if self.rows else None,
            "lateness_days": self.overall.in_days() if self.overall else None,
            "rows_by_age_days": dict(self.ages),
            "completeness": {
                "watched_from": watched.start if watched else None,
                "watched_to": watched.last if watched else None,
                "by_age": self.completeness,
            },
            "wanted_share": self.scope.share,
            "by_arrival_day": self.by_arrival,
            "by_event_day": self.by_event,
        }
        values: LatenessForm = json_of(report)
        return values


def lateness_report(
    lake: Lake, pipeline: Pipeline, scope: LatenessScope, now: datetime
) -> LatenessReport:
    """Return the report; `now` is the clock (aware). Raises BackfillError where nothing is loaded.

    Reads raw in the version that the ledger `arrivals` names, as all readers do.
    """
    known = readable_with(lake, pipeline, [c.name for c in pipeline.contracts if c.is_landed])
    return lateness_of_states(lake, known.states(read_view(lake, known.contracts)), scope, now)


def lateness_of_states(
    lake: Lake, states: States, scope: LatenessScope, now: datetime
) -> LatenessReport:
    """Return `lateness_report` of a lake with known states."""
    view = states.view
    source = _chosen_source(lake, view, scope.source)
    measured = {}
    for table, each in view.sources.items():
        measured[table] = _measure_source(lake, states, each, scope.days)
    own = measured[source.table]
    if own is None:
        raise BackfillError(
            f"the lake {lake.address}",
            "no delivery is loaded yet",
            "There is no lateness to measure",
            "Run `backfill-assets scan`, then `backfill-assets backfill --from DAY --to DAY`",
        )
    watermark_days = {}
    for table, found in measured.items():
        age = measures.age_for(scope.share, found.completeness) if found else None
        until = states.frontier(table)
        if age is not None and until is not None:
            watermark_days[table] = measures.watermark_day(until, age)
    ages = measures.rows_by_age(own.rows.cells)
    return LatenessReport(
        **vars(own.rows),
        lake=lake.address,
        scope=replace(scope, source=source.name),
        frontier=states.frontier(source.table),
        watched=own.watched,
        ages=tuple(ages.items()),
        completeness=own.completeness,
        look_backs=measures.look_back_advice(ages) if ages else (),
        watermarks=measures.table_watermarks(
            states.contracts.values(), _newest_days(view), watermark_days, states.frontier, now
        ),
    )


def _chosen_source(lake: Lake, view: LakeView, name: str) -> Source:
    """Return the source of a report: that of this name, else (name "") the source of features, else
    the first; raises BackfillError for an unknown name."""
    known = {s.name: s for s in view.sources.values()}
    of_features = lake.settings.features.source or ""
    wanted = name or of_features
    if not name and of_features not in known:
        wanted = next(iter(known))
    if wanted not in known:
        fix = f"Choose one of {', '.join(known)}" if "" not in known else "Leave out --source"
        raise BackfillError(
            f"the source {wanted!r}", "the lake has none of that name", "Nothing was measured", fix
        )
    return known[wanted]


@dataclass(frozen=True)
class _Measured:
    """What was measured of a source."""

    rows: Lateness
    watched: DayRange | None = None  # the arrival days that can be judged
    completeness: tuple[Aged, ...] = ()  # by these days


def _measure_source(
    lake: Lake, states: States, source: Source, days: DayRange | None
) -> _Measured | None:
    """Measure a source; None where nothing is loaded. Completeness is judged by arrival days before
    the frontier's own, as more of that day may still come."""
    frontier = states.frontier(source.table)
    if not source.is_loaded or frontier is None:
        return None
    rows = read_lateness(lake.store, source.table, source.loaded_version, days)
    if not rows.by_arrival:
        return _Measured(rows)
    first = days.start if days else rows.by_arrival[0].day
    stop = min(days.end, frontier.date()) if days else frontier.date()
    if first >= stop:
        return _Measured(rows)
    watched = DayRange(first, stop)
    return _Measured(rows, watched, measures.completeness_by_age(rows.cells, watched))


def _newest_days(view: LakeView) -> dict[str, date]:
    """Return the newest day of each table with a receipt that is not pending."""
    newest = {}
    for name, table in view.tables.items():
        latest = table.latest.items()
        built = [day for day, receipt in latest if receipt.entry.built is not Built.PENDING]
        if built:
            newest[name] = max(built)
    return newest
