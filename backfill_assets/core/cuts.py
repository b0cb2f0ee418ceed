"""As-of cutoffs and maturity: the instants and days that bound what a day may know.

Elsewhere: the frontier, the instant up to which everything landed is loaded (`core.frontier`), and the same rules in
Spark and SQL (`pipeline`, `lake`). These modules apply a rule again and change with it: `core.digests`,
`operations.why`, `operations.plan_impact`, `load.judging`, `pipeline.transforms.declared`, `lake.label_flips`.
Instants are aware; days are UTC. A day `d` lasts until midnight after it, that instant excluded.
"""

from datetime import UTC, date, datetime, timedelta

from backfill_assets.core.days import ONE_DAY, midnight

LEAST = timedelta(microseconds=1)  # the resolution of every time in a lake


def end_of(day: date) -> datetime:
    """Midnight after `day`: the first instant that is no longer in it."""
    return midnight(day + ONE_DAY)


def is_over(day: date, frontier: datetime | None) -> bool:
    """Whether everything that arrived on `day` is loaded."""
    return _is_reached(end_of(day), frontier)


def cut_of(day: date, grace: timedelta) -> datetime:
    """The as-of cutoff of `day`: midnight after it plus `grace`."""
    return end_of(day) + grace


def cut_has_passed(day: date, grace: timedelta, frontier: datetime | None) -> bool:
    """Whether everything that arrived before the cutoff of `day` is loaded."""
    return _is_reached(cut_of(day, grace), frontier)


def last_known_day(day: date, grace: timedelta) -> date:
    """The last arrival day with an instant before the cutoff of `day`."""
    return (cut_of(day, grace) - LEAST).date()


def matures_after(horizon_days: int, maturity_days: int) -> int:
    """The days after `d + 1` from which on the outcome over a horizon is mature."""
    return horizon_days + maturity_days


def is_mature(day: date, matures_after_days: int, frontier: datetime | None) -> bool:
    """Whether `day + 1 + matures_after_days` days <= frontier."""
    return is_over(day + ONE_DAY * matures_after_days, frontier)


def newest_over(instant: datetime) -> date:
    """The greatest day that is over at `instant`."""
    return instant.astimezone(UTC).date() - ONE_DAY


def newest_mature(instant: datetime, matures_after_days: int) -> date:
    """The greatest day that is mature at `instant`."""
    return newest_over(instant) - ONE_DAY * matures_after_days


def _is_reached(instant: datetime, frontier: datetime | None) -> bool:
    return frontier is not None and instant <= frontier
