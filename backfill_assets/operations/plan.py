"""Makes a plan from the lake's logs, without a JVM: impact, price, preflight and pins of a range of days.

Elsewhere: the impact (`plan_impact`), preflight and pins (`plan_preflight`), the plan's file (`plan_files`), running it
(`plan_run`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import reduce
from itertools import groupby
from operator import add
from typing import Literal

from backfill_assets.core.clock import utc_now
from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.ownership import whoami
from backfill_assets.core.plan_gates import Tolerances
from backfill_assets.core.plans import MOST_CHUNK_DAYS
from backfill_assets.lake.home import Lake
from backfill_assets.lake.log import Commit
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.view import read_view
from backfill_assets.load.merging import refuse_merge
from backfill_assets.operations.plan_files import new_id
from backfill_assets.operations.plan_impact import impacts, look_ahead
from backfill_assets.operations.plan_model import (
    ChunkKind,
    Order,
    Plan,
    PlanChunk,
    PlanCode,
    Policy,
    Price,
    TableImpact,
)
from backfill_assets.operations.plan_preflight import preflight, take_pins

TEMPLATES: Mapping[str, Policy] = {
    # a few days again that came out wrong by accident: little may differ
    "daily-repair": Policy("1d", 1, tolerances=Tolerances(rows=0.1, nulls=0.05, means=0.1), template="daily-repair"),
    # other code for the same rows: keys and rows stay, values may change
    "feature-fix": Policy("7d", 1, tolerances=Tolerances(rows=0.05, nulls=0.2), template="feature-fix"),
    # truth that came late: rows are added, and outcomes flip
    "late-labels": Policy("month", 1, tolerances=Tolerances(rows=1.0, nulls=0.2, means=0.5), template="late-labels"),
    # everything again under new rules: rows may move between days
    "migration": Policy("week", 2, tolerances=Tolerances(rows=None, nulls=0.5), template="migration"),
}
GUESS_DAY_SECONDS = 0.2  # of a small table on two cores, where no past write tells
GUESS_FACTOR, LEARNT_FACTOR = 4.0, 1.5  # how far an expectation may be off, both ways
NEWEST_WRITES = 40  # older ones describe another machine and another size


@dataclass(frozen=True)
class PlanRequest:
    """What someone asks to be planned. `most_days` caps a chunk; `look` also reads what landed by today's settings,
    which needs the engine; `code` is recorded in the plan, and the caller works by it (`plan_code.working_by`)."""

    days: DayRange
    tables: tuple[str, ...]
    policy: Policy
    reason: str = ""
    note: str = ""
    most_days: int = MOST_CHUNK_DAYS
    user: str = ""
    look: bool = False
    code: PlanCode | None = None


def make_plan(lake: Lake, pipeline: Pipeline, asked: PlanRequest, now: datetime | None = None) -> Plan:
    """Make the frozen plan of a request; writes nothing. A plan whose preflight failed is refused when it is run."""
    chunks = cut(asked.days, asked.policy.chunk, asked.policy.canary, asked.policy.order)
    _refuse_unsafe(pipeline, asked, chunks)
    created = now or utc_now()
    states = pipeline.states(read_view(lake, pipeline.contracts))
    logs = {t.name: list(lake.store.commits(t.name)) for t in pipeline.tables}
    frontiers = {name: {c.version: c.receipt.frontier for c in log if c.receipt} for name, log in logs.items()}
    found = impacts(states, frontiers, asked.tables, asked.days, asked.policy)
    rates = {i.table: day_rate(logs[i.table]) for i in found}
    plan = Plan(
        id=new_id(created),
        created=created,
        user=asked.user or whoami(),
        days=asked.days,
        tables=asked.tables,
        chunks=chunks,
        policy=asked.policy,
        pins=take_pins(lake, pipeline, states),
        impacts=tuple(replace(i, price=rates[i.table].price(n)) if (n := len(i.days())) else i for i in found),
        prices=_chunk_prices(found, chunks, rates),
        reason=asked.reason,
        note=asked.note,
        retention_days=lake.settings.retention.rollback_days,
        look=look_ahead(lake, states, asked.days) if asked.look else None,
        code=asked.code,
    )
    return replace(plan, preflight=preflight(lake, pipeline, states, plan))


@dataclass(frozen=True)
class DayRate:
    """What a day of a table costs on average: seconds, rows, bytes of new data files and processor seconds (None: no
    receipt has them). `writes` counts the writes behind it; 0 means a guess."""

    seconds: float = GUESS_DAY_SECONDS
    rows: float = 0.0
    bytes: float = 0.0
    writes: int = 0
    cpu: float | None = None

    def price(self, days: int) -> Price:
        """The price of so many days."""
        seconds, factor = self.seconds * days, LEARNT_FACTOR if self.writes else GUESS_FACTOR
        return Price(
            seconds, seconds / factor, seconds * factor, round(self.rows * days), round(self.bytes * days), self.writes,
            None if self.cpu is None else self.cpu * days,
        )  # fmt: skip


def day_rate(log: Sequence[Commit]) -> DayRate:
    """The averages per day over the newest writes of a table, without the wait for an engine."""
    told = [c.receipt for c in log if c.receipt is not None and c.receipt.seconds is not None and c.receipt.days]
    made = told[-NEWEST_WRITES:]
    if not made:
        return DayRate()
    days, cpu = sum(len(r.days) for r in made), [r.cpu_seconds for r in made if r.cpu_seconds is not None]
    return DayRate(
        sum(r.work_seconds for r in made) / days,
        sum(e.rows for r in made for e in r.days.values()) / days,
        sum(r.bytes or 0 for r in made) / days,
        len(made),
        sum(cpu) / days if len(cpu) == len(made) else None,
    )


def _chunk_prices(
    found: Sequence[TableImpact], chunks: Sequence[PlanChunk], rates: Mapping[str, DayRate]
) -> dict[int, Price]:
    """The price per chunk; none of the boundary chunk, whose days are known only when it runs."""
    prices: dict[int, Price] = {}
    for chunk in chunks:
        if chunk.kind is not ChunkKind.BOUNDARY:
            days = {i.table: len(i.days() & {*chunk.days}) for i in found}
            parts = [rates[table].price(number) for table, number in days.items() if number]
            prices |= {chunk.number: reduce(add, parts)} if parts else {}
    return prices


def chunk_days(unit: str) -> int | Literal["week", "month"]:
    """What `7d`, `7`, `week` or `month` says; raises BackfillError for anything else."""
    text = unit.strip().lower()
    if text == "week":
        return "week"
    if text == "month":
        return "month"
    number = text.removesuffix("d")
    if number.isascii() and number.isdigit() and int(number) > 0:
        return int(number)
    raise BackfillError(
        "the chunk", f"{unit[:20]!r} is no size", "Nothing was planned", "Write e.g. 7d, 14, week or month"
    )


def cut(days: DayRange, unit: str, canary: int = 0, order: Order = "ascending") -> tuple[PlanChunk, ...]:
    """The range cut into chunks, in the order in which they are run: every day is in exactly one, but for the boundary
    chunk.

    `canary` days are cut off first, at the end at which the work begins. Weeks begin on Monday, months on the first;
    chunks of N days are counted from the end at which the work begins. The boundary chunk follows where there are
    several.
    """
    size, newest = chunk_days(unit), order == "newest-first"
    ordered = sorted(days, reverse=newest)
    parts = [ordered[:canary]] if canary else []
    parts += _by_calendar(ordered[canary:], size) if isinstance(size, str) else _by_number(ordered[canary:], size)
    chunks = [
        PlanChunk(i, DayRange(min(p), max(p) + ONE_DAY), ChunkKind.CANARY if canary and i == 1 else ChunkKind.CHUNK)
        for i, p in enumerate(parts, 1)
    ]
    if len(chunks) > 1:
        chunks.append(PlanChunk(len(chunks) + 1, days, ChunkKind.BOUNDARY))
    return tuple(chunks)


def _by_number(days: Sequence[date], size: int) -> list[list[date]]:
    return [list(days[i : i + size]) for i in range(0, len(days), size)]


def _by_calendar(days: Sequence[date], unit: str) -> Iterator[list[date]]:
    def place(day: date) -> date:
        """The first day of the week or month."""
        return day - timedelta(days=day.weekday()) if unit == "week" else day.replace(day=1)

    return (list(group) for _, group in groupby(days, place))


def _refuse_unsafe(pipeline: Pipeline, asked: PlanRequest, chunks: Sequence[PlanChunk]) -> None:
    largest = max(len(c.days) for c in chunks if c.kind is not ChunkKind.BOUNDARY)
    if largest > asked.most_days:
        raise BackfillError(
            "the chunk",
            f"{largest} days in one run are more than {asked.most_days}: what is wrong shows late, and is "
            "a large thing to put back",
            "Nothing was planned",
            f"Use --chunk 7d, or say --max-chunk-days {largest} if you mean it",
        )
    if asked.policy.keep_removed and not asked.policy.merges:
        raise BackfillError(
            "--keep-removed", "an overwrite keeps no row of a day", "Nothing was planned",
            "Say --write-mode merge with it, or leave it away",
        )  # fmt: skip
    contracts = [pipeline.table(name).contract for name in asked.tables]
    for contract in contracts if asked.policy.merges else ():
        refuse_merge(contract, contracts)


def refuse_append() -> BackfillError:
    """The error of the write mode `append`, with the incident that it prevents."""
    return BackfillError(
        "the write mode append",
        "rows of a day that is there already would count twice: a backfill by append has doubled three years of sums "
        "while the job succeeded and no alert came",
        "Nothing was planned",
        "Use --write-mode overwrite: each day is replaced as a whole, however often",
    )
