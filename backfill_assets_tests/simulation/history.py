"""What must hold of all that was written and read in a story, while it went on.

Here: readers saw what stands together, and each commit was made from what its receipt names, by
newer inputs than the commit before it, and not over days that are held. Not here: what must hold in
the end (`judge`).
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache, partial
from typing import Any

from deltalake.exceptions import DeltaError

from backfill_assets.intake.ledger import ARRIVALS, FILES
from backfill_assets.kernel.core.plans import CHUNK_TAG, PLAN_TAG, PUBLISH, RELEASE, ROLLBACK
from backfill_assets.kernel.core.receipts import Built, Receipt
from backfill_assets.kernel.core.view import NO_VERSION
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.simulation.engine import Row, made_rows, rows_at
from backfill_assets_tests.simulation.world import RAW, Opened, Reading, World

UNDOING = (ROLLBACK, RELEASE)


@dataclass
class Violation(Exception):
    """Something that must hold does not."""

    what: str

    def __str__(self) -> str:
        return self.what


def refuse(is_wrong: object, what: str) -> None:
    """Raise Violation if that is so."""
    if is_wrong:
        raise Violation(what)


def values_of(rows: Sequence[Row]) -> dict[object, int]:
    """The number of each day; a day with several rows has none that is right."""
    found = dict[object, int]()
    for row in rows:
        of = next(value for name, value in row.items() if name.endswith("_date"))
        found[of] = -1 if of in found else row["value"]
    return found


def judge_readings(world: World, opened: Opened) -> None:
    """Each reader saw what an entry of the lake's log says, and nothing of a run that went on; of a
    rollback or publication all or nothing."""
    lake, pipeline = opened
    entries = dict(_entries(world))
    switches = _switches(lake, world.tables)
    runs = _commits_of_runs(lake, world.tables)
    columns = {c.name: c.day_column for c in pipeline.contracts}
    inputs_of = cache(lambda table, v: lake.store.view(table, columns[table], v).inputs)
    for reading in (*world.readings, *_shown_by(entries)):
        told = [entries[n] for n in range(reading.before, reading.after + 1) if n in entries]
        known = [e["tables"] for e in told] + [e.get("held", {}).get("then", {}) for e in told]
        refuse(reading.seen not in known, f"a reader saw {reading.seen}, which no entry says")
        for table in columns.keys() & reading.seen.keys():
            inputs = inputs_of(table, reading.seen[table])
            for above, version in inputs.items():
                is_behind = version > reading.seen.get(above, version)
                refuse(is_behind, f"a reader saw {table} of {above} v{version}: {reading.seen}")
        for run_id in reading.running:
            early = _seen_of(reading, runs.get(run_id, {}))
            refuse(early, f"a reader saw {early} of {run_id}, which went on")
        for name, commits in switches.items():
            taken = _seen_of(reading, commits)
            refuse(taken and taken != commits, f"a reader saw {taken} of {name}: {commits}")


def _shown_by(entries: Mapping[int, Mapping[str, Any]]) -> Iterator[Reading]:
    """What a reader would have seen by each entry, while it was the newest and once its runs had
    ended."""
    for number, entry in entries.items():
        held = entry.get("held", {}).get("then", {})
        for seen in (entry["tables"], held):
            if seen:
                yield Reading(seen, {}, number, number, frozenset())


def _seen_of(reading: Reading, commits: Mapping[str, int]) -> dict[str, int]:
    """Those of these commits that a reader saw."""
    return {table: v for table, v in commits.items() if v <= reading.seen.get(table, NO_VERSION)}


def _entries(world: World) -> Iterator[tuple[int, dict[str, Any]]]:
    for name, content in world.entries.items():
        yield int(name.rpartition("/")[2].removesuffix(".json")), json.loads(content)


def _receipts(lake: Lake, table: str) -> list[tuple[int, Receipt]]:
    return [(c.version, c.receipt) for c in lake.store.commits(table) if c.receipt is not None]


def _commits_of_runs(lake: Lake, tables: Iterable[str]) -> dict[str, dict[str, int]]:
    """The first commit of each run to each table."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for table in tables:
        for version, receipt in _receipts(lake, table):
            found[receipt.run_id].setdefault(table, version)
    return found


