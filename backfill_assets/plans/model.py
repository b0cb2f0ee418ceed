"""A plan and its JSON: a range of days of some tables in chunks, with its pins, impact, preflight
and prices.

Elsewhere: making a plan (`plans.plan`), its file (`files`), how it is run (`policy`). Fields
that older files lack have defaults; unknown keys of a file are ignored.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from functools import cache, cached_property
from typing import Annotated, Any

from pydantic import PlainSerializer, TypeAdapter, ValidationError

from backfill_assets.kernel.core.days import DayRange, inclusive_range
from backfill_assets.kernel.core.digests import is_as_written, with_digest
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.plans import CHUNK_TAG, CODE_TAG, PLAN_TAG
from backfill_assets.plans.policy import Days, Policy
from backfill_assets.plans.skew import KeyShare

SCHEMA = 1
SCHEMA_KEY = "backfill_assets_plan"
PLAN_REASON = "plan"  # the reason of every receipt that a plan's run wrote
# One huge run is one huge thing to put back: a month of days is what a person still looks at.
MOST_CHUNK_DAYS = 31
Instant = Annotated[datetime, PlainSerializer(datetime.isoformat)]


class ChunkKind(StrEnum):
    """The purpose of a chunk."""

    CANARY = "canary"  # made first, alone: what is wrong everywhere shows here
    CHUNK = "chunk"
    # Last: days of earlier chunks whose inputs later chunks changed (windows reach over the edges).
    BOUNDARY = "seams"

    @property
    def shown(self) -> str:
        """The word for people: `boundary` where files of plans say `seams`."""
        return self.name.lower()


@dataclass(frozen=True)
class PlanChunk:
    """Contiguous days of all tables of a plan."""

    number: int  # from 1, in the order of the runs
    days: Days  # of a boundary chunk the plan's range: which it makes is known when it runs
    kind: ChunkKind = ChunkKind.CHUNK


@dataclass(frozen=True)
class Pins:
    """What must not move while a plan runs, as it was when the plan was made."""

    codes: Mapping[str, str]  # digests per table
    settings: Mapping[str, str]  # digests per table
    packages: Mapping[str, str]  # versions by name
    versions: Mapping[str, int]  # of tables, for the record; -1: no table
    as_of: Instant | None = None


@dataclass(frozen=True)
class Price:
    """The expected cost of writes."""

    seconds: float
    least: float  # seconds
    most: float  # seconds
    rows: int = 0
    bytes: int = 0
    writes: int = 0  # the past writes behind it (0: a guess)
    cpu: float | None = None  # processor seconds; None: unknown

    @classmethod
    def total(cls, parts: "Iterable[Price]") -> "Price":
        """The sum of prices, with the smallest number of past writes; nothing of no parts."""
        found = list(parts)
        cpu = [p.cpu for p in found if p.cpu is not None]
        is_cpu_known = len(cpu) == len(found)
        return cls(
            seconds=sum(p.seconds for p in found),
            least=sum(p.least for p in found),
            most=sum(p.most for p in found),
            rows=sum(p.rows for p in found),
            bytes=sum(p.bytes for p in found),
            writes=min((p.writes for p in found), default=0),
            cpu=sum(cpu) if is_cpu_known else None,
        )


@dataclass(frozen=True)
class DayMove:
    """A day of a table under today's settings against what is written."""

    table: str
    day: date
    gains: int  # keys
    loses: int  # keys
    changes: int  # keys whose rows differ


@dataclass(frozen=True)
class TableImpact:
    """The impact of a plan on one table. Each day is named once."""

    table: str
    key: tuple[str, ...]
    write: Mapping[str, tuple[Days, ...]]  # days to write, by reason
    reads: Mapping[str, tuple[Days, ...]]  # input days, by table
    follows: tuple[Days, ...]  # days that it makes stale and does not rebuild
    held: tuple[Days, ...]  # days that a rollback holds, and closed days
    price: Price | None = None

    def days(self) -> frozenset[date]:
        """All days to write, whatever the reason."""
        found = set[date]()
        for spans in self.write.values():
            found.update(*spans)
        return frozenset(found)


