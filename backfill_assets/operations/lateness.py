"""How late deliveries come, what that costs, and up to which day each table is complete.

Not here: reading raw (`lake.lateness`), the arithmetic (`core.lateness`), drawing (`cli.lateness`). The clock is a
parameter: it decides one lag, and no content.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

from backfill_assets.core.contracts import Basis, first_reading, versions_of
from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.lateness import (
    Advice,
    Aged,
    Watermark,
    advise,
    age_for,
    completeness,
    look_back_for,
    rows_by_age,
    watermark_day,
    watermarks,
)
from backfill_assets.core.receipts import Built
from backfill_assets.core.states import States
from backfill_assets.core.view import LakeView, Source
from backfill_assets.lake.home import Lake
from backfill_assets.lake.label_flips import Flip, declared_label, label_by_rule
from backfill_assets.lake.label_flips import label_flips as count_flips
from backfill_assets.lake.lateness import Lateness, Spread, read_lateness
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.view import read_view

DAY_S = ONE_DAY.total_seconds()
FLIPS_FROM = (Basis.ARRIVALS, Basis.KNOWN_AT_CUT)  # the tables of versions, and of the entities with labels
DEFAULT_SHARE = 0.99  # one row in a hundred may be missing: below what a model notices, above what a bill forgives


@dataclass(frozen=True)
class LatenessScope:
    """The scope of a report: arrival `days` (None: all), the wanted `share` (0..1), label flips since an aware instant,
    and the name of the `source` ("": the only one of a lake, else the source of features, else the first)."""

    days: DayRange | None = None
    share: float = DEFAULT_SHARE
    since: datetime | None = None
    source: str = ""


@dataclass(frozen=True)
class DayLateness:
    """The upserts of one arrival day or event day: how many were late, and their lateness."""

    day: date
    late: int
    spread: Spread

    def to_dict(self) -> dict[str, Any]:
        """Return the day as JSON values, durations in days."""
        return {
            "day": str(self.day), "rows": self.spread.rows, "late": self.late,
            "late_share": self.late / self.spread.rows, **spread_days(self.spread),
        }  # fmt: skip


@dataclass(frozen=True)
class LatenessReport:
    """Lateness of the loaded rows. `overall` is None without upserts; `flips` is None unless requested.

    `watched` are the arrival days that `completeness` rests on; `age_days` is the smallest age at which the wanted
    share has arrived (None: not within the ages that could be watched), `look_back_days` the smallest look-back that
    sees it (None: none within `advice`). `ages` are (age in days, rows), ascending.
    """

    lake: str
    asked: LatenessScope
    frontier: datetime | None
    watched: DayRange | None
    overall: Spread | None
    early: int
    deletes: int
    ages: tuple[tuple[int, int], ...]
    by_arrival: tuple[DayLateness, ...]
    by_event: tuple[DayLateness, ...]
    completeness: tuple[Aged, ...]
    age_days: int | None
    advice: tuple[Advice, ...]
    look_back_days: int | None
    watermarks: tuple[Watermark, ...]
    flips: tuple[Flip, ...] | None

    @property
    def rows(self) -> int:
        """Return the number of measured upserts."""
        return self.overall.rows if self.overall else 0

    @property
    def late(self) -> int:
        """Return the number of upserts that arrived on a later day (UTC) than their event's."""
        return sum(d.late for d in self.by_arrival)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values: shares 0..1, durations in days."""
        days = self.asked.days
        return {
            "lake": self.lake,
            **({"source": self.asked.source} if self.asked.source else {}),
            "frontier": self.frontier.isoformat() if self.frontier else None,
            "from": str(days.start) if days else None,
            "to": str(days.last) if days else None,
            "rows": self.rows,
            "late": self.late,
            "late_share": self.late / self.rows if self.rows else None,
            "early": self.early,
            "deletes": self.deletes,
            "lateness_days": spread_days(self.overall) if self.overall else None,
            "rows_by_age_days": {str(age): rows for age, rows in self.ages},
            "completeness": {
                "watched_from": str(self.watched.start) if self.watched else None,
                "watched_to": str(self.watched.last) if self.watched else None,
                "by_age": [vars(a) for a in self.completeness],
            },
            "wanted_share": self.asked.share,
            "age_days": self.age_days,
            "look_back_days": self.look_back_days,
            "look_backs": [
                {"days": a.days, "missed": a.missed, "missed_share": a.share, **vars(a.interval)} for a in self.advice
            ],
            "watermarks": [_watermark_dict(w) for w in self.watermarks],
            "label_flips": _flips_dict(self),
            "by_arrival_day": [d.to_dict() for d in self.by_arrival],
            "by_event_day": [d.to_dict() for d in self.by_event],
        }


def lateness(lake: Lake, pipeline: Pipeline, asked: LatenessScope, now: datetime) -> LatenessReport:
    """Return the report; `now` is the clock (aware). Raises BackfillError where nothing is loaded or flips are unknown.

    Reads raw in the version that the ledger `arrivals` names, as all readers do.
    """
    states = pipeline.states(read_view(lake, pipeline.contracts))
    report = lateness_of(lake, states, asked, now)
    if asked.since is None or report.frontier is None:
        return report
    return replace(
        report, flips=label_flips(lake, pipeline, states.view, asked.since, states.frontiers.least or report.frontier)
    )


def lateness_of(lake: Lake, states: States, asked: LatenessScope, now: datetime) -> LatenessReport:
    """Return `lateness` of a lake with known states, without flips."""
    view, source = states.view, _source(lake, states.view, asked.source)
    frontier = states.frontier(source.table)
    if source.loaded_version < 0 or frontier is None:
        raise BackfillError(
            f"the lake {lake.root}",
            "no delivery is loaded yet",
            "There is no lateness to measure",
            "Run `backfill-assets scan`, then `backfill-assets backfill --from DAY --to DAY`",
        )
    asked = replace(asked, source=source.name)
    found = read_lateness(lake.store, source.table, source.loaded_version, asked.days)
    watched = _watched(found, asked.days, frontier)
    shares = completeness(found.cells, watched) if watched else ()
    age = age_for(asked.share, shares)
    ages = rows_by_age(found.cells)
    advice = advise(ages) if ages else ()
    ages_of = {t: age if t == source.table else _age(lake, states, s, asked) for t, s in view.sources.items()}
    measured = {t: watermark_day(f, a) for t, a in ages_of.items() if a is not None and (f := states.frontier(t))}
    return LatenessReport(
        lake=str(lake.root),
        asked=asked,
        frontier=frontier,
        watched=watched,
        overall=found.overall,
        early=found.early,
        deletes=found.deletes,
        ages=tuple(ages.items()),
        by_arrival=_days(found.by_arrival, [(c.arrival_day, c.rows) for c in found.cells if c.age_days]),
        by_event=_days(found.by_event, [(c.event_day, c.rows) for c in found.cells if c.age_days]),
        completeness=shares,
        age_days=age,
        advice=advice,
        look_back_days=look_back_for(asked.share, advice),
        watermarks=watermarks(tuple(states.contracts.values()), _newest(view), measured, states.frontier, now),
        flips=None,
    )


def _source(lake: Lake, view: LakeView, name: str) -> Source:
    """Return the source of a report; raises BackfillError for an unknown name."""
    known = {s.name: s for s in view.sources.values()}
    usual = name or lake.settings.features.source or ""
    wanted = usual if name or usual in known else next(iter(known))
    if wanted not in known:
        fix = f"Choose one of {', '.join(known)}" if "" not in known else "Leave out --source"
        raise BackfillError(f"the source {wanted!r}", "the lake has none of that name", "Nothing was measured", fix)
    return known[wanted]


def _age(lake: Lake, states: States, source: Source, asked: LatenessScope) -> int | None:
    """Return the smallest age (days) by which the wanted share of a source's rows has arrived; None if unknown."""
    frontier = states.frontier(source.table)
    if source.loaded_version < 0 or frontier is None:
        return None
    found = read_lateness(lake.store, source.table, source.loaded_version, asked.days)
    watched = _watched(found, asked.days, frontier)
    return age_for(asked.share, completeness(found.cells, watched)) if watched else None


