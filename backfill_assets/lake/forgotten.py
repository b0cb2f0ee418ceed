"""Forgotten entities: the record by which later deliveries of one stay out of every table, and erasing their traces.

Not here: finding traces (`traces`), and rows in landed files (`load.forget`). The record is `LAKE/.forgotten`: `key`,
readable for the lake's owner alone, and a JSON file per erasure, which becomes its certificate. Neither holds a value
of an entity. Traces go once no live row is of the entity. Delta's protocol wants commits kept, so the values are
written over in them; the digest of each rewritten commit is noted before, and `doctor` allows it.
"""

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from backfill_assets.core.clock import utc_now
from backfill_assets.core.ownership import whoami
from backfill_assets.lake import files
from backfill_assets.lake.folder import CANDIDATES, FORGOTTEN, OWN_FOLDERS, SNAPSHOTS, LakeFolder
from backfill_assets.lake.log import HINT, commits, file_changes
from backfill_assets.lake.log_history import LOG, archives, commit_file, logged, unpack
from backfill_assets.lake.staging import STAGING
from backfill_assets.lake.traces import Trace, holds, live_names, named_file, traced

REASON = "[forgotten]"  # of a row in quarantine, which keeps nothing else of it
BETWEEN = "\x1f"  # the values of one entity
BLOCK_BYTES, INNER, OUTER = 64, 0x36, 0x5C  # of HMAC-SHA256 (RFC 2104)
BOUNDS = ("minValues", "maxValues")  # of the columns of a data file, in a log
COPIES = (*(f for f in OWN_FOLDERS[1:] if f != CANDIDATES), ".server", STAGING)  # all but the tables
TEXTS, DATABASES = (".json", ".log", ".txt", ".html", ".csv", ".sql"), (".db", ".db-wal", ".db-shm")


@dataclass(frozen=True)
class Erasure:
    """One erasure: its file, and what was done so far; `finished_at` is in it once no trace was left."""

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


def erased_since(lake: LakeFolder, moment: datetime) -> bool:
    """Whether an erasure is not finished, or was finished after that moment (aware)."""
    ends = (e.done.get("finished_at") for e in erasures(lake))
    return any(end is None or datetime.fromisoformat(end) > moment for end in ends)


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


def erase(lake: LakeFolder, trace: Trace, erasure: Erasure) -> None:
    """Erase every trace below the lake's own folders, and note how many files per folder. Live data files stay as they
    are, and so do Dagster's databases, candidates and the data of snapshots.

    In partitions written since the erasure began, every older file is deleted with its bounds: they may be of the
    entity without its name.
    """
    for table in sorted(path.parent for path in lake.tables.glob(f"*/{LOG}")):
        with files.table_lock(lake.locks, table.name):
            live, log = live_names(table), table / LOG
            old = _replaced(table, str(erasure.done["began_at"])) - live
            if old or any(holds(lake, f, trace) for f in (*archives(table).values(), *log.glob("*.parquet"))):
                unpack(table)
            for version in logged(table):
                _rewrite_commit(commit_file(table, version), live, old, trace, erasure)
            bounds = log.glob("*.checkpoint.parquet") if old else ()
            for path in sorted(
                {*traced(lake, [table], trace), *bounds, *filter(files.exists, (table / n for n in old))}
            ):
                if path.relative_to(table).as_posix() not in live and (path.parent != log or path.suffix != ".json"):
                    _delete(path, table.name, erasure)
                    if path.parent == log:
                        files.delete(log / HINT)  # it may name this checkpoint; readers do without
    for path in traced(lake, [lake.root / name for name in COPIES], trace):
        if path.suffix in TEXTS:
            files.write_lines(path, map(trace.masked, files.lines(path)))
        elif path.suffix not in DATABASES and not path.is_relative_to(lake.root / SNAPSHOTS):
            _delete(path, path.relative_to(lake.root).parts[0], erasure)
    erasure.keep()


def _replaced(table: Path, since: str) -> set[str]:
    """Data files that the log has named, in partitions from which a commit after `since` (ISO) removed files."""
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


def _rewrite_commit(path: Path, live: set[str], old: set[str], trace: Trace, erasure: Erasure) -> None:
    """Write over the entity in a commit, and leave out the bounds of `old` files, which may hold it in a column of any
    name; not in the bounds of live files: their rows are of others."""

    def written(line: bytes) -> bytes:
        if (name := named_file(line)) in live:
            return line
        return trace.masked(_unbounded(line) if name in old else line)

    before = [*files.lines(path)]
    if before != (after := [*map(written, before)]):
        digest = hashlib.sha256(b"".join(after)).hexdigest()
        erasure.done["commits"].setdefault(path.parent.parent.name, {})[str(int(path.stem))] = digest
        erasure.keep()  # first: it says which bytes are ours
        files.write_lines(path, after)


def _unbounded(line: bytes) -> bytes:
    """A line that adds or removes a data file without the least and the greatest values of its columns."""
    action = json.loads(line)
    change = action.get("add") or action["remove"]
    stats = json.loads(change.get("stats") or "{}")
    if not stats.keys() & {*BOUNDS}:
        return line
    change["stats"] = json.dumps({k: v for k, v in stats.items() if k not in BOUNDS})
    return json.dumps(action).encode() + b"\n"


def compact(databases: Collection[Path]) -> None:
    """Rewrite SQLite files, so that no deleted row stays in their bytes. A database in use stays as it is."""
    for path in databases:
        with contextlib.suppress(sqlite3.OperationalError), contextlib.closing(sqlite3.connect(path)) as opened:
            opened.execute("VACUUM")
            opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
