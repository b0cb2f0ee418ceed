"""A table's Delta log, read without a JVM: receipts, heads, and commits that are not ours.

Lives here: reading `_delta_log/*.json` of a table on a file system. Does not live here: table data, and writing.
Commit files are kept for ever (`delta.enableExpiredLogCleanup = false`), so the log alone tells every write; with
in-commit timestamps `commitInfo` is a commit's first line (Delta protocol), so that one line per commit is read.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.parameters import PARAMETERS
from backfill_assets.core.receipts import Receipt, parse_receipt
from backfill_assets.core.view import Stamp, TableView


@dataclass(frozen=True)
class Commit:
    """One commit: its version, its receipt (None: not ours), and when it was made (milliseconds since 1970, UTC)."""

    version: int
    receipt: Receipt | None
    timestamp_ms: int
    operation: str

    @property
    def at(self) -> datetime:
        """When it was made, as an aware instant."""
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)


def versions(table: Path) -> list[int]:
    """The commit versions that lie in the log, ascending; empty where there is no table."""
    log = table / "_delta_log"
    if not log.is_dir():
        return []
    return sorted(int(p.stem) for p in log.iterdir() if p.suffix == ".json" and p.stem.isdigit())


def commits(table: Path, after: int = -1) -> Iterator[Commit]:
    """The commits with a version greater than `after`, ascending; raises BackfillError where the log has a gap."""
    for expected, version in enumerate(versions(table)):
        if version != expected:
            raise BackfillError(
                f"the table {table.name}",
                f"its log lacks version {expected}",
                "It was not read",
                "Restore the file from a backup, or move the table away and rebuild it; see `backfill-assets doctor`",
            )
        if version > after:
            yield read_commit(table, version)


def read_commit(table: Path, version: int) -> Commit:
    """One commit; raises BackfillError where its file is empty or torn (a power cut can do that)."""
    path = commit_file(table, version)
    try:
        with path.open(encoding="utf-8") as lines:
            info = json.loads(next(lines)).get("commitInfo")
        if info is None:
            info = next((a["commitInfo"] for a in actions(table, version) if "commitInfo" in a), {})
    except (ValueError, StopIteration):
        raise _torn(table, version) from None
    stamp = int(info.get("inCommitTimestamp", info.get("timestamp", 0)))
    return Commit(version, parse_receipt(info.get("userMetadata")), stamp, str(info.get("operation", "")))


def commit_file(table: Path, version: int) -> Path:
    """The file of one commit."""
    return table / "_delta_log" / f"{version:020d}.json"


def actions(table: Path, version: int) -> Iterator[dict[str, Any]]:
    """All actions of one commit, as Delta's protocol writes them."""
    with commit_file(table, version).open(encoding="utf-8") as lines:
        for line in lines:
            try:
                yield json.loads(line)
            except ValueError:
                raise _torn(table, version) from None


def _torn(table: Path, version: int) -> BackfillError:
    return BackfillError(
        f"the table {table.name}",
        f"version {version} of its log is torn ({commit_file(table, version).name})",
        "It was not read",
        "Run `backfill-assets doctor`; move the torn file away and rebuild the days written last",
    )


def find_write(table: Path, write_id: str, after: int = -1) -> int | None:
    """The version whose receipt names `write_id`, or None: the answer to 'did my commit happen?'."""
    return next((c.version for c in commits(table, after) if c.receipt and c.receipt.write_id == write_id), None)


def table_view(table: Path, day_column: str) -> TableView:
    """The newest receipt of every day, in one pass over the log."""
    stamps: dict[date, Stamp] = {}
    foreign: set[date] = set()
    inputs: dict[str, int] = {}
    frontier: datetime | None = None
    version = -1
    for commit in commits(table):
        version, receipt = commit.version, commit.receipt
        if receipt is None:
            foreign |= _days_touched(table, version, day_column, set(stamps))
            continue
        made_with = receipt.tags.get(PARAMETERS, "")
        for day, entry in receipt.days.items():
            stamps[day] = Stamp(
                entry,
                version,
                receipt.write_id,
                receipt.code_digest,
                receipt.settings_digest,
                receipt.run_id,
                made_with,
            )
            foreign.discard(day)
        inputs.update(receipt.inputs)
        if receipt.frontier is not None and (frontier is None or receipt.frontier > frontier):
            frontier = receipt.frontier
    return TableView(version, stamps, inputs, frontier, frozenset(foreign))


def _days_touched(table: Path, version: int, day_column: str, known: set[date]) -> set[date]:
    """The days whose data a foreign commit changed; all known days where it does not say which."""
    touched: set[date] = set()
    for action in actions(table, version):
        change = action.get("add") or action.get("remove")
        if change and change.get("dataChange", True):
            days = _days_named(change.get("partitionValues") or {}, day_column)
            if days is None:
                return known
            touched |= days
    return touched


def _days_named(values: Mapping[str, str | None], day_column: str) -> set[date] | None:
    """The days of a partition, laid out by the day or, as `arrivals` is, by its month (`x_month` for `x_date`)."""
    month = values.get(f"{day_column.removesuffix('_date')}_month")
    try:
        if month is None:
            return {date.fromisoformat(values.get(day_column) or "")}
        first = date.fromisoformat(f"{month}-01")
    except ValueError:
        return None
    days = (first + ONE_DAY * n for n in range(31))
    return {day for day in days if day.month == first.month}
