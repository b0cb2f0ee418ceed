"""Bytes of a table's log and of its data files: digests that every commit names, checkpoints, and opening by delta-rs.

Not here: what commits say (`log`), what a damaged table means (`inspection`), and writing commits (`committer`).
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill_assets.core.errors import BackfillError
from backfill_assets.lake import files
from backfill_assets.lake.log import (
    LOG,
    FileChange,
    commit_file,
    commit_info,
    is_whole,
    mend_command,
    refuse_torn,
    versions,
)

if TYPE_CHECKING:
    from deltalake import DeltaTable

BEFORE = "backfill_assets.before"  # key of commitInfo: the digest of the commit before it, so that an edited past shows
FILES = "backfill_assets.files"  # key of commitInfo: digests of the files that it adds, joined, by ascending path
FILE_DIGEST_CHARS = 16  # of SHA-256 in hexadecimal: chance is to be found out, receipts hold the rows against intent
HEAD = ".head"  # beside the commits: the newest version with its digest, and digests of checkpoints
CHECKPOINTS_NAMED = 100  # the newest: `maintain` keeps fewer, and the file is written with every commit
MAGIC = b"PAR1"  # first and last bytes of a whole Parquet file
HINT = "_last_checkpoint"


def digest_of_file(path: Path) -> str:
    """SHA-256 of the bytes of a file of a table; raises OSError."""
    return files.sha256_of_bytes(path)


def commit_digest(table: Path, version: int) -> str:
    """SHA-256 of the bytes of one commit; raises OSError."""
    return digest_of_file(commit_file(table, version))


def vouch(table: Path, version: int) -> None:
    """Note the digest of the newest commit, which no commit names yet, and of its checkpoint. The caller holds the lock
    of the table; a process that is killed before leaves the note of the version before, which is harmless."""
    named = dict(read_head(table).get("checkpoints", {}))
    if files.exists(file := checkpoint_file(table, version)):
        named[file.name] = digest_of_file(file)
    last = dict(sorted(named.items())[-CHECKPOINTS_NAMED:])
    files.write_json(
        table / LOG / HEAD, {"version": version, "sha256": commit_digest(table, version), "checkpoints": last}
    )


def read_head(table: Path) -> Mapping[str, Any]:
    """The note that `vouch` left; empty where there is none, as in tables of earlier versions."""
    return files.read_json(table / LOG / HEAD)


def edited_commits(table: Path, present: Iterable[int], rewritten: Mapping[int, str]) -> tuple[int, ...]:
    """Those of the versions (ascending, whole) whose bytes are not those that the commit after them names, or, of the
    newest, the note beside the log; nor those that an erasure left there (`rewritten`: digests by version). Commits of
    other programs and of earlier versions of this package name nothing.
    """
    found, digest, version = [], "", -1
    for version in present:
        named = commit_info(table, version).get(BEFORE, digest)
        if digest and named != digest != rewritten.get(version - 1):
            found.append(version - 1)
        digest = commit_digest(table, version)
    head = read_head(table)
    if digest and head.get("version") == version and head["sha256"] != digest != rewritten.get(version):
        found.append(version)
    return tuple(found)


def file_digests(table: Path, version: int, changes: Iterable[FileChange]) -> Mapping[str, str]:
    """Digests of the files that these changes of a commit added, by path, as far as the commit names them."""
    named, length = commit_info(table, version).get(FILES, ""), FILE_DIGEST_CHARS
    added = sorted(c.path for c in changes if c.is_added)
    return {path: named[i * length : (i + 1) * length] for i, path in enumerate(added if named else ())}


def open_delta(path: Path, version: int | None = None) -> "DeltaTable":
    """Open the table at a version (None: the newest).

    Raises BackfillError with the command that mends it if the newest commit or a checkpoint is torn; else the error of
    delta-rs.
    """
    from deltalake import DeltaTable

    try:
        return DeltaTable(str(path), version=version)
    except Exception as error:
        refuse_torn(path, versions(path))
        torn = torn_checkpoints(path)
        if not torn:
            raise
        raise BackfillError(
            f"the table {path.name}",
            f"a checkpoint of its log is torn ({torn[0].name}); a power cut does that",
            "It was not read",
            f"Set it aside with {mend_command(path)}: every commit is kept, and nothing is lost",
        ) from error


def checkpoint_file(path: Path, version: int) -> Path:
    """The file of the checkpoint at a version; it need not exist."""
    return path / LOG / f"{version:020d}.checkpoint.parquet"


def checkpoint_files(path: Path, version: int) -> list[Path]:
    """The files of the checkpoint at a version; empty if there is none."""
    file = checkpoint_file(path, version)
    return [file, path / LOG / HINT] if files.exists(file) else []


def torn_checkpoints(path: Path) -> list[Path]:
    """Checkpoints that are no whole Parquet file, hold other bytes than were written, or whose version has no whole
    commit, and a hint that names such a checkpoint or one that is gone."""
    log = path / LOG
    named = [(n, n.removesuffix(".checkpoint.parquet")) for n in sorted(files.names(log))]
    found = {int(version): log / n for n, version in named if n != version and version.isdigit()}
    whole = {v for v, file in found.items() if files.ends(file, len(MAGIC)) == (MAGIC, MAGIC)}
    named_bytes = read_head(path).get("checkpoints", {})
    whole = {v for v in whole if named_bytes.get(found[v].name) in (None, digest_of_file(found[v]))}
    whole = {v for v in whole if is_whole(commit_file(path, v))}
    torn = [file for v, file in found.items() if v not in whole]
    try:
        misleads = json.loads(b"".join(files.lines(log / HINT)))["version"] not in whole
    except (OSError, ValueError, KeyError, TypeError):
        misleads = False  # readers ignore a hint that they cannot read
    return [*torn, log / HINT] if misleads else torn
