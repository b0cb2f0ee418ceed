"""Places of commits: the log of a table, and its history, where commits lie byte for byte that left the log.

Not here: the moment at which they leave (`checkpoints`), and their content (`log`). A file of `_history` is a zip,
named by its first and last version, of commits by their names: unpacked into `_delta_log`, it makes the log whole.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from backfill_assets.core.errors import Cleaned
from backfill_assets.lake import files

LOG = "_delta_log"
HISTORY = "_history"  # in a table's folder; engines take no data from folders with such names
NAME = re.compile(r"(\d{20})-(\d{20})\.zip")


def commit_file(table: Path, version: int) -> Path:
    """The file of one commit in the log."""
    return table / LOG / f"{version:020d}.json"


def archive_name(first: int, last: int) -> str:
    """The name of a file of the history."""
    return f"{first:020d}-{last:020d}.zip"


def logged(table: Path) -> list[int]:
    """Versions whose commits lie in the log, ascending."""
    return sorted(int(n[:-5]) for n in files.names(table / LOG) if n.endswith(".json") and n[:-5].isdigit())


def archives(table: Path) -> Mapping[range, Path]:
    """The files of a table's history, oldest first, by the versions that they hold; lists one folder."""
    named = ((NAME.fullmatch(n), n) for n in sorted(files.names(table / HISTORY)))
    return {range(int(m[1]), int(m[2]) + 1): table / HISTORY / n for m, n in named if m}


def first_kept(table: Path) -> int:
    """The first version that can be opened: the commits before it are in the history."""
    return max((span.stop for span in archives(table)), default=0)


def refuse_cleaned(table: Path, version: int) -> None:
    """Raise Cleaned if the version cannot be opened any more."""
    if version < (first := first_kept(table)):
        raise Cleaned(
            f"the table {table.name}",
            f"version {version} left its log: only versions from {first} on can be opened ([retention] log_days)",
            "It was not read",
            "`backfill-assets audit` lists its write; its rows are in a backup or snapshot, if you made one",
        )


def archive_of(table: Path, version: int) -> Path | None:
    """The file of the history that holds a version; None if none does. Asked once per commit: by names alone."""
    number, folder = f"{version:020d}", table / HISTORY
    names = (n for n in files.names(folder) if n[:20] <= number <= n[21:41] and NAME.fullmatch(n))
    return folder / name if (name := next(names, None)) else None


def place_of(table: Path, version: int) -> Path:
    """The file that holds a commit: in the log, else in the history."""
    file = commit_file(table, version)
    return file if files.exists(file) else archive_of(table, version) or file


def commit_lines(table: Path, version: int) -> Iterator[bytes]:
    """The lines of a commit, in the log or its history; raises OSError if in neither, ValueError if damaged."""
    try:
        yield from files.lines(commit_file(table, version))
    except FileNotFoundError:
        yield from archived_lines(table, version)


def archived_lines(table: Path, version: int) -> Iterator[bytes]:
    """The lines of a commit in the history; raises as `commit_lines` does."""
    if (file := archive_of(table, version)) is None:
        raise FileNotFoundError(commit_file(table, version))
    yield from files.zipped_lines(file, commit_file(table, version).name)


def archived_digest(table: Path, version: int) -> str:
    """SHA-256 of the bytes of a commit in the history; raises as `commit_lines` does."""
    return hashlib.sha256(b"".join(archived_lines(table, version))).hexdigest()


def unpack(table: Path) -> None:
    """Put every commit of the history back into the log, then delete the history. The caller holds the table's lock.
    Stopped at any moment, every commit is in one of both places. Raises as `commit_lines` does."""
    for span, file in archives(table).items():
        for version in span:
            if not files.exists(target := commit_file(table, version)):
                files.write_lines(target, archived_lines(table, version))
        files.delete(file)
    files.delete_empty(table / HISTORY, table)
