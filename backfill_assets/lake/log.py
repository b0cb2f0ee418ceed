"""A table's Delta log, read without a JVM: commits, receipts, and changes by other programs.

Lives here: `_delta_log/*.json` as it lies in a lake. Does not live here: the state that follows (`log_state`), table
data, and writing. Commit files are kept for ever (`delta.enableExpiredLogCleanup = false`), so the log alone holds
every write; with in-commit timestamps `commitInfo` is a commit's first line (Delta protocol), so one line is read.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.receipts import Receipt, parse_receipt
from backfill_assets.lake import files

ACTIONS = "backfill_assets.actions"  # in a commit's information: how many actions follow it
CommitFile = tuple[int, files.FileStamp]  # version and stamp


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

    def names(self, day: date) -> bool:
        """Whether its receipt names the day."""
        return self.receipt is not None and day in self.receipt.days


@dataclass(frozen=True)
class LiveFile:
    """A data file of a table version: its path below the table, partition value and bytes."""

    path: str
    partition: str | None
    size: int


def versions(table: Path) -> list[int]:
    """The commit versions in the log, ascending; empty if there is no table."""
    found = files.names(table / "_delta_log")
    return sorted(int(n[:-5]) for n in found if n.endswith(".json") and n[:-5].isdigit())


def commit_files(table: Path) -> list[CommitFile]:
    """Every commit file as it is now, by version."""
    found = files.stamps(table / "_delta_log").items()
    named = ((*name.rpartition("."), stamp) for name, stamp in found)
    return sorted((int(stem), stamp) for stem, _, suffix, stamp in named if suffix == "json" and stem.isdigit())


def commits(table: Path, after: int = -1) -> Iterator[Commit]:
    """The commits with a version greater than `after`, ascending.

    Raises BackfillError if the log has a gap or its newest commit is torn.
    """
    present = versions(table)
    for expected, version in enumerate(present):
        if version != expected:
            raise BackfillError(
                f"the table {table.name}",
                f"its log lacks version {expected}",
                "It was not read",
                "Restore the file from a backup, or move the table away and rebuild it; see `backfill-assets doctor`",
            )
    refuse_torn(table, *present[-1:])
    yield from (read_commit(table, version) for version in present if version > after)


def refuse_torn(table: Path, *found: int) -> None:
    """Raise BackfillError if one of these commits is not whole: a power cut can leave the newest so."""
    for version in found:
        if not is_whole(commit_file(table, version)):
            raise _torn(table, version)


def is_whole(file: Path) -> bool:
    """Whether a commit can be read to its end.

    Commits of ours name how many actions they hold, so that a file cut off between two lines is noticed, too.
    """
    found, named, wanted = 0, 0, None
    try:
        for action in map(json.loads, files.lines(file)):
            if not isinstance(action, dict):
                return False
            found, named = found + 1, named + ("commitInfo" in action)
            info = action.get("commitInfo")
            wanted = info.get(ACTIONS) if wanted is None and isinstance(info, dict) else wanted
    except (ValueError, OSError):
        return False
    return found > 0 and (wanted is None or found - named == int(wanted))


def read_commit(table: Path, version: int) -> Commit:
    """One commit; raises BackfillError if its file is empty or torn."""
    try:
        info = json.loads(next(files.lines(commit_file(table, version)))).get("commitInfo")
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
    """All actions of one commit, as Delta's protocol writes them; raises BackfillError at a torn line."""
    for line in files.lines(commit_file(table, version)):
        try:
            yield json.loads(line)
        except ValueError:
            raise _torn(table, version) from None


def moves_rows(action: Mapping[str, Any]) -> bool:
    """Whether an action adds or removes rows."""
    change = action.get("add") or action.get("remove")
    return change is not None and bool(change.get("dataChange", True))


def _torn(table: Path, version: int) -> BackfillError:
    file = commit_file(table, version)
    return BackfillError(
        f"the table {table.name}",
        f"version {version} of its log is torn ({file.name})",
        "It was not read",
        f"If it is the newest, a power cut tore it before it was reported: set it aside with {mend_command(table)}, "
        "then run `backfill-assets catch-up`. Else restore it from a backup",
    )


def mend_command(table: Path) -> str:
    """The command that mends a table's log."""
    return f"`backfill-assets mend {table.name} --yes`"


def find_write(table: Path, write_id: str, after: int = -1) -> int | None:
    """The version whose receipt names `write_id`, or None: the answer to 'did my commit happen?'."""
    found = commits(table) if after < 0 else _following(table, after)
    return next((c.version for c in found if c.receipt and c.receipt.write_id == write_id), None)


def _following(table: Path, after: int) -> Iterator[Commit]:
    """The commits after a version that is there, without listing the others."""
    while files.exists(commit_file(table, after := after + 1)):
        yield read_commit(table, after)


def days_touched(table: Path, version: int, day_column: str, known: Iterable[date]) -> set[date]:
    """The days whose rows a commit changed; all `known` days if it does not say which."""
    touched: set[date] = set()
    for action in filter(moves_rows, actions(table, version)):
        change = action.get("add") or action["remove"]
        days = _days_named(change.get("partitionValues") or {}, day_column)
        if days is None:
            return set(known)
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
