"""Forgotten entities: the record by which later deliveries of one stay out of every table, and erasing its traces.

Not here: its rows in landed files (`load.forget`). The record is `LAKE/.forgotten`: `key`, readable for the lake's
owner alone, and a JSON file per erasure, which becomes its certificate. Neither holds a value of an entity. Traces are
looked for in files of any kind, once no live row is of the entity. Delta's protocol wants commits kept, so the values
are written over in them; the digest of each rewritten commit is noted before, and `doctor` allows it. A short value is
found everywhere: it counts only behind its column's name, or that of a landed column which `select` makes it from.
"""

import contextlib
import gzip
import hmac
import json
import os
import re
import secrets
import sqlite3
import zipfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from backfill_assets.core.clock import utc_now
from backfill_assets.core.ownership import whoami
from backfill_assets.lake import files
from backfill_assets.lake.data_files import live_files
from backfill_assets.lake.embedded import connection, literal
from backfill_assets.lake.folder import CANDIDATES, FORGOTTEN, OWN_FOLDERS, SNAPSHOTS, LakeFolder
from backfill_assets.lake.log import HINT, commits, file_changes, open_delta
from backfill_assets.lake.log_history import LOG, archives, unpack

REASON = "[forgotten]"  # of a row in quarantine, which keeps nothing else of it
BETWEEN = "\x1f"  # the values of one entity
BLOCK_BYTES, INNER, OUTER = 64, 0x36, 0x5C  # of HMAC-SHA256 (RFC 2104)
SHORT, SHORT_DIGITS = 4, 6  # characters; digits alone are rows, versions and sizes, too
BEFORE, BEHIND = r"(^|[^\w-]|\\[nrtbf])", r"($|[^\w-])"  # no lookaround, which DuckDB's patterns lack
WHOLE = r"(^\s*|[\"'`,;|\t\[({=:]\s*|\\[nrt])", r"(\s*$|\s*[\"'`,;|\t\])}]|\\[nrt\"])"
PARQUET, GZIP, ZIP, SQLITE = b"PAR1", b"\x1f\x8b", b"PK", b"SQLite format 3\0"
COPIES = (*(f for f in OWN_FOLDERS[1:] if f != CANDIDATES), ".server", ".staging")  # all but the tables
TEXTS, DATABASES = (".json", ".log", ".txt", ".html", ".csv", ".sql"), (".db", ".db-wal", ".db-shm")


@dataclass(frozen=True)
class Erasure:
    """One erasure: its file, and what was done so far; `finished_at` stands in it once nothing was left."""

    path: Path
    done: dict[str, Any]

    def keep(self) -> None:
        """Write what was done so far."""
        files.write_json(self.path, self.done)


def is_forgotten(lake: LakeFolder) -> str:
    """Spark SQL that says whether a delivery of the lake's source is of a forgotten entity; empty if none can be. It is
    HMAC in the engine's own words: no value of an entity stands in a plan or a log."""
    found, payload = set[str](), {c.name for c in lake.settings.source.payload_columns}
    for erasure in erasures(lake):
        columns = erasure.done["columns"]
        if {*columns} <= payload:
            key = _key(lake).read_bytes().ljust(BLOCK_BYTES, b"\0")
            inner, outer = (bytes(k ^ byte for k in key).hex() for byte in (INNER, OUTER))
            text = f", '{BETWEEN}', ".join(f"CAST({c} AS STRING)" for c in columns)  # NULL of a NULL
            once = f"unhex(sha2(concat(X'{inner}', encode(concat({text}), 'UTF-8')), 256))"
            found.add(f"coalesce(sha2(concat(X'{outer}', {once}), 256) = '{erasure.done['hash']}', false)")
    return " OR ".join(sorted(found))


def erasures(lake: LakeFolder) -> list[Erasure]:
    """Every erasure of the lake, oldest first; raises OSError or ValueError if one cannot be read."""
    paths = sorted(_folder(lake) / n for n in files.names(_folder(lake)) if n.endswith(".json"))
    return [Erasure(path, json.loads(path.read_text(encoding="utf-8"))) for path in paths]


def rewritten_commits(lake: LakeFolder, table: str) -> dict[int, set[str]]:
    """The commits of a table that erasures rewrote: by version the digests of what they left there."""
    found = defaultdict[int, set[str]](set)
    for erasure in erasures(lake):
        for version, digest in erasure.done["commits"].get(table, {}).items():
            found[int(version)].add(digest)
    return dict(found)


def with_heirs(lake: LakeFolder, contents: Iterable[str]) -> frozenset[str]:
    """These landed contents (SHA-256), and what erasures made of them."""
    found = set(contents)
    for erasure in erasures(lake):
        found.update(f["after"] for f in erasure.done["landed"] if f["before"] in found and "after" in f)
    return frozenset(found)


