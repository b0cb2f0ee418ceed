"""Requests: ranges of days of one table that a run is asked for, each with what it was asked because of.

Lives here: joining ready days to requests, bounded attempts, and the identity of a request. Does not live here: which
days are ready (`core.needs`) and runs (`orchestration`).

The identity of a day's request is what an attempt was tried with: the input digest, the write_id of what is there, and
the rules (code, settings, gates). A changed input or rule is a new request, a repeated look is not, and inputs that
return to what they were (A, B, A) differ by the write in between. A run that ended and left the identity as it
was has done nothing for the day: it counts as an attempt.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import date

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.digests import digest_of
from backfill_assets.core.needs import joined
from backfill_assets.core.states import States

IDENTITY_CHARS = 12  # of each digest: enough to tell a day's own versions apart


@dataclass(frozen=True)
class RunRequest:
    """Days of a table to be made by one run. `asked` are the days that need it, with their identities; the others
    between them are settled. `attempt` counts from 0. `riders` are tables made in the same run, over `covered` (None:
    the same days), because they will follow: nobody asks for their days yet (`core.downstream`)."""

    table: str
    days: DayRange
    asked: Mapping[str, str]
    attempt: int
    riders: tuple[str, ...] = ()
    covered: DayRange | None = None

    @property
    def span(self) -> DayRange:
        """The days that the run covers."""
        return self.covered or self.days

    @property
    def key(self) -> str:
        """The run key: Dagster remembers it for ever, so it names everything that makes this request a new one."""
        return f"{self.table} {self.days} {digest_of(dict(self.asked))} attempt {self.attempt}"


def identities(states: States, table: str, days: Iterable[date], rules: str = "") -> dict[date, str]:
    """Per day what it would be made from, what is there now, and under which code, settings and `rules` (a digest of
    whatever else decides how a run ends: the table's gates, the lake)."""
    codes = states.codes.get(table)
    under = digest_of([codes.code_digest if codes else "", codes.settings_digest if codes else "", rules])
    return {day: f"{_there(states, table, day)}.{under[:IDENTITY_CHARS]}" for day in sorted(days)}


def _there(states: States, table: str, day: date) -> str:
    stamp = states.stamp(table, day)
    there = digest_of(stamp.write_id)[:IDENTITY_CHARS] if stamp else "nothing"
    return f"{states.digests.of(table, day)[:IDENTITY_CHARS]}.{there}"


def run_requests(
    states: States, table: str, known: Mapping[date, str], tried: Mapping[date, int], most: int, busy: Set[date]
) -> tuple[list[RunRequest], list[date]]:
    """The requests for the days of `known` (with their identities), and the days that were `tried` `most` times as they
    are and need a person: those hold no request's place.

    What was never tried comes first, ascending; then each day that was tried in vain, alone, so that it holds no other
    day back.
    """
    given_up = [day for day in known if tried.get(day, 0) >= most]
    again = [day for day in known if 0 < tried.get(day, 0) < most]
    first_time = [day for day in known if not tried.get(day, 0)]
    wanted = set(first_time)
    fresh = [
        RunRequest(table, span, {str(d): known[d] for d in span if d in wanted}, 0)
        for span in joined(states, table, first_time, busy)
    ]
    alone = [RunRequest(table, DayRange(day, day + ONE_DAY), {str(day): known[day]}, tried[day]) for day in again]
    return fresh + alone, given_up
