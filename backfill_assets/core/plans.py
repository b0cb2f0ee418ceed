"""Plans: a range of days of some tables, cut into chunks, with what was pinned and promised when it was made.

Lives here: the frozen value, the cutting into chunks, and the tags by which receipts name plan and chunk. Does not live
here: its JSON (`core.plan_json`), making one from a lake (`operations.plan`), what a chunk's receipts say of it
(`core.plan_states`) and the gate between chunks (`core.plan_gates`). There is no state in it: nothing ever changes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum
from itertools import groupby
from typing import Literal

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.plan_looks import PlanLook

PLAN_TAG, CHUNK_TAG = "plan", "chunk"  # in `Provenance.tags` and `Receipt.tags`: the plan's id, and the chunk's number
PLAN_REASON = "plan"  # the reason of every receipt that a plan's run wrote
MODE_TAG = "write_mode"  # of runs and receipts, where it is not overwrite: `merge`, or that with rows kept
CODE_TAG = "code"  # of runs and receipts of a plan that works by older code: which
MERGE, MERGE_KEEPING = "merge", "merge, removed rows kept"
DAYS_OF_WEEK = 7
MOST_CHUNK_DAYS = 31  # one huge run is one huge thing to put back: a month of days is what a person still looks at

Order = Literal["ascending", "newest-first"]
WriteMode = Literal["overwrite", "merge"]


class ChunkKind(StrEnum):
    """What a chunk is there for."""

    CANARY = "canary"  # the first days, alone: what is wrong everywhere shows here
    CHUNK = "chunk"
    BOUNDARY = "seams"  # last: days of earlier chunks whose inputs later chunks changed (windows reach over the edges)


@dataclass(frozen=True)
class PlanChunk:
    """Contiguous days of all tables of a plan. `number` counts from 1 in the order in which chunks are run.

    Of the last one, of kind `seams`, the days are those of the whole plan; which of them it makes shows when it runs.
    """

    number: int
    days: DayRange
    kind: ChunkKind = ChunkKind.CHUNK


@dataclass(frozen=True)
class Tolerances:
    """How far a day may differ from what it was before a gate stops the plan; None: no bound. All are shares.

    `rows`: relative change of the day's rows (of days with at least 20). `nulls`: rise of a column's NULL share over
    what is usual. `means`: relative change of the mean of a number column. `drift`: population stability index of a
    column against the receipts before the plan (no share; above 0.25 is large), beyond what is chance.
    """

    rows: float | None = 0.5
    nulls: float | None = 0.2
    means: float | None = None
    drift: float | None = None


@dataclass(frozen=True)
class Policy:
    """How a plan is run. `canary` are days (0: none). `on_failure`: a failed gate leaves the chunk as it is, or puts it
    back. `max_parallel` bounds the chunks that run at once. `force`: also days that are known to be right.
    `keep_removed`: a merge keeps rows that the new ones lack; without it, it is refused where there are such."""

    chunk: str = "7d"
    canary: int = 1
    order: Order = "ascending"
    max_parallel: int = 1
    write_mode: WriteMode = "overwrite"
    on_failure: Literal["stop", "rollback"] = "stop"
    retries: int = 0
    force: bool = False
    template: str = ""
    tolerances: Tolerances = field(default_factory=Tolerances)
    keep_removed: bool = False

    @property
    def merges(self) -> bool:
        """Whether days are upserted by key instead of replaced."""
        return self.write_mode == "merge"

    def __post_init__(self) -> None:
        if self.canary < 0 or self.max_parallel < 1 or self.retries < 0:
            raise ValueError(f"canary and retries are at least 0, max_parallel at least 1, got {self}")


@dataclass(frozen=True)
class Pins:
    """What a plan was made with: `codes` and `settings` are digests per table, `versions` table heads (-1: none)."""

    codes: Mapping[str, str]
    settings: Mapping[str, str]
    packages: Mapping[str, str]
    versions: Mapping[str, int]
    as_of: datetime | None = None


@dataclass(frozen=True)
class Price:
    """What a piece of work costs: seconds as expected, at least and at most; rows; bytes. `writes` are the past writes
    that it was learnt from (0: a guess). `cpu` are processor seconds as expected, within the same interval (None:
    no past write tells)."""

    seconds: float
    least: float
    most: float
    rows: int = 0
    bytes: int = 0
    writes: int = 0
    cpu: float | None = None

    def __add__(self, other: "Price") -> "Price":
        """Both together. Learnt from as many writes as the less known of the two."""
        cpu = None if self.cpu is None or other.cpu is None else self.cpu + other.cpu
        return Price(
            self.seconds + other.seconds, self.least + other.least, self.most + other.most,
            self.rows + other.rows, self.bytes + other.bytes, min(self.writes, other.writes), cpu,
        )  # fmt: skip

    @property
    def is_guess(self) -> bool:
        """Whether no past write of this lake tells it."""
        return not self.writes


@dataclass(frozen=True)
class TableImpact:
    """What a plan does to one table: days to write by why, the source days read, and days that follow by themselves.

    `write` holds days inside the range only, each once; `follows` days outside the range, or of tables that the plan
    leaves out, which will be stale once the plan is done. `reads` are input days per table.
    """

    table: str
    key: tuple[str, ...]
    write: Mapping[str, tuple[DayRange, ...]]
    reads: Mapping[str, tuple[DayRange, ...]]
    follows: tuple[DayRange, ...]
    held: tuple[DayRange, ...]
    price: Price | None = None

    def days(self) -> frozenset[date]:
        """All days that the plan writes in this table, whatever the reason."""
        return frozenset(d for spans in self.write.values() for span in spans for d in span)


@dataclass(frozen=True)
class PlanCode:
    """The older code that a plan works by: what was asked for, the commit that this was, `FILE:NAME` of the frozen
    tables and the pattern of the frozen SQL files (empty: none), relative to the lake; a digest over all `files`."""

    ref: str
    commit: str
    tables: str
    sql: str = ""
    digest: str = ""
    files: int = 1

    def __str__(self) -> str:
        return f"{self.ref} ({self.commit[:12]}; {self.files} file(s), digest {self.digest})"


@dataclass(frozen=True)
class PreflightTick:
    """One computed answer of the preflight; `passed` False refuses the run."""

    name: str
    passed: bool
    told: str


@dataclass(frozen=True)
class Plan:
    """A frozen plan. `created` is an aware instant; `reason` and `note` are a person's words for receipts; `prices` are
    those of the writes per chunk."""

    id: str
    created: datetime
    user: str
    days: DayRange
    tables: tuple[str, ...]
    chunks: tuple[PlanChunk, ...]
    policy: Policy
    pins: Pins
    impacts: tuple[TableImpact, ...] = ()
    preflight: tuple[PreflightTick, ...] = ()
    prices: Mapping[int, Price] = field(default_factory=dict)
    reason: str = ""
    note: str = ""
    retention_days: int | None = None
    look: PlanLook | None = None
    code: PlanCode | None = None

    def __post_init__(self) -> None:
        if self.created.tzinfo is None:
            raise ValueError(f"a plan is made at an aware instant, got {self.created}")
        if [c.number for c in self.chunks] != list(range(1, len(self.chunks) + 1)):
            raise ValueError(f"chunks are numbered from 1 without gaps, got {[c.number for c in self.chunks]}")

    @property
    def nothing_to_do(self) -> str:
        """That none of its days needs anything, in a line; empty where some do, or are held by a rollback."""
        if any(i.days() or i.held for i in self.impacts if i.table in self.tables):
            return ""
        return f"nothing to do: {self.days} of {', '.join(self.tables)} need nothing (--force makes them all the same)"

    def chunk(self, number: int) -> PlanChunk:
        """The chunk of that number; raises BackfillError where there is none."""
        if 1 <= number <= len(self.chunks):
            return self.chunks[number - 1]
        raise BackfillError(
            f"the plan {self.id}", f"it has no chunk {number}", "Nothing was done",
            f"Name one of 1 to {len(self.chunks)}",
        )  # fmt: skip

    def waves(self) -> list[tuple[PlanChunk, ...]]:
        """The chunks that may run at once, in order: canary and seams alone, the others at most `max_parallel`."""
        alone = [(c,) for c in self.chunks if c.kind is ChunkKind.CANARY]
        last = [(c,) for c in self.chunks if c.kind is ChunkKind.BOUNDARY]
        others, most = [c for c in self.chunks if c.kind is ChunkKind.CHUNK], self.policy.max_parallel
        return [*alone, *(tuple(others[i : i + most]) for i in range(0, len(others), most)), *last]

    def impact(self, table: str) -> TableImpact:
        """What it does to a table; raises KeyError."""
        return {i.table: i for i in self.impacts}[table]

    def tags(self, chunk: PlanChunk) -> dict[str, str]:
        """The tags of every receipt that a run of the chunk writes."""
        mode = {MODE_TAG: MERGE_KEEPING if self.policy.keep_removed else MERGE} if self.policy.merges else {}
        code = {CODE_TAG: str(self.code)} if self.code is not None else {}
        return {PLAN_TAG: self.id, CHUNK_TAG: str(chunk.number), **mode, **code}


def mode_of(tags: Mapping[str, str]) -> str:
    """How a run with these tags changes days: "" (each is replaced as a whole), `MERGE` or `MERGE_KEEPING`.

    Raises BackfillError for any other word.
    """
    told = tags.get(MODE_TAG, "")
    if told not in ("", MERGE, MERGE_KEEPING):
        raise BackfillError(
            f"the tag {MODE_TAG}", f"{told[:40]!r} is no way to write", "Nothing was written",
            "Make a plan: `backfill-assets plan --write-mode merge`",
        )  # fmt: skip
    return told


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
    """The range cut into chunks, in the order in which they are run: every day is in exactly one, but for the seams.

    `canary` days are cut off first, at the end at which the work begins. Weeks begin on Monday, months on the first;
    chunks of N days are counted from the end at which the work begins. More than one chunk is followed by the seams.
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
