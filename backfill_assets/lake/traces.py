"""Traces of an entity: the files of any kind that hold it, in their bytes or in what these decode to.

Not here: erasing them (`forgotten`). A short value is found everywhere: it counts only behind its column's name, or
that of a landed column which `select` makes it from.
"""

import contextlib
import gzip
import json
import re
import sqlite3
import zipfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote

from backfill_assets.lake import files
from backfill_assets.lake.data_files import live_files
from backfill_assets.lake.embedded import connection, literal
from backfill_assets.lake.folder import LakeFolder
from backfill_assets.lake.log import open_delta
from backfill_assets.lake.log_history import LOG

SHORT, SHORT_DIGITS = 4, 6  # characters; digits alone are rows, versions and sizes, too
BEFORE, BEHIND = r"(^|[^\w-]|\\[nrtbf])", r"($|[^\w-])"  # no lookaround, which DuckDB's patterns lack
WHOLE = r"(^\s*|[\"'`,;|\t\[({=:]\s*|\\[nrt])", r"(\s*$|\s*[\"'`,;|\t\])}]|\\[nrt\"])"
PARQUET, GZIP, ZIP, SQLITE = b"PAR1", b"\x1f\x8b", b"PK", b"SQLite format 3\0"


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
    """Whether a file holds the entity in its bytes, or in what they decode to: Parquet, gzip, zip, rows of SQLite.

    Of an entity of several columns the bounds of live files, in a log, do not count: they may be of different rows.
    """
    with contextlib.suppress(FileNotFoundError):
        head, tail = files.ends(path, len(SQLITE))
        if head.startswith(PARQUET) and tail.endswith(PARQUET) and _in_parquet(lake, path, trace):
            return True
        found: Iterator[bytes] = filter(
            trace.is_in, _unpacked(path) if head.startswith((GZIP, ZIP)) else files.lines(path)
        )
        if len(trace.values) > 1 and path.parent.name == LOG and path.suffix == ".json" and (held := list(found)):
            live = live_names(path.parent.parent)
            found = (line for line in held if named_file(line) not in live)
        return any(found) or (head == SQLITE and any(map(trace.is_in, _rows(path))))
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


def live_names(table: Path) -> set[str]:
    """The data files of a table's newest version."""
    return {f.path for f in live_files(open_delta(table), "")}


def named_file(line: bytes) -> str:
    """The data file that a line of a log adds or removes; empty if it is of none."""
    action = json.loads(line)
    return unquote((action.get("add") or action.get("remove") or {"path": ""})["path"])
