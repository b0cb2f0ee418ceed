"""An object store whose every request stops the process that asks, and may go wrong.

It stands where `obstore` does (`buckets.objects` calls these functions), and keeps its objects as
files of a folder, which delta-rs and DuckDB open by their paths. Here: objects, their tokens by the
story's clock, and listings. Not here: which fault a request meets (`faults`), and who runs
(`scheduler`).
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from obstore import exceptions as obstore_exceptions

from backfill_assets_tests.simulation.faults import Faults
from backfill_assets_tests.simulation.scheduler import Scheduler

T = TypeVar("T")


@dataclass
class _Known:
    """What the store knows of an object besides its bytes."""

    e_tag: str
    at: float
    mark: tuple[int, int, int]  # of its file: others (delta-rs) write objects, too
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass
class Store:
    """The objects of one bucket, in a folder."""

    folder: Path
    scheduler: Scheduler
    faults: Faults
    watch: Callable[[str, bytes | None], None] = lambda *_: None  # is told of writes and deletes
    _known: dict[str, _Known] = field(default_factory=dict)
    _written: int = 0
    exceptions: Any = obstore_exceptions

    def path(self, key: str) -> Path:
        """Where an object's bytes lie."""
        return Path(f"{self.folder}/{key}")

    def request(self, kind: str, key: str, effect: Callable[[], T]) -> T:
        """Let others go on, then do something atomic to an object, with the fault that it meets."""
        if not self.scheduler.is_within or self.scheduler.process.watches:
            return effect()
        self.scheduler.stop(f"{kind} {key}")
        return self.faults.meet(kind, key, effect)

    def _note(self, key: str, content: bytes | None) -> None:
        """Tell of an object that is written, or deleted (None)."""
        self.watch(key, content)
        if self.scheduler.is_within:
            is_new = not self.path(key).is_file()
            self.scheduler.process.note_object(key, content is not None, is_new)

    def _known_of(self, key: str) -> _Known:
        """Raises FileNotFoundError."""
        status = os.stat(f"{self.folder}/{key}")  # noqa: PTH116  # paths took a tenth of the time
        mark = status.st_ino, status.st_size, status.st_mtime_ns
        known = self._known.get(key)
        if known is None or known.mark != mark:
            self._written += 1
            known = _Known(f'"{self._written}"', self.scheduler.now, mark)
            self._known[key] = known
        return known

    def _meta(self, key: str) -> dict[str, Any]:
        known = self._known_of(key)
        # Times of objects are whole seconds.
        changed = datetime.fromtimestamp(int(known.at), UTC)
        return {
            "path": key,
            "size": known.mark[1],
            "e_tag": known.e_tag,
            "last_modified": changed,
            "version": None,
        }

    def _below(self, prefix: str) -> list[str]:
        """The keys that begin with a prefix, ascending."""
        found = _names_below(f"{self.folder}/", prefix.rpartition("/")[0])
        return sorted(key for key in found if key.startswith(prefix) and ".tmp" not in key)

    def list_with_delimiter(self, _store: object, prefix: str | None) -> dict[str, list[Any]]:
        """As obstore's: what lies directly below a prefix."""
        prefix = prefix or ""

        def listed() -> dict[str, list[Any]]:
            objects, folders = list[dict[str, Any]](), set[str]()
            for key in self._below(prefix):
                first, _, rest = key.removeprefix(prefix).partition("/")
                if rest:
                    folders.add(prefix + first)
                else:
                    objects.append(self._meta(key))
            return {"objects": objects, "common_prefixes": sorted(folders)}

        return self.request("list", prefix, listed)

    def list(
        self, _store: object, prefix: str | None, *, offset: str | None, chunk_size: int
    ) -> Iterator[list[dict[str, Any]]]:
        """As obstore's: objects at any depth, of keys behind `offset`."""

        def listed() -> list[dict[str, Any]]:
            return [self._meta(k) for k in self._below(prefix or "") if k > (offset or "")]

        behind = f" behind {offset}" if offset else ""
        yield self.request("list", f"{prefix or ''}{behind}", listed)

    def head(self, _store: object, key: str) -> dict[str, Any]:
        """As obstore's."""
        return self.request("look", key, lambda: self._meta(key))

    def get(self, _store: object, key: str, options: Mapping[str, Any] | None = None) -> Any:
        """As obstore's, with a range, a condition, or for its attributes alone."""
        options = options or {}

        def got() -> Any:
            meta, content = self._meta(key), self.path(key).read_bytes()
            if options.get("if_match", meta["e_tag"]) != meta["e_tag"]:
                raise self.exceptions.PreconditionError(key)
            start, end = 0, len(content)
            match options.get("range"):
                case {"suffix": last}:
                    start = max(0, end - last)
                case (first, behind):
                    start, end = first, behind
            return SimpleNamespace(
                meta=meta,
                range=(start, end),
                bytes=lambda: content[start:end],
                stream=lambda _size: iter([content]),
                attributes=self._known_of(key).attributes,
            )

        return self.request("read", key, got)

    def put(
        self,
        _store: object,
        key: str,
        content: Any,
        *,
        mode: Any = "overwrite",
        attributes: Mapping[str, str] | None = None,
        **_how: object,
    ) -> dict[str, Any]:
        """As obstore's: atomic, and under a condition if `mode` says so."""

        def done() -> dict[str, Any]:
            self._refuse_unmet(key, mode)
            return self._write(key, _bytes_of(content), dict(attributes or {}))

        kind = "write" if mode == "overwrite" else "write if"
        return self.request(kind, key, done)

    def _refuse_unmet(self, key: str, mode: Any) -> None:
        """Raise obstore's error where the condition of a write does not hold."""
        is_there = self.path(key).is_file()
        if mode == "create" and is_there:
            raise self.exceptions.AlreadyExistsError(key)
        is_same = is_there and isinstance(mode, dict) and self._known_of(key).e_tag == mode["e_tag"]
        if isinstance(mode, dict) and not is_same:
            raise self.exceptions.PreconditionError(key)

    def _write(self, key: str, content: bytes, attributes: dict[str, str]) -> dict[str, Any]:
        self._note(key, content)
        path = self.path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self._known.pop(key, None)
        self._known_of(key).attributes = attributes
        return {"e_tag": self._known_of(key).e_tag, "version": None}

    def copy(self, _store: object, source: str, key: str) -> None:
        """As obstore's."""
        self.request("copy", key, lambda: self._write(key, self.path(source).read_bytes(), {}))

    def delete(self, _store: object, keys: Sequence[str]) -> None:
        """As obstore's: harmless for objects that are gone."""

        def done() -> None:
            for key in keys:
                self._note(key, None)
                self.path(key).unlink(missing_ok=True)
                self._known.pop(key, None)

        more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
        self.request("delete", f"{keys[0]}{more}", done)

    def lay_out(self, kept: Path) -> None:
        """Begin with the objects of a folder."""
        shutil.copytree(kept, self.folder, dirs_exist_ok=True)
        for key in self._below(""):
            self.watch(key, self.path(key).read_bytes())


def _names_below(root: str, folder: str) -> Iterator[str]:
    """Yield the names of the files at any depth below a folder ("": `root` itself)."""
    above = f"{folder}/" if folder else ""
    try:
        entries = [*os.scandir(root + above)]
    except (FileNotFoundError, NotADirectoryError):  # there is nothing below an object's key
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _names_below(root, above + entry.name)
        else:
            yield above + entry.name


def _bytes_of(content: Any) -> bytes:
    if isinstance(content, bytes):
        return content
    if isinstance(content, Path):
        return content.read_bytes()
    found: bytes = content.read()
    return found
