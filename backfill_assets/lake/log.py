"""Delta log of a table, read without a JVM: commits, receipts, changes by other programs, and torn commits.

Not here: the table state folded from it (`log_state`), its bytes, checkpoints and opening (`log_bytes`), and writing
(`committer`). Commit files are kept for ever (`delta.enableExpiredLogCleanup = false`): it alone holds every write.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.receipts import Receipt, parse_receipt
from backfill_assets.lake import files

if TYPE_CHECKING:
    pass

ACTIONS = "backfill_assets.actions"  # key of commitInfo: how many actions the commit holds
LOG = "_delta_log"


@dataclass(frozen=True)
class Commit:
    """One commit: its version, its receipt (None: not ours), and its time (milliseconds since 1970, UTC)."""

    version: int
    receipt: Receipt | None
    timestamp_ms: int
    operation: str

    @property
    def at(self) -> datetime:
        """Time of the commit, aware."""
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
    """Commit versions in the log, ascending; empty if there is no table."""
    return sorted(int(n[:-5]) for n in files.names(table / LOG) if n.endswith(".json") and n[:-5].isdigit())


def commits(table: Path, after: int = -1) -> Iterator[Commit]:
    """Commits with a version greater than `after`, ascending.

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
    refuse_torn(table, present)
    yield from (read_commit(table, version) for version in present if version > after)


def refuse_torn(table: Path, present: list[int]) -> None:
    """Raise BackfillError if the newest of these versions is not whole: a power cut can leave it so."""
    if present and not is_whole(commit_file(table, present[-1])):
        raise _torn(table, present[-1])


def is_whole(file: Path) -> bool:
    """Whether a commit can be read to its end.

    Our commits say how many actions they hold, which also shows a file cut off between two lines.
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
    """Read one commit, mostly its first line only; raises BackfillError if its file is empty or torn."""
    info = commit_info(table, version)
    time = int(info.get("inCommitTimestamp", info.get("timestamp", 0)))
    return Commit(version, parse_receipt(info.get("userMetadata")), time, str(info.get("operation", "")))


def commit_info(table: Path, version: int) -> dict[str, Any]:
    """The action `commitInfo` of a commit, mostly by its first line only; raises as `read_commit` does."""
    try:
        info = json.loads(next(files.lines(commit_file(table, version)))).get("commitInfo")
        if info is None:
            info = next((a["commitInfo"] for a in actions(table, version) if "commitInfo" in a), {})
    except (ValueError, StopIteration):
        raise _torn(table, version) from None
    return dict(info)


def commit_file(table: Path, version: int) -> Path:
    """The file of one commit."""
    return table / LOG / f"{version:020d}.json"


def actions(table: Path, version: int) -> Iterator[dict[str, Any]]:
    """All actions of one commit, as Delta's protocol writes them; raises BackfillError at a torn line."""
    for line in files.lines(commit_file(table, version)):
        try:
            yield json.loads(line)
        except ValueError:
            raise _torn(table, version) from None


@dataclass(frozen=True)
class FileChange:
    """A commit's change of a data file: its path below the table, its partition values, whether rows came or went with
    it, and its statistics as JSON. `is_added` is False where the file was removed."""

    path: str
    is_added: bool
    size: int
    values: Mapping[str, str | None]
    moves_rows: bool
    stats: str


def file_changes(table: Path, version: int) -> Iterator[FileChange]:
    """Changes of data files by one commit, in its order; raises BackfillError at a torn line."""
    for action in actions(table, version):
        if change := action.get("add") or action.get("remove"):
            yield FileChange(
                unquote(change["path"]), action.get("add") is not None, int(change.get("size") or 0),
                change.get("partitionValues") or {}, bool(change.get("dataChange", True)), change.get("stats") or "",
            )  # fmt: skip


def _torn(table: Path, version: int) -> BackfillError:
    return BackfillError(
        f"the table {table.name}",
        f"version {version} of its log is torn ({commit_file(table, version).name})",
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
    """Commits after an existing version, without listing the log."""
    while files.exists(commit_file(table, after := after + 1)):
        yield read_commit(table, after)


def days_touched(table: Path, version: int, day_column: str, known: Iterable[date]) -> set[date]:
    """Days whose rows a commit changed; all `known` days if it does not say which."""
    touched: set[date] = set()
    for change in (c for c in file_changes(table, version) if c.moves_rows):
        days = _days_named(change.values, day_column)
        if days is None:
            return set(known)
        touched |= days
    return touched


def _days_named(values: Mapping[str, str | None], day_column: str) -> set[date] | None:
    """Days of a partition, laid out by the day or, as `arrivals` is, by its month (`x_month` for `x_date`)."""
    month = values.get(f"{day_column.removesuffix('_date')}_month")
    try:
        if month is None:
            return {date.fromisoformat(values.get(day_column) or "")}
        first = date.fromisoformat(f"{month}-01")
    except ValueError:
        return None
    days = (first + ONE_DAY * n for n in range(31))
    return {day for day in days if day.month == first.month}
