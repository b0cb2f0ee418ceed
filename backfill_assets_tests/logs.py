"""A table's log by its folder, for tests that look into it, or harm it.
Here: functions of `kernel.log.log` and `kernel.log.state_files` that take a path, and the paths of
their files. Not here: making commits (`builders`)."""

from collections.abc import Iterator
from pathlib import Path

from backfill_assets.kernel.log import log, state_files
from backfill_assets.kernel.log.log import Commit
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.port import Place


def place_of(table: Path | Place) -> Place:
    """The place in a folder."""
    return Folder(str(table)) if isinstance(table, Path) else table


def commit_file(table: Path | Place, version: int) -> Path:
    return place_of(table).local(log.commit_name(version))


def checkpoint_file(table: Path | Place, version: int) -> Path:
    return place_of(table).local(log.checkpoint_name(version))


def state_file(table: Path | Place, version: int) -> Path:
    return place_of(table).local(state_files.state_name(version))


def versions(table: Path | Place) -> list[int]:
    return log.commit_versions(place_of(table))


def commits(table: Path | Place, after: int = -1) -> Iterator[Commit]:
    return log.read_commits(place_of(table), after)


def read_commit(table: Path | Place, version: int) -> Commit:
    return log.read_commit(place_of(table), version)


def find_write(table: Path | Place, write_id: str, after: int = -1) -> int | None:
    return log.find_write(place_of(table), write_id, after)
