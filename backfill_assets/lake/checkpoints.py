"""Checkpoints of a table's log with their digests, and commits that leave the log because a checkpoint stands for them.

Not here: reading commits wherever they are (`log`, `log_history`), other unneeded files (`housekeeping`), and the days
after which commits leave (`operations.maintain`). The caller holds the table's lock.
"""

from collections.abc import Mapping
from pathlib import Path

from backfill_assets.core.errors import BackfillError
from backfill_assets.lake import files
from backfill_assets.lake.data_files import live_files
from backfill_assets.lake.log import (
    HEAD,
    checkpoint_file,
    checkpoint_files,
    commit_digest,
    open_delta,
    read_head,
    torn_checkpoints,
)
from backfill_assets.lake.log_history import (
    HISTORY,
    LOG,
    archive_name,
    archived_digest,
    commit_file,
    first_kept,
    logged,
)


def vouch(table: Path, version: int) -> None:
    """Note the digest of the newest commit, which no later commit names yet, and of its checkpoint. A process that is
    killed before this leaves the note of the version before, which is harmless."""
    newest = {"version": version, "sha256": commit_digest(table, version)}
    files.write_json(table / LOG / HEAD, {**newest, "checkpoints": _checkpoints(table, version)})


def _checkpoints(table: Path, version: int) -> Mapping[str, str]:
    """Noted digests of the checkpoints that exist, and the digest of the checkpoint at `version`, if there is one."""
    digests = read_head(table).get("checkpoints", {})
    digests = {name: digest for name, digest in digests.items() if files.exists(table / LOG / name)}
    if files.exists(file := checkpoint_file(table, version)):
        digests[file.name] = files.sha256_of_bytes(file)
    return digests


def move_commits(table: Path, first: int) -> None:
    """Move the commits before version `first` from the log to the history, once a checkpoint of `first` stands for
    them.

    After an interruption each of them is in the log, in the history or in both, with the same bytes; the next call
    continues. Raises BackfillError, having deleted nothing, if the history does not hold them as the log does.
    """
    leaving = [v for v in logged(table) if v < first]
    _ensure_checkpoint(table, first)
    if new := [v for v in leaving if v >= first_kept(table)]:
        files.write_zip(table / HISTORY / archive_name(new[0], new[-1]), [commit_file(table, v) for v in new])
    for version in leaving:
        if archived_digest(table, version) != commit_digest(table, version):
            raise _refused(table, f"its history holds another version {version} than its log")
    for name in sorted(files.names(table / LOG)):  # a checkpoint needs its commit, so it goes first
        if name.endswith(".checkpoint.parquet") and name < checkpoint_file(table, first).name:
            files.delete(table / LOG / name)
    for version in leaving:  # the oldest first: what stays has no gap
        files.delete(commit_file(table, version))
    files.sync(table / LOG)


def _ensure_checkpoint(table: Path, version: int) -> None:
    """Ensure that the disk holds a checkpoint of a version, from which the table opens with the same files."""
    if not files.exists(file := checkpoint_file(table, version)) or file in torn_checkpoints(table):
        opened = open_delta(table, version)
        opened.create_checkpoint()
        for path in (*checkpoint_files(table, version), table / LOG):
            files.sync(path)
        if {*live_files(open_delta(table, version), "")} != {*live_files(opened, "")}:
            raise _refused(table, f"a checkpoint of version {version} names other files than its log")
    files.write_json(table / LOG / HEAD, {**read_head(table), "checkpoints": _checkpoints(table, version)})


def _refused(table: Path, culprit: str) -> BackfillError:
    fix = "Run `backfill-assets verify`, and report what it says"
    return BackfillError(f"the table {table.name}", culprit, "No commit left its log", fix)
