"""How late deliveries come, what that costs, and up to which day each table may be believed.

Lives here: the report, and its form for Prometheus. Does not live here: reading raw (`lake.lateness`), the arithmetic
(`core.lateness`), and drawing (`cli.lateness`). The clock is a parameter: it decides one lag, and
no content.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any

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
from backfill_assets.lake.label_flips import Flip
from backfill_assets.lake.lateness import Lateness, Spread, read_lateness
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.view import read_view
from backfill_assets.operations.label_flips import label_flips

DAY_S = ONE_DAY.total_seconds()
DEFAULT_SHARE = 0.99  # one row in a hundred may be missing: below what a model notices, above what a bill forgives


@dataclass(frozen=True)
class LatenessScope:
    """What a report is about: arrival `days` (None: all), the wanted `share` (0..1), flips since an aware instant, and
    the name of the `source` ("": a lake's only one; of several the one that features are made from, else the first)."""

    days: DayRange | None = None
    share: float = DEFAULT_SHARE
    since: datetime | None = None
    source: str = ""


@dataclass(frozen=True)
class DayLateness:
    """The upserts of one arrival day or event day: how many, how many of them late, and their lateness."""

    day: date
    late: int
    spread: Spread

    def to_dict(self) -> dict[str, Any]:
        """The day as JSON values, durations in days."""
        return {
            "day": str(self.day), "rows": self.spread.rows, "late": self.late,
            "late_share": self.late / self.spread.rows, **spread_days(self.spread),
        }  # fmt: skip


@dataclass(frozen=True)
class LatenessReport:
    """Lateness of what is loaded. `overall` is None where no upsert is; `flips` is None unless asked for.

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
        """The upserts measured."""
        return self.overall.rows if self.overall else 0

    @property
    def late(self) -> int:
        """Of these, the ones that arrived on a later day (UTC) than their event's."""
        return sum(d.late for d in self.by_arrival)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values: shares 0..1, durations in days."""
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
                "by_age": [
                    {"age_days": a.age_days, "share": a.share, "event_days": a.event_days, "rows": a.rows}
                    for a in self.completeness
                ],
            },
            "wanted_share": self.asked.share,
            "age_days": self.age_days,
            "look_back_days": self.look_back_days,
            "look_backs": [_advice_dict(a) for a in self.advice],
            "watermarks": [_watermark_dict(w) for w in self.watermarks],
            "label_flips": _flips_dict(self),
            "by_arrival_day": [d.to_dict() for d in self.by_arrival],
            "by_event_day": [d.to_dict() for d in self.by_event],
        }


def lateness(lake: Lake, pipeline: Pipeline, asked: LatenessScope, now: datetime) -> LatenessReport:
    """The report, `now` being the clock (aware). Raises BackfillError where nothing is loaded or flips are unknown.

    Raw is read in the version that the ledger `arrivals` names, as everybody who reads it does.
    """
    states = pipeline.states(read_view(lake, pipeline.contracts))
    report = lateness_of(lake, states, asked, now)
    if asked.since is None or report.frontier is None:
        return report
    return replace(
        report, flips=label_flips(lake, pipeline, states.view, asked.since, states.frontiers.least or report.frontier)
    )


def lateness_of(lake: Lake, states: States, asked: LatenessScope, now: datetime) -> LatenessReport:
    """`lateness` of a lake whose states are known already, without flips."""
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
    """The source that a report is about; raises BackfillError where there is none of that name."""
    known = {s.name: s for s in view.sources.values()}
    usual = name or lake.settings.features.source or ""
    wanted = usual if name or usual in known else next(iter(known))
    if wanted not in known:
        fix = f"Choose one of {', '.join(known)}" if "" not in known else "Leave out --source"
        raise BackfillError(f"the source {wanted!r}", "the lake has none of that name", "Nothing was measured", fix)
    return known[wanted]


def _age(lake: Lake, states: States, source: Source, asked: LatenessScope) -> int | None:
    """The smallest age at which the wanted share of a source's rows has arrived; None where none is known."""
    frontier = states.frontier(source.table)
    if source.loaded_version < 0 or frontier is None:
        return None
    found = read_lateness(lake.store, source.table, source.loaded_version, asked.days)
    watched = _watched(found, asked.days, frontier)
    return age_for(asked.share, completeness(found.cells, watched)) if watched else None


def _watched(found: Lateness, days: DayRange | None, frontier: datetime) -> DayRange | None:
    """The arrival days that can be judged: the asked ones, else from the first with an upsert; before the frontier."""
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
    """Per table its newest day with a receipt that is not pending."""
    stamps = ((name, table.stamps.items()) for name, table in view.tables.items())
    built = {name: [d for d, stamp in found if stamp.entry.built is not Built.PENDING] for name, found in stamps}
    return {name: max(days) for name, days in built.items() if days}


def in_days(span: timedelta | None) -> float | None:
    """A duration in days; None stays None."""
    return None if span is None else span / ONE_DAY


def spread_days(spread: Spread) -> dict[str, float]:
    """Lateness in days, by the names that reports use."""
    seconds = {
        "min": spread.least_s, "p50": spread.p50_s, "p90": spread.p90_s, "p99": spread.p99_s,
        "max": spread.greatest_s,
    }  # fmt: skip
    return {name: value / DAY_S for name, value in seconds.items()}


def _advice_dict(advice: Advice) -> dict[str, Any]:
    return {
        "days": advice.days, "missed": advice.missed, "missed_share": advice.share,
        "low": advice.interval.low, "high": advice.interval.high,
    }  # fmt: skip


def _watermark_dict(mark: Watermark) -> dict[str, Any]:
    return {
        "table": mark.table,
        "newest_day": str(mark.newest_day) if mark.newest_day else None,
        "day": str(mark.day) if mark.day else None,
        "lag_days": in_days(mark.lag),
        "clock_lag_days": in_days(mark.clock_lag),
    }


def _flips_dict(report: LatenessReport) -> dict[str, Any] | None:
    if report.flips is None or report.asked.since is None:
        return None
    return {
        "since": report.asked.since.isoformat(),
        "by_maturity": [
            {
                "maturity_days": f.maturity_days, "labels": f.labels, "flipped": f.flipped,
                "flipped_share": f.flipped / f.labels if f.labels else None,
            }
            for f in report.flips
        ],
    }  # fmt: skip