@dataclass(frozen=True)
class PlanCode:
    """Older code of a plan."""

    ref: str  # in git, as given
    commit: str  # in git
    tables: str  # FILE:NAME of the frozen tables, relative to the lake
    sql: str = ""  # pattern of the frozen SQL files; "": none
    digest: str = ""  # over the files
    files: int = 1  # their number

    def __str__(self) -> str:
        return f"{self.ref} ({self.commit[:12]}; {self.files} file(s), digest {self.digest})"


@dataclass(frozen=True)
class PlanLook:
    """Preview of a diff under today's settings: days with moved rows, also outside the range, and
    days per downstream table that follow through its windows."""

    moves: tuple[DayMove, ...] = ()
    follows: Mapping[str, tuple[Days, ...]] = field(default_factory=dict)

    def most_changed(self, days: DayRange, tables: Collection[str]) -> DayRange | None:
        """The first of `days` on which most rows of `tables` (where none of them moves: of any)
        move; None: no row."""
        rows: Counter[date] = Counter()
        of_tables = [move for move in self.moves if move.table in tables]
        for move in of_tables or self.moves:
            if move.day in days:
                rows[move.day] += move.gains + move.loses + move.changes
        if not rows.total():
            return None
        day = max(sorted(rows), key=lambda day: rows[day])
        return inclusive_range(day, day)

    def beyond(self, days: DayRange) -> list[date]:
        """The days outside of `days` on which any table gains or loses rows, ascending."""
        return sorted({m.day for m in self.moves if moves_rows(m)} - {*days})


def moves_rows(move: DayMove) -> bool:
    """Whether a day gains or loses rows."""
    return bool(move.gains or move.loses)


@dataclass(frozen=True)
class PreflightTick:
    """One check of the preflight; if it did not pass, the plan may not run."""

    name: str
    passed: bool
    told: str


@dataclass(frozen=True)
class Plan:
    """A frozen plan."""

    id: str
    created: Instant
    user: str
    days: Days
    tables: tuple[str, ...]
    chunks: tuple[PlanChunk, ...]
    policy: Policy
    pins: Pins
    impacts: tuple[TableImpact, ...] = ()
    preflight: tuple[PreflightTick, ...] = ()
    prices: Mapping[int, Price] = field(default_factory=dict)  # by chunk
    reason: str = ""  # of a person, for receipts
    note: str = ""  # of a person, for receipts
    retention_days: int | None = None
    look: PlanLook | None = None
    code: PlanCode | None = None
    parallel: str = ""  # why so many chunks run at once, if nobody chose
    shares: tuple[KeyShare, ...] = ()
    # Of each table that has not a partition for every day: the days that its partitions cover that
    # cover one of the plan. The key of a partition is its first day.
    periods: Mapping[str, tuple[Days, ...]] = field(default_factory=dict)

    @property
    def nothing_to_do(self) -> str:
        """A line saying that no day needs a rebuild; empty if some do, or are held."""
        for impact in self.impacts:
            if impact.table in self.tables and (impact.days() or impact.held):
                return ""
        return (
            f"nothing to do: {self.days} of {', '.join(self.tables)} need nothing (--force makes "
            "them all the same)"
        )

    @property
    def has_boundary(self) -> bool:
        """Whether the last chunk is a boundary chunk."""
        return self.chunks[-1].kind is ChunkKind.BOUNDARY

    @property
    def failed_ticks(self) -> list[PreflightTick]:
        """The checks of the preflight that did not pass."""
        return [tick for tick in self.preflight if not tick.passed]

    def error(self, culprit: str, consequence: str, fix: str) -> BackfillError:
        """An error about this plan."""
        return BackfillError(f"the plan {self.id}", culprit, consequence, fix)

    def chunk(self, number: int) -> PlanChunk:
        """The chunk with this number; raises BackfillError if there is none."""
        if 1 <= number <= len(self.chunks):
            return self.chunks[number - 1]
        raise self.error(
            f"it has no chunk {number}", "Nothing was done", f"Name one of 1 to {len(self.chunks)}"
        )

    def keys_of(self, table: str) -> Iterable[date]:
        """The partitions of a table that the plan is for, ascending."""
        if table in self.periods:
            return [period.start for period in self.periods[table]]
        return self.days

    def keys(self, chunk: PlanChunk, table: str) -> list[date]:
        """The partitions of a table that a chunk makes, ascending. A month, or another partition of
        several days, is made once: by the last chunk that has a day of it. The boundary chunk looks
        at all."""
        if chunk.kind is ChunkKind.BOUNDARY:
            return [*self.keys_of(table)]
        if table not in self.periods:
            return [*chunk.days]
        return [key for key, makers in self._makers[table].items() if max(makers) == chunk.number]

    @cached_property
    def _makers(self) -> Mapping[str, Mapping[date, frozenset[int]]]:
        """Per table with `periods`: the numbers of the chunks that have days of each partition."""
        maker_by_day = dict[date, int]()
        for chunk in self.chunks:
            if chunk.kind is not ChunkKind.BOUNDARY:
                maker_by_day |= dict.fromkeys(chunk.days, chunk.number)
        found = dict[str, dict[date, frozenset[int]]]()
        for table, periods in self.periods.items():
            found[table] = {
                period.start: frozenset(maker_by_day[d] for d in period if d in maker_by_day)
                for period in periods
            }
        return found

    def waves(self) -> list[tuple[PlanChunk, ...]]:
        """The chunks that may run at once, in order: canary and boundary chunk alone, others up to
        `max_parallel`. None makes a month while another one makes days of it."""
        found = list[tuple[PlanChunk, ...]]()
        for chunk in self.chunks:
            has_room = bool(found) and len(found[-1]) < self.policy.max_parallel
            is_alike = has_room and found[-1][0].kind is chunk.kind is ChunkKind.CHUNK
            if is_alike and not self._completes(chunk, found[-1]):
                found[-1] = (*found[-1], chunk)
            else:
                found.append((chunk,))
        return found

    def _completes(self, chunk: PlanChunk, others: Iterable[PlanChunk]) -> bool:
        """Whether a chunk makes a partition of which these others have days."""
        numbers = {other.number for other in others}
        for makers_of in self._makers.values():
            for makers in makers_of.values():
                if max(makers) == chunk.number and not numbers.isdisjoint(makers):
                    return True
        return False

    def tags(self, chunk: PlanChunk) -> dict[str, str]:
        """The tags of the receipts of a chunk's runs."""
        code = {CODE_TAG: str(self.code)} if self.code is not None else {}
        return {PLAN_TAG: self.id, CHUNK_TAG: str(chunk.number), **self.policy.mode.tags, **code}


