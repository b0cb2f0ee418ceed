"""What a plan costs besides its writes: opening the engine, and the time between the runs of its chunks.

Lives here: both as past receipts of this lake tell them, promised before and measured afterwards by the same rules.
Does not live here: the price of writes (`plan_price`). Receipts name the seconds in which a write waited for its
engine; between runs lies what no write is charged with: a run's start, its looks at receipts, the gate, Dagster's own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from backfill_assets.core.plans import BETWEEN, PLAN_TAG, START, ChunkKind, PlanChunk, Price
from backfill_assets.engine.confs import OWN_SERVERS
from backfill_assets.engine.server import server_status
from backfill_assets.lake.home import Lake
from backfill_assets.lake.store import Commit

GUESS_START_SECONDS, GUESS_OPEN_SECONDS, GUESS_BETWEEN_SECONDS = 20.0, 2.0, 2.0  # a machine with two cores
GUESS_FACTOR = 4.0  # how far a guess may be off, both ways
LEAST_FACTOR = 1.5  # few measurements show less than all of the scatter
COLD_SECONDS = 5.0  # an engine that took longer had to be started; else it was up, and only had to be found
PAUSE_SECONDS = 120.0  # between two runs: longer than that, someone had stopped the plan, or looked at it
NEWEST = 40  # older ones tell of another machine


@dataclass(frozen=True)
class Run:
    """One run, as its receipts show it: when its first write began and its last one ended (seconds since 1970), the
    seconds of all its writes, and those of them in which it waited for an engine (None: no receipt tells)."""

    id: str
    plan: str
    began: float
    ended: float
    worked: float
    started: float | None


def runs_of(logs: Iterable[Sequence[Commit]]) -> list[Run]:
    """All runs that wrote something, by when they began."""
    found: dict[str, list[Commit]] = {}
    for log in logs:
        for commit in log:
            if commit.receipt is not None and commit.receipt.seconds is not None and commit.receipt.run_id:
                found.setdefault(commit.receipt.run_id, []).append(commit)
    return sorted((_run(commits) for commits in found.values()), key=lambda run: run.began)


def _run(commits: Sequence[Commit]) -> Run:
    told = [(c.timestamp_ms / 1000, c.receipt) for c in commits if c.receipt is not None]
    starts = [r.start_seconds for _, r in told if r.start_seconds is not None]
    return Run(
        told[0][1].run_id,
        told[0][1].tags.get(PLAN_TAG, ""),
        min(at - (r.seconds or 0.0) for at, r in told),
        max(at for at, _ in told),
        sum(r.seconds or 0.0 for _, r in told),
        sum(starts) if starts else None,
    )


def is_up(lake: Lake) -> bool:
    """Whether the lake's own engine runs now; of any other nobody knows."""
    return lake.settings.spark.engine in OWN_SERVERS and server_status(lake.root) is not None


def besides(
    runs: Sequence[Run], chunks: Sequence[PlanChunk], at_once: int, up: bool, tables: int = 1
) -> dict[str, Price]:
    """The price of opening the engine, once or, where chunks are made at once, by each of them, and of the time between
    the runs of chunks, of which the seams have one per table.

    Of an engine that is `up` nobody knows whether it still is when the plan runs, nor of one that is down: the least is
    that it is, the most that it has to be started.
    """
    openings, waves = len(chunks) if at_once > 1 else 1, -(-len(chunks) // at_once)
    waves += tables - 1 if chunks[-1].kind is ChunkKind.SEAMS else 0
    starts = [r.started for r in runs if r.started][-NEWEST:]
    cold = _learnt([s for s in starts if s >= COLD_SECONDS], GUESS_START_SECONDS)
    warm = _learnt([s for s in starts if s < COLD_SECONDS], GUESS_OPEN_SECONDS)
    more = _times(warm, openings - 1)
    first = warm if up else cold
    start = Price(first.seconds + more.seconds, warm.least + more.least, cold.most + more.most, writes=first.writes)
    return {START: start, BETWEEN: _times(_learnt(between(runs)[-NEWEST:], GUESS_BETWEEN_SECONDS), waves)}


def between(runs: Sequence[Run]) -> list[float]:
    """Per run of a plan that another one followed: the seconds that no write took, until that one's first write began.

    Runs at once have none of their own; of pauses nothing is said.
    """
    found = []
    for plan in {r.plan for r in runs if r.plan}:
        mine = [r for r in runs if r.plan == plan]
        for run, following in pairwise(mine):
            gap = following.began - run.ended
            if 0 <= gap < PAUSE_SECONDS:
                found.append(gap + max(run.ended - run.began - run.worked, 0.0))
    return found


def took(runs: Sequence[Run], plan: str) -> Mapping[str, float]:
    """The same of one plan, measured: only what its receipts tell is in it."""
    mine = [r for r in runs if r.plan == plan]
    starts = [r.started for r in mine if r.started is not None]
    gaps = between(mine)
    return ({START: sum(starts)} if starts else {}) | ({BETWEEN: sum(gaps)} if gaps else {})


def _learnt(seen: Sequence[float], guess: float) -> Price:
    """The price of one, from those that were seen."""
    if not seen:
        return Price(guess, guess / GUESS_FACTOR, guess * GUESS_FACTOR)
    unsure = LEAST_FACTOR + (GUESS_FACTOR - LEAST_FACTOR) / (1 + len(seen))
    return Price(median(seen), min(seen) / unsure, max(seen) * unsure, writes=len(seen))


def _times(one: Price, number: int) -> Price:
    """So many of it."""
    return Price(one.seconds * number, one.least * number, one.most * number, writes=one.writes)
