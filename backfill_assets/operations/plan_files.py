"""The plans of a lake as files (`.plans/ID.json`), the marks beside them, and the locks of runners and chunks.

Elsewhere: how far a plan is, which receipts show (`plan_progress`). A mark (`started`, `paused`, `stopped`, `ended`)
holds a plan back or ends it; it never says that a chunk is done. The kernel frees a lock when its process ends.
"""

import contextlib
import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout

from backfill_assets.core.clock import utc_now
from backfill_assets.core.days import DayRange
from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.files import publish
from backfill_assets.lake.home import Lake
from backfill_assets.operations.plan_model import ChunkKind, Plan, PlanChunk, parse_plan, plan_json
from backfill_assets.operations.why import ranges

FOLDER = ".plans"
ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{4}")
Mark = Literal["started", "paused", "stopped", "ended"]
WAITING: tuple[Mark, ...] = ("paused", "stopped")  # for a person
FINISHED, CANCELLED = "finished", "cancelled"  # what `ended` says
PATIENCE_SECONDS = 1.0  # longer than a look whether there is a runner takes


def new_id(now: datetime) -> str:
    """An id for a plan made at that instant: sorts by time, and differs from those of the same second."""
    return f"{now.astimezone(UTC):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:4]}"


def keep_plan(lake: Lake, plan: Plan) -> Path:
    """Write the plan's file atomically; raises BackfillError if it exists."""
    path = _folder(lake) / f"{plan.id}.json"
    if path.exists():
        raise BackfillError(f"the plan {plan.id}", "it is there already", "Nothing was written", "Plan again")
    _write(path, plan_json(plan))
    return path


def find_plan(lake: Lake, named: str) -> Plan:
    """The plan with this id, or the only one whose id begins so; raises BackfillError for none or several."""
    ids = [i for i in plan_ids(lake) if i.startswith(named)] if named else []
    if named in ids:
        ids = [named]
    if len(ids) != 1:
        told = f"{len(ids)} plans begin so" if ids else "this lake has no such plan"
        raise BackfillError(f"the plan {named[:40]!r}", told, "Nothing was done", "See `backfill-assets plan list`")
    return parse_plan((lake.root / FOLDER / f"{ids[0]}.json").read_text(encoding="utf-8"))


def plan_ids(lake: Lake) -> list[str]:
    """The ids of all plans, oldest first."""
    return sorted(p.stem for p in (lake.root / FOLDER).glob("*.json") if ID.fullmatch(p.stem))


def plans(lake: Lake) -> Iterator[Plan]:
    """All plans, oldest first, without files that cannot be read (`find_plan` says why)."""
    for found in plan_ids(lake):
        with contextlib.suppress(BackfillError):
            yield find_plan(lake, found)


@dataclass(frozen=True)
class ChunkPart:
    """The days of a chunk, and the number of the plan's boundary chunk, which may have written some of them again."""

    days: DayRange
    boundary: str


def part_of(lake: Lake, plan_id: str, chunk: str) -> ChunkPart | None:
    """A chunk by the plan's file; None if no chunk is named, the file is gone, or there is no boundary chunk."""
    if not chunk.isdigit() or plan_id not in plan_ids(lake):
        return None
    plan = find_plan(lake, plan_id)
    last = plan.chunks[-1]
    if last.kind is not ChunkKind.BOUNDARY:
        return None
    return ChunkPart(plan.chunk(int(chunk)).days, str(last.number))


def mark(lake: Lake, plan_id: str, name: Mark, told: str = "") -> None:
    """Set a mark with a text; a mark that is set stays as it is."""
    path = _mark(lake, plan_id, name)
    if not path.exists():
        _folder(lake)
        _write(path, json.dumps({"at": utc_now().isoformat(), "told": told}))


def unmark(lake: Lake, plan_id: str, name: Mark) -> None:
    """Remove a mark, if it is set."""
    _mark(lake, plan_id, name).unlink(missing_ok=True)