@cache
def _plan_adapter() -> TypeAdapter[Plan]:
    """Made where the first plan is read or written: it takes as long as all imports of this
    file."""
    return TypeAdapter(Plan)


def plan_dict(plan: Plan) -> dict[str, Any]:
    """The plan as JSON values; ranges of days as `[first, last]`, both included. Empty `shares` and
    `periods` are left out."""
    found: dict[str, Any] = _plan_adapter().dump_python(plan, mode="json")
    for name in ("shares", "periods"):
        if not found[name]:
            del found[name]
    return found


def plan_json(plan: Plan) -> str:
    """The text of the plan's file; keys sorted."""
    body = {SCHEMA_KEY: SCHEMA, **with_digest(plan_dict(plan))}
    return json.dumps(body, sort_keys=True, indent=1)


def parse_plan(text: str | bytes, plan_id: str = "") -> Plan:
    """The plan of a file, which is of that id if one is given; raises BackfillError where it is
    torn, changed, of another plan, or of another version."""
    try:
        return _plan_in({**json.loads(text)}, plan_id)
    except ValidationError as error:
        first = error.errors()[0]
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except ValueError as error:
        why = str(error)
    except (TypeError, KeyError, RecursionError) as error:
        why = repr(error)
    raise BackfillError(
        f"the plan {plan_id}".rstrip(),
        f"its file is not understood: {why}",
        "Nothing was run",
        "Make a new plan",
    )


def _plan_in(body: dict[str, Any], plan_id: str) -> Plan:
    """The plan of a document; raises ValueError, TypeError or KeyError as `parse_plan` tells it."""
    if body.pop(SCHEMA_KEY) != SCHEMA:
        raise ValueError("another release wrote it")
    if not is_as_written(body):
        raise ValueError("it is not what was written")
    found: Plan = _plan_adapter().validate_python(body)
    if found.id != (plan_id or found.id):
        raise ValueError(f"it is of the plan {found.id}")
    return found
