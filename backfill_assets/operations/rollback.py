"""Rollback of a plan, a chunk of it, or days of a table: which days go to which versions by receipts; and release.

Elsewhere: files and commits (`lake.restore`), words in receipts and days that become stale (`core.rollbacks`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from backfill_assets.core.contracts import Contract
from backfill_assets.core.days import DayRange, contiguous
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.plans import CHUNK_TAG, PLAN_TAG
from backfill_assets.core.receipts import Built, Receipt
from backfill_assets.core.rollbacks import RELEASE, ROLLBACK, stale_after
from backfill_assets.core.states import States
from backfill_assets.lake import restore
from backfill_assets.lake.home import Lake
from backfill_assets.lake.log import Commit
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.replace import Provenance
from backfill_assets.lake.restore import PreparedRestore, RestoreRequest
from backfill_assets.lake.view import read_view
from backfill_assets.operations.plan_files import ChunkPart, part_of
from backfill_assets.operations.why import ranges

UNDOING = (ROLLBACK, RELEASE)


@dataclass(frozen=True)
class RollbackRequest:
    """A `plan` (or one `chunk` of it), or `days` of `table` to `to_version`; `over_newer`: also days that another run
    wrote since."""

    plan: str = ""
    chunk: str = ""
    table: str = ""
    days: DayRange | None = None
    to_version: int | None = None
    over_newer: bool = False
    note: str = ""

    @property
    def tags(self) -> dict[str, str]:
        """The tags of its receipts, without the version."""
        return ({PLAN_TAG: self.plan} if self.plan else {}) | ({CHUNK_TAG: self.chunk} if self.chunk else {})


@dataclass(frozen=True)
class TableRollback:
    """One table of a rollback: the prepared restore, and the version of its commit (None: not committed)."""

    prepared: PreparedRestore
    version: int | None = None

    @property
    def table(self) -> str:
        """The table's name."""
        return self.prepared.contract.name

    def to_dict(self) -> dict[str, Any]:
        """The table as JSON values."""
        found = self.prepared
        days = [
            {
                "day": str(d), "to_version": found.targets[d], "rows": found.now[d].entry.rows,
                "fingerprint": found.now[d].entry.fingerprint, "rows_then": entry.rows,
                "fingerprint_then": entry.fingerprint,
            }
            for d, entry in found.entries.items()
        ]  # fmt: skip
        return {
            "table": self.table, "version": self.version, "days": days, "files_back": len(found.adds),
            "files_out": len(found.removes), "bytes_back": sum(f.size for f in found.adds),
        }  # fmt: skip


@dataclass(frozen=True)
class RollbackReport:
    """A rollback, previewed or done. `stale` are other days, per table, that it makes stale; `untouched` are landed
    tables that the plan wrote, which no rollback changes."""

    tables: tuple[TableRollback, ...]
    stale: Mapping[str, frozenset[date]] = field(default_factory=dict)
    untouched: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether anything was written."""
        return any(t.version is not None for t in self.tables)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values; days as ranges, both ends included."""
        return {
            "done": self.is_done,
            "tables": [t.to_dict() for t in self.tables],
            "stale": {
                name: [{"from": str(r.start), "to": str(r.last)} for r in contiguous(days)]
                for name, days in self.stale.items()
            },
            "untouched": list(self.untouched),
        }


def preview(lake: Lake, pipeline: Pipeline, asked: RollbackRequest) -> RollbackReport:
    """Find what the rollback would do; writes nothing. Raises BackfillError with the reason if it cannot be done."""
    chosen, untouched = _chosen(lake, pipeline, asked)
    states = pipeline.states(read_view(lake, pipeline.contracts))
    for wanted in chosen if not asked.over_newer else ():
        _refuse_foreign(states, wanted)
    prepared = [restore.prepare_restore(lake, wanted) for wanted in chosen]
    moving = [p for p in prepared if p.entries]
    stale = stale_after(states, {p.contract.name: p.entries for p in moving}) if moving else {}
    return RollbackReport(tuple(TableRollback(p) for p in moving), stale, untouched)