def begin_erasure(lake: LakeFolder, values: Mapping[str, str], note: str) -> Erasure:
    """Record the entity (its value per column) as forgotten, or find the erasure of it that was not finished. From now
    on no load takes a row of it."""
    key, folder = _key(lake), _folder(lake)
    files.make_folder(folder)
    if not files.exists(key):
        part = folder / f"key.{os.getpid()}"
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as sink:  # noqa: PTH123
            sink.write(secrets.token_bytes(BLOCK_BYTES // 2))
        files.publish(part, key)
    hashed = hmac.new(key.read_bytes(), BETWEEN.join(values.values()).encode(), "sha256").hexdigest()
    known = erasures(lake)
    if unfinished := [e for e in known if e.done["hash"] == hashed and "finished_at" not in e.done]:
        return unfinished[0]
    body = {"hash": hashed, "columns": list(values), "by": whoami(), "note": note, "began_at": utc_now().isoformat()}
    made = Erasure(folder / f"{len(known) + 1:05d}.json", {**body, "landed": [], "commits": {}, "deleted": {}})
    made.keep()
    return made


def _folder(lake: LakeFolder) -> Path:
    return (lake.shared or lake.root) / FORGOTTEN


def _key(lake: LakeFolder) -> Path:
    return _folder(lake) / "key"


@dataclass(frozen=True)
class Trace:
    """An entity as text: the value of each of its columns. A line or row holds it if it holds all the values.

    `landed`: per column the names of the landed columns that it is made from. `is_whole`: each value between quotes or
    separators alone, not as a part of a longer one.
    """

    values: Mapping[str, str]
    landed: Mapping[str, Collection[str]] = field(default_factory=dict)
    is_whole: bool = False

    @cached_property
    def patterns(self) -> tuple[str, ...]:
        """A regular expression per value, for Python and for DuckDB, that knows it plain and escaped once or twice."""
        found, (before, behind) = [], WHOLE if self.is_whole else (BEFORE, BEHIND)
        for column, value in self.values.items():
            escaped = [json.dumps(value, ensure_ascii=ascii)[1:-1] for ascii in (False, True)]
            forms = dict.fromkeys((value, *escaped, *(json.dumps(e)[1:-1] for e in escaped)))
            either = "|".join(re.escape(form).replace("\\ ", " ") for form in forms)
            is_short = len(value) < (SHORT_DIGITS if value.isdigit() else SHORT)
            names = "|".join(map(re.escape, sorted({column, *self.landed.get(column, ())})))
            lead = rf"{BEFORE}(?:{names})[\"'\\]*[:=\s]+[\"'\\]*" if is_short else before
            found.append(f"({lead})(?:{either}){behind}")
        return tuple(found)

    def is_in(self, text: bytes) -> bool:
        """Whether a line or row holds the entity."""
        return all(re.search(p.encode(), text) for p in self.patterns)

    def masked(self, line: bytes) -> bytes:
        """The line with the values written over, each by as many signs: receipts count the characters of texts."""
        if self.is_in(line):
            for pattern, value in zip(self.patterns, self.values.values(), strict=True):
                sign = ("8" if set(value) == {"9"} else "9") if value.isdigit() else "#"
                instead = rf"\g<1>{sign * len(value)}\g<3>".encode()
                while re.search(pattern.encode(), line):  # neighbours share the sign between them
                    line = re.sub(pattern.encode(), instead, line)
        return line


def traced(lake: LakeFolder, roots: Collection[Path], trace: Trace) -> list[Path]:
    """The files below some folders that hold the entity, ascending; those that vanish meanwhile are left out."""
    found = {path for root in roots for path in files.below(root) if path.is_file() and not path.is_symlink()}
    return sorted(path for path in found if holds(lake, path, trace))


def holds(lake: LakeFolder, path: Path, trace: Trace) -> bool:
    """Whether a file holds the entity in its bytes, or in what they decode to: Parquet, gzip, zip, rows of SQLite."""
    with contextlib.suppress(FileNotFoundError):
        head, tail = files.ends(path, len(SQLITE))
        if head.startswith(PARQUET) and tail.endswith(PARQUET) and _in_parquet(lake, path, trace):
            return True
        lines = _unpacked(path) if head.startswith((GZIP, ZIP)) else files.lines(path)
        return any(map(trace.is_in, lines)) or (head == SQLITE and any(map(trace.is_in, _rows(path))))
    return False


def _in_parquet(lake: LakeFolder, path: Path, trace: Trace) -> bool:
    import duckdb

    rows = f"SELECT to_json(t)::VARCHAR AS row FROM read_parquet({literal(str(path))}, hive_partitioning = false) AS t"
    held = " AND ".join("regexp_matches(row, ?)" for _ in trace.patterns)
    with contextlib.suppress(duckdb.Error), connection(lake) as engine:  # a torn file is bytes like any other
        return bool(engine.execute(f"SELECT 1 FROM ({rows}) WHERE {held} LIMIT 1", list(trace.patterns)).fetchone())
    return False


def _unpacked(path: Path) -> Iterator[bytes]:
    if zipfile.is_zipfile(path):
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            for name in zipfile.ZipFile(path).namelist():
                yield from files.zipped_lines(path, name)
        return
    with contextlib.suppress(OSError, EOFError), gzip.open(path) as lines:
        yield from lines


def _rows(path: Path) -> Iterator[bytes]:
    """Every row of every table of a database, its cells side by side."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as opened:
        for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in opened.execute(f'SELECT * FROM "{name}"'):
                yield b" ".join(cell if isinstance(cell, bytes) else str(cell).encode() for cell in row)


def erase(lake: LakeFolder, trace: Trace, erasure: Erasure) -> None:
    """Erase every trace below the lake's own folders, and note how many files per folder. Live data files stay as they
    are, and so do Dagster's databases, candidates and the data of snapshots.

    Of partitions written since the erasure began every older file goes: its rows may be of the entity without its name.
    """
    for table in sorted(path.parent for path in lake.tables.glob(f"*/{LOG}")):
        with files.table_lock(lake.locks, table.name):
            if any(holds(lake, f, trace) for f in (*archives(table).values(), *(table / LOG).glob("*.parquet"))):
                unpack(table)
            live = {str(table / f.path) for f in live_files(open_delta(table), "")}
            old = {table / name for name in _replaced(table, str(erasure.done["began_at"]))}
            for path in sorted({*traced(lake, [table], trace), *(p for p in old if files.exists(p))}):
                if path.parent.name == LOG and path.suffix == ".json":
                    _rewrite_commit(path, live, trace, erasure)
                elif str(path) not in live:
                    _delete(path, table.name, erasure)
                    if path.parent.name == LOG:
                        files.delete(path.parent / HINT)  # it may name this checkpoint; readers do without
    for path in traced(lake, [lake.root / name for name in COPIES], trace):
        if path.suffix in TEXTS:
            _write_over(path, trace.masked)
        elif path.suffix not in DATABASES and not path.is_relative_to(lake.root / SNAPSHOTS):
            _delete(path, path.relative_to(lake.root).parts[0], erasure)
    erasure.keep()


def _replaced(table: Path, since: str) -> set[str]:
    """The data files that the log named before in partitions of which a commit since then (ISO) took files out."""
    named, gone = defaultdict[str, set[str]](set), set[str]()
    for commit in commits(table):
        for change in file_changes(table, commit.version):
            partition = json.dumps(change.values, sort_keys=True)
            named[partition].add(change.path)
            if not change.is_added and commit.at >= datetime.fromisoformat(since):
                gone.add(partition)
    return {path for partition in gone for path in named[partition]}


def _delete(path: Path, place: str, erasure: Erasure) -> None:
    files.delete(path)
    erasure.done["deleted"][place] = erasure.done["deleted"].get(place, 0) + 1


def _rewrite_commit(path: Path, live: set[str], trace: Trace, erasure: Erasure) -> None:
    """Write over the entity in a commit, but not in the bounds of live files: their rows are of others."""
    table = path.parent.parent

    def written(line: bytes) -> bytes:
        added = json.loads(line).get("add") if trace.is_in(line) else None
        return line if added and str(table / unquote(added["path"])) in live else trace.masked(line)

    def noted(part: Path) -> None:
        digests = erasure.done["commits"].setdefault(table.name, {})
        digests[str(int(path.stem))] = files.sha256_of_bytes(part)
        erasure.keep()

    _write_over(path, written, noted)


def _write_over(path: Path, written: Callable[[bytes], bytes], noted: Callable[[Path], object] = str) -> None:
    """Replace a text by its lines as they are `written`, atomically, after the new file was `noted`."""
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as sink:
        sink.writelines(map(written, files.lines(path)))
    noted(part)
    files.publish(part, path)


def compact(databases: Collection[Path]) -> None:
    """Write SQLite files anew, so that no deleted row stays in their bytes. A database in use stays as it is."""
    for path in databases:
        with contextlib.suppress(sqlite3.OperationalError), contextlib.closing(sqlite3.connect(path)) as opened:
            opened.execute("VACUUM")
            opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
