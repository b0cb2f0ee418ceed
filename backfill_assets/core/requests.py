"""Requests: ranges of days of one table that a run is asked for, each with what it was asked because of.

Lives here: joining ready days to requests, bounded attempts, and the identity of a request. Does not live here: which
days are ready (`core.needs`) and runs (`orchestration`).

The identity of a day's request is its input digest and the write_id of what is there: a changed input is a new request,
a repeated look is not, and inputs that return to what they were (A, B, A) are told apart by the write in between. A run
that ended and left the identity as it was has done nothing for the day: it counts as an attempt.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import date

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.digests import digest_of
from backfill_assets.core.needs import joined
from backfill_assets.core.states import States

IDENTITY_CHARS = 12  # of the input's digest and of the write_id's: enough to tell a day's own versions apart
Attempts = Mapping[tuple[str, str, str], int]  # (table, day, identity) -> runs that ended without changing it


@dataclass(frozen=True)
class Ask:
    """Days of a table to be made by one run. `asked` are the days that need it, with their identities; the others
    between them are settled. `attempt` counts from 0."""

    table: str
    days: DayRange
    asked: Mapping[str, str]
    attempt: int

    @property
    def key(self) -> str:
        """The run key: Dagster remembers it for ever, so it names everything that makes this request a new one."""
        return f"{self.table} {self.days} {digest_of(dict(self.asked))} attempt {self.attempt}"


def identity(states: States, table: str, day: date) -> str:
    """What the day would be made from, and what is there now."""
    stamp = states.stamp(table, day)
    there = digest_of(stamp.write_id)[:IDENTITY_CHARS] if stamp else "nothing"
    return f"{states.digests.of(table, day)[:IDENTITY_CHARS]}.{there}"


def asks(
    states: States, table: str, days: Iterable[date], attempts: Attempts, most_attempts: int, busy: Set[date]
) -> tuple[list[Ask], list[date]]:
    """The requests for these days, ascending, and the days that were tried `most_attempts` times and need a person.

    A day that was tried in vain is asked for alone, so that it holds no other day back.
    """
    first_time: list[date] = []
    again: list[Ask] = []
    given_up: list[date] = []
    for day in sorted(days):
        known = identity(states, table, day)
        tried = attempts.get((table, str(day), known), 0)
        if tried >= most_attempts:
            given_up.append(day)
        elif tried:
            again.append(Ask(table, DayRange(day, day + ONE_DAY), {str(day): known}, tried))
        else:
            first_time.append(day)
    wanted = set(first_time)
    fresh = [
        Ask(table, span, {str(d): identity(states, table, d) for d in span if d in wanted}, 0)
        for span in joined(states, table, first_time, busy)
    ]
    return sorted(fresh + again, key=lambda ask: ask.days.start), given_up
