"""DuckDB on the machines of an engine elsewhere: it counts there what engines may count otherwise,
so that no row passes this process.

Not here: how machines are given work (`machines`), the engine's own counting, and who is chosen
(`auditor`).
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from backfill_assets.engines.engine_sql import Found
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.profiles import DayProfile
from backfill_assets.kernel.core.readings import Sets
from backfill_assets.kernel.tables.embedded import AT_ONCE, duckdb_cursor, rows_query
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.staging import Staged, StagedFile
from backfill_assets.kernel.write.audit import Profiles, audit_files, audit_table
from backfill_assets.kernel.write.session import Auditor, DuckDBAuditor, Session

TASK_BYTES = 128 << 20  # of files that a task fetches, unless one day has more
Sides = tuple[tuple[StagedFile, ...], ...]  # files of one table


@dataclass(frozen=True)
class MachinesAuditor:
    """The auditor by which DuckDB counts in tasks on the engine's machines; where these cannot, in
    this process. `rows` is the auditor that is asked for what no rule decides: rows that an upsert
    keeps, rows by a column."""

    session: Session
    rows: Auditor
    task_bytes: int = TASK_BYTES

    def profiles(self, contract: Contract, staged: Staged, parts: Sets) -> Profiles:
        """As the port says; the tasks take the digests of the files as well."""
        groups, lake = self._groups(contract, staged.files), self.session.lake
        items = [(lake, contract, side, dict(parts)) for (side,) in groups]
        found = self._answers(profiles_there, items, contract, total_bytes(staged.files))
        if found is None:
            return DuckDBAuditor(lake).profiles(contract, staged, parts)
        digests, profiles = dict[str, str](), dict[date | None, DayProfile]()
        for by_day, by_name in found:
            profiles |= {day: DayProfile(**figures) for day, figures in by_day.items()}
            digests |= by_name
        staged.files = tuple(replace(f, engine_digest=digests[f.name]) for f in staged.files)
        return profiles

    def _answers(
        self, work: Callable[[Any, str], Any], items: Sequence[Any], contract: Contract, size: int
    ) -> list[Any] | None:
        what = f"the audit of {contract.name}"
        return self.session.answers_there(work, items, what, size) if items else []

    def _groups(self, contract: Contract, *sides: Sequence[StagedFile]) -> list[Sides]:
        return file_groups(contract, *sides, task_bytes=self.task_bytes)

    def keep_rows(
        self, contract: Contract, staged: Staged, version: int, days: Sequence[date]
    ) -> dict[date, int]:
        """As the port says."""
        return self.rows.keep_rows(contract, staged, version, days)

    def answers(
        self,
        contract: Contract,
        query: Callable[..., str],
        *sides: Sequence[StagedFile],
        where: str = "true",
        at_once: int = AT_ONCE,
    ) -> Iterator[Found]:
        """As the port says: once for the days of each task, whatever `at_once` says."""
        text = query(*(f"SELECT * FROM side_{n} WHERE {where}" for n in range(len(sides))))
        items = [
            (self.session.lake, contract, group, text) for group in self._groups(contract, *sides)
        ]
        size = sum(map(total_bytes, sides))
        found = self._answers(answer_there, items, contract, size)
        if found is None:
            here = DuckDBAuditor(self.session.lake)
            yield from here.answers(contract, query, *sides, where=where, at_once=at_once)
            return
        for names, rows in found:
            yield names, [tuple(row) for row in rows]

    def rows_by(self, contract: Contract, staged: Staged, column: str) -> list[tuple[Any, ...]]:
        """As the port says."""
        return self.rows.rows_by(contract, staged, column)


def profiles_of_version(
    session: Session,
    contract: Contract,
    version: int | None,
    days: Collection[date],
    *,
    altered: bool = False,
) -> dict[date, DayProfile]:
    """The figures of days of a table at a version (None: the newest), counted anew from its files
    by DuckDB: on the engine's machines where these read them sooner, else here. `altered`: accept
    files of any size."""
    lake = session.lake
    auditor, files = _machines_of(session, contract, version, days, altered=altered)
    if auditor is None or not files:
        found = audit_table(lake, contract, version, days, altered)
    else:
        found = auditor.profiles(contract, Staged("", lake.place, files[0].table, files), {})
    return {day: profile for day, profile in found.items() if day is not None and day in days}


def whole_answer(
    session: Session,
    contract: Contract,
    version: int,
    days: Collection[date],
    query: Callable[[str], str],
) -> list[tuple[Any, ...]]:
    """The rows of a DuckDB query over all rows of days of a table at a version together, asked
    where `profiles_of_version` would count. `query` gets a query for these rows."""
    auditor, files = _machines_of(session, contract, version, days)
    if auditor is not None:
        whole = replace(auditor, task_bytes=total_bytes(files) + 1)
        return [row for _, rows in whole.answers(contract, query, files) for row in rows]
    here = session.lake.store.data_files(contract, version, days)
    with duckdb_cursor(session.lake) as engine:
        return engine.execute(query(rows_query(here, contract))).fetchall()


def _machines_of(
    session: Session,
    contract: Contract,
    version: int | None,
    days: Collection[date],
    *,
    altered: bool = False,
) -> tuple[MachinesAuditor | None, tuple[StagedFile, ...]]:
    """The auditor of days of a table by the machines of an engine elsewhere, and their files; None
    where this process is to read them."""
    if session.computes_here:
        return None, ()
    files = session.lake.store.files(contract, version, days, altered=altered)
    auditor = session.auditor(contract, files, is_duckdbs=True)
    return (auditor if isinstance(auditor, MachinesAuditor) else None), tuple(files)


def total_bytes(files: Iterable[StagedFile]) -> int:
    """The bytes of all these files."""
    return sum(file.size for file in files)


def file_groups(
    contract: Contract, *sides: Sequence[StagedFile], task_bytes: int = TASK_BYTES
) -> list[Sides]:
    """The files of some sides of a table in groups, each of which has every file of its days; all
    files are one group where any may hold a day. A group has about so many bytes of files."""
    if not contract.is_by_day:
        return [tuple(map(tuple, sides))] if any(sides) else []
    by_day = defaultdict[str, list[tuple[int, StagedFile]]](list)
    for number, side in enumerate(sides):
        for file in side:
            by_day[file.partition or ""].append((number, file))
    groups, group, size = list[Sides](), list[tuple[int, StagedFile]](), 0
    for day in sorted(by_day):
        size += sum(file.size for _, file in by_day[day])
        group += by_day[day]
        if size >= task_bytes:
            groups.append(_parted(group, len(sides)))
            group, size = [], 0
    return [*groups, *([_parted(group, len(sides))] if group else [])]


def _parted(group: Sequence[tuple[int, StagedFile]], sides: int) -> Sides:
    return tuple(tuple(f for number, f in group if number == side) for side in range(sides))


def copied_there(files: Sequence[StagedFile], folder: str) -> list[StagedFile]:
    """Files whose copies lie in a folder of this machine."""
    return [replace(f, table=f.table.keeping_copies(folder)) for f in files]


def lake_there(lake: Lake, folder: str) -> Lake:
    """A lake for DuckDB, which spills into a folder of this machine; its places are none."""
    return replace(lake, root=Path(folder))


def profiles_there(
    item: tuple[Lake, Contract, Sequence[StagedFile], Sets], folder: str
) -> tuple[dict[date | None, dict[str, Any]], dict[str, str]]:
    """Work of a task: the figures of the days in some files, and the digests of these."""
    lake, contract, files, parts = item
    here = copied_there(files, folder)
    found = audit_files(lake_there(lake, folder), [f.path for f in here], contract, parts)
    return {day: vars(p) for day, p in found.items()}, {f.name: f.digest() for f in here}


def answer_there(item: tuple[Lake, Contract, Sides, str], folder: str) -> Found:
    """Work of a task: the names and rows of a query over the rows of some files, which it calls
    `side_0` and so on."""
    lake, contract, sides, text = item
    with duckdb_cursor(lake_there(lake, folder)) as engine:
        for number, side in enumerate(sides):
            paths = [f.path for f in copied_there(side, folder)]
            engine.execute(f"CREATE TEMP VIEW side_{number} AS {rows_query(paths, contract)}")
        found = engine.execute(text)
        return [name for name, *_ in found.description], found.fetchall()
