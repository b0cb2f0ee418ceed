"""Opening a Delta table through delta-rs, and how a torn checkpoint is reported.

Lives here: opening, and finding checkpoints that no reader can use. Does not live here: torn commits (`log`). Every
commit is kept beside its checkpoint, so that a checkpoint can always be taken away: nothing but time is lost.
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.log import (
    CommitFile,
    commit_file,
    commit_files,
    is_whole,
    mend_command,
    refuse_torn,
    versions,
)

if TYPE_CHECKING:
    from deltalake import DeltaTable

MAGIC = b"PAR1"  # what a whole Parquet file begins and ends with
HINT = "_last_checkpoint"
KEPT_TABLES = 16  # opened to be read, of a process, each at one version: of 3,650 days 20 MiB; a lake has ten


def open_delta(path: Path, version: int | None = None) -> "DeltaTable":
    """The table at a version (None: the newest). Raises BackfillError where the newest commit or a checkpoint is
    torn, with the command that mends it; else what delta-rs raises."""
    from deltalake import DeltaTable

    try:
        return DeltaTable(str(path), version=version)
    except Exception as error:
        refuse_torn(path, *versions(path)[-1:])
        torn = torn_checkpoints(path)
        if not torn:
            raise
        raise BackfillError(
            f"the table {path.name}",
            f"a checkpoint of its log is torn ({torn[0].name}); a power cut does that",
            "It was not read",
            f"Set it aside with {mend_command(path)}: every commit is kept, and nothing is lost",
        ) from error


def read_delta(path: Path, version: int | None = None) -> "DeltaTable":
    """As `open_delta`, for who only reads: the same object again while the files of its commits are the same, because a
    step looks at a table's newest version several times, and its log is read whole at each opening."""
    files = tuple(f for f in commit_files(path) if version is None or f[0] <= version)
    if not files or version not in (None, files[-1][0]):
        return open_delta(path, version)
    place = _place(path)
    kept = place.kept
    if kept is None or kept[0] != files:
        kept = place.kept = None  # before another is opened: nobody asks for this version again
        kept = place.kept = files, open_delta(path, files[-1][0])
    return kept[1]


def let_go(path: Path) -> None:
    """Keep no table opened that is about to have another version."""
    _place(path).kept = None


@dataclass
class _Place:
    """Where one table is kept that was opened to be read, by the commits that were read."""

    kept: "tuple[tuple[CommitFile, ...], DeltaTable] | None" = None


@lru_cache(maxsize=KEPT_TABLES)
def _place(path: Path) -> _Place:
    return _Place()


def checkpoint_files(path: Path, version: int) -> list[Path]:
    """What a checkpoint at a version consists of; empty where there is none."""
    log = path / "_delta_log"
    file = log / f"{version:020d}.checkpoint.parquet"
    return [file, log / HINT] if file.exists() else []


def torn_checkpoints(path: Path) -> list[Path]:
    """The checkpoints that are no whole Parquet file, or of a version that the log does not have as a whole commit, and
    the hint that names such a one or one that is not there."""
    log = path / "_delta_log"
    torn = [f for f in sorted(log.glob("*.checkpoint.parquet")) if not (_is_whole(f) and _has_commit(path, f))]
    return torn + ([log / HINT] if _misleads(log, torn) else [])


def _has_commit(path: Path, checkpoint: Path) -> bool:
    return is_whole(commit_file(path, int(checkpoint.name.partition(".")[0])))


def _is_whole(file: Path) -> bool:
    with file.open("rb") as read:
        head = read.read(len(MAGIC))
        read.seek(max(0, file.stat().st_size - len(MAGIC)))
        return head == MAGIC == read.read()


def _misleads(log: Path, torn: list[Path]) -> bool:
    try:
        version = json.loads((log / HINT).read_bytes())["version"]
        file = log / f"{version:020d}.checkpoint.parquet"
        return not file.exists() or file in torn
    except (OSError, ValueError, KeyError, TypeError):
        return False  # readers leave alone a hint that they cannot read