def roll_back(lake: Lake, pipeline: Pipeline, asked: RollbackRequest, said: Provenance) -> RollbackReport:
    """Roll back in one commit per table, the last table first, so that no run reads days that are about to go.

    Previews everything before the first commit. After a kill, the same call does the rest.
    """
    found = preview(lake, pipeline, asked)
    signed = replace(said, note=asked.note or said.note, tags={**(said.tags or {}), **asked.tags})
    done: dict[str, int | None] = {}
    for table in reversed(found.tables):
        prepared = table.prepared
        seen = {d: stamp.version for d, stamp in prepared.now.items()}
        done[table.table] = restore.restore_partitions(
            lake, RestoreRequest(prepared.contract, prepared.targets, seen), signed
        )
    return replace(found, tables=tuple(replace(t, version=done[t.table]) for t in found.tables))


def release(
    lake: Lake, pipeline: Pipeline, asked: RollbackRequest, said: Provenance, act: bool = True
) -> dict[str, tuple[date, ...]]:
    """Release held days: those that a rollback of the plan (and chunk) put back, or `days` of `table`; gives them per
    table. Only lists them unless `act`. Raises BackfillError if there are none."""
    states = pipeline.states(read_view(lake, pipeline.contracts))
    found = {c.name: _held(lake, states, c, asked) for c in _contracts(pipeline, asked)}
    found = {name: days for name, days in found.items() if days}
    if not found:
        raise BackfillError(
            _named(asked), "none of its days is held", "Nothing was done", "`backfill-assets status` shows held days"
        )
    signed = replace(said, note=asked.note or said.note, tags={**(said.tags or {}), **asked.tags})
    for contract in pipeline.contracts if act else ():
        if contract.name in found:
            restore.release_partitions(lake, contract, found[contract.name], signed)
    return {name: tuple(days) for name, days in found.items()}


def _held(lake: Lake, states: States, contract: Contract, asked: RollbackRequest) -> list[date]:
    stamps = states.view.table(contract.name).stamps
    held = sorted(d for d, s in stamps.items() if s.entry.built is Built.HELD)
    if not asked.plan or not held:
        return [d for d in held if asked.days is None or d in asked.days]
    by_version = {c.version: c.receipt for c in lake.store.commits(contract.name)}
    return [d for d in held if (said := by_version[stamps[d].version]) is not None and _is_of(said, asked)]


def _chosen(lake: Lake, pipeline: Pipeline, asked: RollbackRequest) -> tuple[list[RestoreRequest], tuple[str, ...]]:
    """The restores, upstream first; and the landed tables that the plan wrote."""
    chosen, untouched, wrote, part = [], [], False, part_of(lake, asked.plan, asked.chunk)
    for contract in _contracts(pipeline, asked):
        history = [c for c in lake.store.commits(contract.name) if c.receipt is not None]
        if asked.plan and not any(_is_of(_said(c), asked) or _is_of_boundary(_said(c), asked, part) for c in history):
            continue
        wrote = True
        if asked.plan and contract.is_landed:
            untouched.append(contract.name)
            continue
        _refuse_future(contract, history, asked)
        choice = _choice(contract, history, asked, part)
        if choice.targets:
            chosen.append(choice)
    if not wrote:
        raise BackfillError(
            _named(asked), "no receipt names it", "Nothing was put back", "`backfill-assets audit` lists all writes"
        )
    return chosen, tuple(untouched)


def _refuse_future(contract: Contract, history: Sequence[Commit], asked: RollbackRequest) -> None:
    head = history[-1].version if history else -1
    if asked.to_version is not None and asked.to_version > head:
        raise BackfillError(
            f"the table {contract.name}",
            f"it has no version {asked.to_version}: its newest is {head}",
            "Nothing was put back",
            f"`backfill-assets audit --table {contract.name}` lists all writes",
        )


def _contracts(pipeline: Pipeline, asked: RollbackRequest) -> list[Contract]:
    """The contract of the named table, or all; raises BackfillError for an unknown table."""
    return [pipeline.contract(asked.table, "Nothing was done")] if asked.table else list(pipeline.contracts)


