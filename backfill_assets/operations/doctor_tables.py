"""The doctor's look at one table: is its log whole, do its files exist, do its receipts equal its contents.

Lives here: examinations of a Delta log and the files it names, by reading both directly, so that a table which no
engine opens any more can still be told about. Does not live here: recomputing fingerprints (`cli.deep`).
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from backfill_assets.core.contracts import Contract
from backfill_assets.core.days import contiguous
from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.ledger import ARRIVALS, FILES, QUARANTINE
from backfill_assets.lake.log import actions, commit_file, read_commit, table_view, versions
from backfill_assets.load.derived import reload_command
from backfill_assets.operations.diagnosis import Diagnosis, broken, fine, odd, some

RESTORE = "Restore it from a backup, or move the table's folder away and rebuild the table"


@dataclass
class Contents:
    """What the log says: active data files by path, every path it ever named, commits that are not ours."""

    active: dict[str, dict[str, Any]] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    foreign: list[int] = field(default_factory=list)
    commits: int = 0


def examine_table(path: Path, contract: Contract, landed: str) -> list[Diagnosis]:
    """All findings about the table at `path`; `landed` is the table whose loads write the ledgers anew.

    A torn or gapped log ends it, as nothing else can be told.
    """
    name = f"the table {contract.name}"
    present = versions(path)
    if not present:
        return [fine(name, "it does not exist yet")]
    torn = list(_log_damage(path, name, present))
    if torn:
        return torn
    contents = _replay(path, present)
    findings = [_foreign(path, contract, contents, landed), *_files(path, name, contents)]
    findings += _receipts(path, name, contract, contents)
    wrong = [f for f in findings if f is not None]
    rows = sum(_rows(add) or 0 for add in contents.active.values())
    told = f"{contents.commits} commits, {len(contents.active)} files, {rows} rows"
    return wrong or [fine(name, f"{told}: log whole, files there, receipts equal contents")]


def orphans(path: Path, contract: Contract) -> Diagnosis | None:
    """Data files that no version of the table names: left by writers that were stopped, or being written now."""
    present = versions(path)
    try:
        named = _replay(path, present).named if present else set()
    except (ValueError, OSError, BackfillError):
        return None  # a damaged log names nothing for sure; `examine_table` tells of it
    lost = [p for p in path.rglob("*.parquet") if "_delta_log" not in p.parts and _relative(p, path) not in named]
    if not lost:
        return None
    size = sum(p.stat().st_size for p in lost if p.exists())
    told = f"{len(lost)} data file(s), {size} bytes, belong to no version"
    return fine(f"the table {contract.name}", f"{told}: a running or stopped write; a vacuum removes them later")


def _relative(file: Path, table: Path) -> str:
    return file.relative_to(table).as_posix()


def _log_damage(path: Path, name: str, present: list[int]) -> Iterator[Diagnosis]:
    lacking = sorted(set(range(present[-1] + 1)) - set(present))
    if lacking:
        yield broken(name, f"its log lacks version(s) {some(lacking)}", RESTORE)
    for version in present:
        file = commit_file(path, version)
        try:
            lines = file.read_bytes().splitlines()
            whole = bool(lines) and all(isinstance(json.loads(line), dict) for line in lines)
        except (ValueError, OSError):
            whole = False
        if not whole:
            newest = " (the newest: a power cut does that)" if version == present[-1] else ""
            advice = "Move the torn file away and rebuild the days written last" if newest else RESTORE
            yield broken(name, f"version {version} of its log is torn{newest}: {file.name}", advice)


def _replay(path: Path, present: list[int]) -> Contents:
    contents = Contents(commits=len(present))
    for version in present:
        moved = False
        for action in actions(path, version):
            if add := action.get("add"):
                file = unquote(add["path"])
                contents.active[file] = add
                contents.named.add(file)
                moved |= bool(add.get("dataChange", True))
            elif remove := action.get("remove"):
                file = unquote(remove["path"])
                contents.active.pop(file, None)
                contents.named.add(file)
                moved |= bool(remove.get("dataChange", True))
        if moved and read_commit(path, version).receipt is None:
            contents.foreign.append(version)
    return contents


def _foreign(path: Path, contract: Contract, contents: Contents, landed: str) -> Diagnosis | None:
    """Commits of others whose traces are still there; what was written again since is as we wrote it."""
    if not contents.foreign:
        return None
    name, told = f"the table {contract.name}", f"version(s) {some(contents.foreign)} changed data and are not ours"
    if contract.name == FILES.name:
        return odd(name, f"{told}: not read, what we wrote counts", "Keep other programs from writing here")
    view = table_view(path, contract.day_column)
    days = view.foreign if contract.partition_column == contract.day_column else view.foreign & view.stamps.keys()
    if not days:
        return None
    if contract.name in (ARRIVALS.name, QUARANTINE.name):
        again = f"Load its arrival days again: `{reload_command(landed, days)}`"
        return odd(name, f"{told} ({some(contiguous(days))})", f"{again}, and keep other programs from writing here")
    return odd(
        name,
        f"{told} ({some(contiguous(days))})",
        f"These days show as stale: `backfill-assets backfill --from {min(days)} --to {max(days)} --tables "
        f"{contract.name}`, and keep other programs from writing here",
    )


def _files(path: Path, name: str, contents: Contents) -> Iterator[Diagnosis]:
    absent, altered = [], []
    for file, add in contents.active.items():
        try:
            if (path / file).stat().st_size != add["size"]:
                altered.append(file)
        except OSError:
            absent.append(file)
    advice = "Rebuild the days with `backfill-assets backfill --force`, or restore the files from a backup"
    if absent:
        yield broken(name, f"{len(absent)} data file(s) of its newest version are gone: {some(absent)}", advice)
    if altered:
        yield broken(name, f"{len(altered)} data file(s) have another size than written: {some(altered)}", advice)


def _receipts(path: Path, name: str, contract: Contract, contents: Contents) -> Iterator[Diagnosis]:
    """Rows per day by the statistics in the log against the receipts; only for tables laid out by their day."""
    if contract.partition_column != contract.day_column:
        return
    view = table_view(path, contract.day_column)
    counted: dict[date, int] = defaultdict(int)
    for add in contents.active.values():
        value, rows = (add.get("partitionValues") or {}).get(contract.day_column), _rows(add)
        if value is None or rows is None:
            told = "which day a data file belongs to" if value is None else "how many rows a data file has"
            yield odd(name, f"the log does not say {told}", "Use `backfill-assets doctor --deep`")
            return
        counted[date.fromisoformat(value)] += rows
    receipts = {d: s.entry.rows for d, s in view.stamps.items()}
    wrong = sorted(
        d for d in {*counted, *receipts} if counted.get(d, 0) != receipts.get(d, 0) and d not in view.foreign
    )
    if wrong:
        first = wrong[0]
        yield broken(
            name,
            f"{len(wrong)} day(s) hold other row counts than their receipts ({some(contiguous(wrong))}); "
            f"{first}: {counted.get(first, 0)} rows, receipt {receipts.get(first, 'none')}",
            f"Rebuild with `backfill-assets backfill --force --from {first} --to {wrong[-1]} --tables {contract.name}`",
        )


def _rows(add: dict[str, Any]) -> int | None:
    try:
        return int(json.loads(add["stats"])["numRecords"])
    except (KeyError, TypeError, ValueError):
        return None