def _watched(found: Lateness, days: DayRange | None, frontier: datetime) -> DayRange | None:
    """Return the arrival days that can be judged: `days`, else from the first with an upsert; before the frontier."""
    if not found.by_arrival:
        return None
    first = days.start if days else found.by_arrival[0][0]
    end = min(days.end, frontier.date()) if days else frontier.date()
    return DayRange(first, end) if first < end else None


def _days(spreads: Sequence[tuple[date, Spread]], late: Sequence[tuple[date, int]]) -> tuple[DayLateness, ...]:
    counted: dict[date, int] = {}
    for day, rows in late:
        counted[day] = counted.get(day, 0) + rows
    return tuple(DayLateness(day, counted.get(day, 0), spread) for day, spread in spreads)


def _newest(view: LakeView) -> dict[str, date]:
    """Return the newest day of each table with a receipt that is not pending."""
    stamps = ((name, table.stamps.items()) for name, table in view.tables.items())
    built = {name: [d for d, stamp in found if stamp.entry.built is not Built.PENDING] for name, found in stamps}
    return {name: max(days) for name, days in built.items() if days}


def spread_days(spread: Spread) -> dict[str, float]:
    """Return lateness in days, by the names that reports use."""
    seconds = {
        "min": spread.least_s, "p50": spread.p50_s, "p90": spread.p90_s, "p99": spread.p99_s,
        "max": spread.greatest_s,
    }  # fmt: skip
    return {name: value / DAY_S for name, value in seconds.items()}


def _watermark_dict(mark: Watermark) -> dict[str, Any]:
    return {
        "table": mark.table,
        "newest_day": str(mark.newest_day) if mark.newest_day else None,
        "day": str(mark.day) if mark.day else None,
        "lag_days": None if mark.lag is None else mark.lag / ONE_DAY,
        "clock_lag_days": None if mark.clock_lag is None else mark.clock_lag / ONE_DAY,
    }


def _flips_dict(report: LatenessReport) -> dict[str, Any] | None:
    if report.flips is None or report.asked.since is None:
        return None
    shares = [(f, f.flipped / f.labels if f.labels else None) for f in report.flips]
    return {
        "since": report.asked.since.isoformat(),
        "by_maturity": [{**vars(f), "flipped_share": share} for f, share in shares],
    }


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
    lacking = [c.name if c else told for c, told in roles if c is None or view.table(c.name).version < 0]
    if lacking:
        raise _uncounted(
            since,
            f"the lake has no table {' and no table '.join(lacking)}",
            "Build these tables with `backfill-assets backfill`, or leave out --since",
        )
    if since > frontier:
        told = f"the frontier is {frontier:%Y-%m-%dT%H:%M:%SZ}, so nothing is known from later on"
        raise _uncounted(since, told, "Give an earlier day to --since")
    versions, asked = ((c, view.table(c.name).version) for c, _ in roles if c)
    return count_flips(lake, label or label_by_rule(lake.settings.labels), (versions, asked), since)


def _uncounted(since: datetime, culprit: str, fix: str) -> BackfillError:
    return BackfillError(f"label flips since {since:%Y-%m-%d}", culprit, "They were not counted", fix)
