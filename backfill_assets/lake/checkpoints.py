"""Opening a Delta table through delta-rs, and checkpoints that a power cut tore.

Lives here: opening, and finding checkpoints that no reader can use. Does not live here: torn commits (`log`). Every
commit is kept beside its checkpoint, so a checkpoint can always be set aside: nothing but time is lost.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.core.errors import BackfillError
from backfill_assets.lake import files
from backfill_assets.lake.log import commit_file, is_whole, mend_command, refuse_torn, versions

if TYPE_CHECKING:
    from deltalake import DeltaTable

MAGIC = b"PAR1"  # first and last bytes of a whole Parquet file
HINT = "_last_checkpoint"


def open_delta(path: Path, version: int | None = None) -> "DeltaTable":
    """The table at a version (None: the newest).

    Raises BackfillError with the command that mends it if the newest commit or a checkpoint is torn; else what delta-rs
    raises.
    """
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


def checkpoint_files(path: Path, version: int) -> list[Path]:
    """The files of the checkpoint at a version; empty if there is none."""
    log = path / "_delta_log"
    file = log / f"{version:020d}.checkpoint.parquet"
    return [file, log / HINT] if files.exists(file) else []


def torn_checkpoints(path: Path) -> list[Path]:
    """Checkpoints that are no whole Parquet file or whose version has no whole commit, and a hint that names such a
    checkpoint or one that is gone."""
    log = path / "_delta_log"
    found = [log / name for name in sorted(files.names(log)) if name.endswith(".checkpoint.parquet")]
    torn = [f for f in found if files.ends(f, len(MAGIC)) != (MAGIC, MAGIC) or not _has_commit(path, f)]
    return torn + ([log / HINT] if _misleads(log, torn) else [])


def _has_commit(path: Path, checkpoint: Path) -> bool:
    return is_whole(commit_file(path, int(checkpoint.name.partition(".")[0])))


def _misleads(log: Path, torn: list[Path]) -> bool:
    try:
        version = json.loads(b"".join(files.lines(log / HINT)))["version"]
        file = log / f"{version:020d}.checkpoint.parquet"
        return not files.exists(file) or file in torn
    except (OSError, ValueError, KeyError, TypeError):
        return False  # readers ignore a hint that they cannot read