def _switches(lake: Lake, tables: Iterable[str]) -> dict[str, dict[str, int]]:
    """The commits of each publication and rollback of several tables that wrote each of them
    once."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    again = set[str]()
    for table in tables:
        for version, receipt in _receipts(lake, table):
            tags = receipt.tags
            if receipt.reason in (PUBLISH, ROLLBACK) and PLAN_TAG in tags:
                name = f"{receipt.reason} {tags[PLAN_TAG]} {tags.get(CHUNK_TAG, '')}"
                again |= {name} & {n for n in found if table in found[n]}
                found[name][table] = version
    return {name: commits for name, commits in found.items() if name not in again}


@dataclass
class _History:
    """The commits of one table, and the versions of what it is made from."""

    lake: Lake
    table: str
    above: str
    rows: Callable[[str, int], list[Row]]  # of a version of a table
    newest: dict[date, tuple[int, Receipt]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.head = self.lake.store.head(self.above)

    def made(self, version: int, of: date, code: int) -> int:
        """What a day is when it is made from a version of the input."""
        return made_rows({self.above: self.rows(self.above, version)}, [of], code)[of]

    def judge(self, version: int, receipt: Receipt) -> None:
        """Hold a commit against those before it."""
        found = values_of(self.rows(self.table, version))
        says = f"{self.table} v{version} ({receipt.reason})"
        for of, entry in receipt.days.items():
            before = self.newest.get(of)
            if before is not None:
                was_held = before[1].days[of].built is Built.HELD
                is_over = was_held and receipt.reason not in UNDOING
                refuse(is_over, f"{says} is written over {of}, which was held")
            if entry.built is Built.COMPLETE and receipt.reason not in UNDOING:
                self._judge_day(says, receipt, of, found.get(of))
                self._judge_order(says, receipt, of, before)
            self.newest[of] = version, receipt

    def _judge_day(self, says: str, receipt: Receipt, of: date, found: int | None) -> None:
        refuse(self.above not in receipt.inputs, f"{says} does not say from which {self.above}")
        named = receipt.inputs[self.above]
        again = self.made(named, of, _code(receipt))
        refuse(found != again, f"{says} holds {found} on {of}; {self.above} v{named} gives {again}")

    def _judge_order(
        self, says: str, receipt: Receipt, of: date, before: tuple[int, Receipt] | None
    ) -> None:
        """What was made from older inputs is written over newer only where it is the same."""
        if before is None or self.above not in before[1].inputs:
            return
        older, newer = receipt.inputs[self.above], before[1].inputs[self.above]
        if older >= newer or before[1].reason in UNDOING:
            return
        code = _code(receipt)
        value = self.made(older, of, code)
        later = {self.made(v, of, code) for v in range(newer, self.head + 1)}
        refuse(value not in later, f"{says} of v{older} is written over {of} of v{newer}")


def _kept_rows(lake: Lake, table: str, version: int) -> list[Row]:
    """The rows of a version for which a rollback is promised."""
    try:
        return rows_at(lake, table, version)
    except (OSError, DeltaError) as error:
        raise Violation(f"{table} v{version} cannot be read any more: {error}") from error


def _code(receipt: Receipt) -> int:
    return int(receipt.code_digest.removeprefix("code-"))


def judge_logs(opened: Opened) -> None:
    """No write is in a log twice, and what the package knows of days, by kept states and by
    commits, is what all commits say, read from the first one on."""
    lake, pipeline = opened
    for contract in (*pipeline.contracts, ARRIVALS, FILES):
        receipts = _receipts(lake, contract.name)
        writes = Counter(receipt.write_id for _, receipt in receipts)
        again = [write for write, times in writes.items() if times > 1]
        refuse(again, f"{contract.name} has the writes {again} twice")
        said = {of: version for version, receipt in receipts for of in receipt.days}
        latest = lake.store.view(contract.name, contract.day_column).latest
        known = {of: latest[of].version for of in latest}
        wrong = sorted(of for of in said.keys() | known.keys() if said.get(of) != known.get(of))
        what = f"{contract.name} {wrong[:1]} is known by {known}, and commits say {said}"
        refuse(wrong, what)


def judge_writes(world: World, opened: Opened) -> None:
    """Each day that is made again from the inputs that its receipt names is the same, and what
    readers saw by each lake version of the last months can be read again. Where an entity was
    erased, the rows of older versions are gone."""
    if world.forgotten:
        return
    lake, pipeline = opened
    rows = cache(partial(_kept_rows, lake))
    for table in (c.name for c in pipeline.contracts if c.name != RAW):
        (above,) = (wanted.table for wanted in pipeline.table(table).contract.inputs)
        history = _History(lake, table, above, rows)
        for version, receipt in _receipts(lake, table):
            history.judge(version, receipt)
    for table, version in sorted(_shown_versions(world)):
        rows(table, version)


def _shown_versions(world: World) -> set[tuple[str, int]]:
    """The versions of tables that a lake version named."""
    tables = (RAW, *world.tables)
    entries = [entry["tables"] for _, entry in _entries(world)]
    named = {(table, seen.get(table, NO_VERSION)) for seen in entries for table in tables}
    return {(table, version) for table, version in named if version != NO_VERSION}