def _choice(
    contract: Contract, history: Sequence[Commit], asked: RollbackRequest, part: ChunkPart | None
) -> RestoreRequest:
    targets, seen, newer = {}, {}, dict[date, Commit]()
    for day, writes in _by_day(history, asked).items():
        mine = part if part is not None and day in part.days else None
        undone = _of_plan(writes, asked, mine) if asked.plan else _after(writes, asked.to_version)
        if not undone:
            continue
        targets[day] = undone[0].version - 1 if asked.to_version is None else asked.to_version
        seen[day] = writes[-1].version
        others = [c for c in writes if c.version > undone[-1].version and _said(c).reason not in UNDOING]
        if others:
            newer[day] = others[-1]
    if newer and not asked.over_newer:
        raise _written_since(contract, newer)
    return RestoreRequest(contract, targets, seen)


def _by_day(history: Iterable[Commit], asked: RollbackRequest) -> dict[date, list[Commit]]:
    """The writes of every day of the request, ascending."""
    found: dict[date, list[Commit]] = {}
    for commit in history:
        for day in _said(commit).days:
            if asked.days is None or day in asked.days:
                found.setdefault(day, []).append(commit)
    return found


def _of_plan(writes: Sequence[Commit], asked: RollbackRequest, part: ChunkPart | None) -> list[Commit]:
    """The plan's newest unbroken series of writes of a day; none if it was put back already. The boundary chunk's
    writes of a chunk's day belong to that chunk (`part`)."""
    found: list[Commit] = []
    for commit in reversed(writes):
        said = _said(commit)
        if not _is_of(said, asked) and not _is_of_boundary(said, asked, part):
            if found:
                break
        elif said.reason in UNDOING:
            break
        else:
            found.insert(0, commit)
    return found


def _after(writes: Sequence[Commit], version: int | None) -> list[Commit]:
    """The first write of a day after a version, with those of the same run that follow it."""
    later = [c for c in writes if version is not None and c.version > version]
    return [c for c in later if c is later[0] or (_said(c).run_id and _said(c).run_id == _said(later[0]).run_id)]


def _is_of(said: Receipt, asked: RollbackRequest) -> bool:
    return said.tags.get(PLAN_TAG) == asked.plan and asked.chunk in ("", said.tags.get(CHUNK_TAG))


def _is_of_boundary(said: Receipt, asked: RollbackRequest, part: ChunkPart | None) -> bool:
    """Whether the boundary chunk wrote days of this part of the plan; it may be the only one that did."""
    if part is None or said.tags.get(PLAN_TAG) != asked.plan or said.tags.get(CHUNK_TAG) != part.boundary:
        return False
    return any(d in part.days for d in said.days)


def _said(commit: Commit) -> Receipt:
    if commit.receipt is None:
        raise ValueError(f"version {commit.version} has no receipt")
    return commit.receipt


def _named(asked: RollbackRequest) -> str:
    if asked.plan:
        return f"the plan {asked.plan}" + (f", chunk {asked.chunk}" if asked.chunk else "")
    return f"the table {asked.table}" + (f", {asked.days}" if asked.days else "")


def _refuse_foreign(states: States, wanted: RestoreRequest) -> None:
    foreign = states.view.table(wanted.contract.name).foreign & set(wanted.targets)
    if foreign:
        raise BackfillError(
            f"the table {wanted.contract.name}",
            f"{ranges(foreign)} written since by a program that leaves no receipt",
            "Nothing was put back",
            "If that is to be undone too, add --over-newer",
        )


def _written_since(contract: Contract, newer: Mapping[date, Commit]) -> BackfillError:
    first = min(newer)
    by = _said(newer[first])
    return BackfillError(
        f"the table {contract.name}",
        f"{ranges(newer)} written since by another run: {first} as version {newer[first].version} ({by.reason}"
        + (f", run {by.run_id[:8]})" if by.run_id else ")"),
        "Nothing was put back",
        f"Look with `backfill-assets show {contract.name} {first}`; if that is to be undone too, add --over-newer",
    )
