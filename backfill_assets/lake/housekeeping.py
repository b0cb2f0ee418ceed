"""Housekeeping of one table's folder: data files and checkpoints that nothing needs any more.

Not here: which tables, and since when (`operations.maintain`); sizes of files (`compaction`), files of killed writes,
which `staging.sweep` removes at the next write. Commits are never removed: the log alone holds every write (`log`).
"""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from backfill_assets.core.contracts import Contract
from backfill_assets.lake import files
from backfill_assets.lake.folder import LakeFolder
from backfill_assets.lake.log import LOG, commits, file_changes
from backfill_assets.lake.log_bytes import torn_checkpoints
from backfill_assets.lake.staging import WRITES, markers

REASON = "maintain"
KEPT_CHECKPOINTS = 2  # the newest, and one more for readers that found it before the newest was there


@dataclass(frozen=True)
class Unneeded:
    """Files of one table that can go: `replaced` data files, which a commit took out before the given time, data files
    that `no_version` names, and older `checkpoints`; `bytes` of all of them."""

    table: str
    replaced: tuple[Path, ...] = ()
    no_version: tuple[Path, ...] = ()
    checkpoints: tuple[Path, ...] = ()
    bytes: int = 0

    @property
    def paths(self) -> tuple[Path, ...]:
        """All of them."""
        return (*self.replaced, *self.no_version, *self.checkpoints)


def find_unneeded(lake: LakeFolder, contract: Contract, since: datetime) -> Unneeded:
    """Find the files that no version of the table since then (aware) holds. Reads the log and lists the folder.

    Files of writes under way stay, and so does a file that no version names if it was changed since then: another
    program may be about to commit it. Raises BackfillError if the log has a gap or is torn.
    """
    path = lake.table_path(contract.name)
    removed = _removed(path)
    gone = {file for file, at in removed.items() if at is not None and at < since.timestamp()}
    under_way = set(files.names(markers(lake, contract.name)))
    replaced, no_version = [], []
    for file in files.below(path, "*.parquet"):
        name = file.relative_to(path)
        if LOG in name.parts or (len(name.parts) > 1 and name.parts[0] == WRITES and name.parts[1] in under_way):
            continue
        if name.as_posix() in gone:
            replaced.append(file)
        elif name.as_posix() not in removed and files.changed_at(file) < since.timestamp():
            no_version.append(file)
    old = _old_checkpoints(path)
    total = sum(files.size(f) or 0 for f in (*replaced, *no_version, *old))
    return Unneeded(contract.name, tuple(replaced), tuple(no_version), tuple(old), total)


def remove_unneeded(lake: LakeFolder, contract: Contract, since: datetime) -> Unneeded:
    """Find them again and delete them, while nobody writes the table or puts days of it back; returns those deleted.

    Stopped in between, it has deleted some; the next call finds the others.
    """
    path = lake.table_path(contract.name)
    files.refuse_link(path / WRITES, path)
    with files.table_lock(lake.locks, contract.name):
        found = find_unneeded(lake, contract, since)
        for file in found.paths:
            files.delete(file)
        for folder in {f.parent for f in (*found.replaced, *found.no_version)}:
            files.delete_empty(folder, path)
    return found


def _removed(path: Path) -> dict[str, float | None]:
    """Every data file that the log names: when a commit took it out (seconds since 1970), None while it is live.

    A clock that was set back makes no commit older than the one before it.
    """
    found: dict[str, float | None] = {}
    now = 0.0
    for commit in commits(path):
        now = max(now, commit.timestamp_ms / 1000)
        found |= {c.path: None if c.is_added else now for c in file_changes(path, commit.version)}
    return found


def _old_checkpoints(path: Path) -> list[Path]:
    """Whole checkpoints before the newest ones; a torn one is left to `mend`."""
    torn = set(torn_checkpoints(path))
    named = (path / LOG / n for n in sorted(files.names(path / LOG)) if n.endswith(".checkpoint.parquet"))
    return [file for file in named if file not in torn][:-KEPT_CHECKPOINTS]