def marked(lake: Lake, plan_id: str, name: Mark) -> str | None:
    """The text of a mark; None if it is not set."""
    try:
        return str(json.loads(_mark(lake, plan_id, name).read_text(encoding="utf-8"))["told"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return ""


def active_plans(lake: Lake) -> list[Plan]:
    """The plans that were started and neither finished nor cancelled, oldest first. Their days are left to them."""
    folder = lake.root / FOLDER
    started = {p.name.removesuffix(".started") for p in folder.glob("*.started")}
    return [
        find_plan(lake, i)
        for i in sorted(started)
        if (folder / f"{i}.json").exists() and marked(lake, i, "ended") is None
    ]


def days_of_active_plans(lake: Lake) -> dict[str, set[date]]:
    """Per table the days of active plans, which sensors and schedules leave alone."""
    found: dict[str, set[date]] = {}
    for plan in active_plans(lake):
        for table in plan.tables:
            found.setdefault(table, set()).update(plan.days)
    return found


def left_to_plans(planned: Mapping[str, Set[date]], tables: Iterable[str]) -> list[str]:
    """A line per table of `tables` that has days in `planned`."""
    told = "left alone: of an active plan (`backfill-assets plan list`)"
    return [f"{name}: {ranges(planned[name])} {told}" for name in tables if planned.get(name)]


def refuse_overlap(lake: Lake, plan: Plan) -> None:
    """Raise if another active plan has days of the same tables."""
    for other in active_plans(lake):
        shared = sorted(set(other.tables) & set(plan.tables))
        days = sorted(set(other.days) & set(plan.days))
        if other.id != plan.id and shared and days:
            raise BackfillError(
                f"the plan {plan.id}",
                f"the plan {other.id} is active and has {days[0]}..{days[-1]} of {', '.join(shared)}",
                "Nothing was run",
                f"End it first: `backfill-assets run {other.id}`, or `backfill-assets plan cancel {other.id}`",
            )


def _folder(lake: Lake) -> Path:
    folder = lake.root / FOLDER
    folder.mkdir(exist_ok=True)
    return folder


def _mark(lake: Lake, plan_id: str, name: Mark) -> Path:
    return lake.root / FOLDER / f"{plan_id}.{name}"


def _write(path: Path, text: str) -> None:
    aside = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    aside.write_text(text, encoding="utf-8")
    publish(aside, path)


@contextlib.contextmanager
def only_runner(lake: Lake, plan: Plan) -> Iterator[None]:
    """Hold the lock of the plan's runner; raises BackfillError if another process has it."""
    try:
        lock = _runner(lake, plan).acquire(timeout=PATIENCE_SECONDS)
    except Timeout:
        raise BackfillError(
            f"the plan {plan.id}", "another process is running it", "Nothing was started",
            f"Watch it with `backfill-assets plan show {plan.id} --watch`",
        ) from None  # fmt: skip
    with lock:
        yield


def is_running(lake: Lake, plan: Plan) -> bool:
    """Whether a process holds the lock of the plan's runner now."""
    try:
        with _runner(lake, plan).acquire(timeout=0):
            return False
    except Timeout:
        return True


@contextlib.contextmanager
def only_maker(lake: Lake, plan: Plan, chunk: PlanChunk) -> Iterator[None]:
    """Hold the lock of a chunk's maker; waits for a process that is still at it because its runner was killed."""
    with _lock(lake, f"plan-{plan.id}-chunk-{chunk.number}.lock"):
        yield


@contextlib.contextmanager
def telling_stops(lake: Lake, plan: Plan) -> Iterator[None]:
    """Set the mark `stopped` with the error that ends the block, so that a person looks. A kill sets no mark."""
    try:
        yield
    except BaseException as error:
        mark(lake, plan.id, "stopped", str(error) if isinstance(error, Exception) else "it was interrupted")
        raise


def _runner(lake: Lake, plan: Plan) -> FileLock:
    return _lock(lake, f"plan-{plan.id}.lock")


def _lock(lake: Lake, name: str) -> FileLock:
    lake.locks.mkdir(parents=True, exist_ok=True)
    return FileLock(lake.locks / name)
