"""The content store: one Parquet file per landed content, named by its SHA-256; Spark reads these, never the landing.

Not here: writing the Parquet file (`ingest`) and which contents have landed (`lake.ledger`). The store holds copies,
and links only to data files of Delta tables, which nobody alters; it may be deleted at any time and is filled again.
"""

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

from backfill_assets.core.digests import digest_of

VERSION = 2  # of the ingest rules and of these descriptions; a greater one ingests every content again
PARSER_VERSION = 1  # of the text parsers; raise it whenever a file could be parsed differently
# Of a content, as described.
KEPT = ("types", "schema", "absent_is_null", "rows", "bad_rows", "inexact", "refused", "partition")
DIGEST_CHARS = 64
DIALECT = "dialect"  # in a description: what is not as in plain text files; earlier releases knew no other
ABSENT_IS_NULL = {"jsonl", "delta"}  # a JSON object may leave out what it does not know, a table got columns later


@dataclass(frozen=True)
class StoredFile:
    """A landed content in the store: its sha256 (of the bytes, or of these and the path: `identity`), the parquet to
    read (named by it), and the types of a text file's columns (STRING, BIGINT, BOOLEAN; empty for parquet).

    `first_scan` (aware) and `home_day`, the day of rows without a usable arrival time, are the ledger's; an ingest does
    not know them. `rows` counts all records apart from Spark, `bad_rows` the unusable ones among them. `inexact`:
    column -> why its values differ from the landed file. `refused`: why no row of it can be judged; it then counts as
    one unusable row with number 0 and is not read. `path`: its path below the landing's root, if its rows depend on
    that, and `path_day`: the day that this names. `content`: the SHA-256 of the bytes of a parquet file. `origin`:
    where an erasure took records out, the content as it landed and the numbers of these records, ascending; the
    other records keep their place in the order of all, and their default `seq`.
    """

    sha256: str
    parquet: Path
    types: Mapping[str, str] = field(default_factory=dict)
    schema: str = ""
    first_scan: datetime | None = None
    home_day: date | None = None
    absent_is_null: bool = False
    rows: int = 0
    inexact: Mapping[str, str] = field(default_factory=dict)
    refused: str | None = None
    path: str = ""
    path_day: date | None = None
    bad_rows: int = 0
    content: str = ""
    origin: tuple[str, tuple[int, ...]] | None = None
    # Of a table's data file: the type and the value (a text) of each column that its rows share and the file lacks.
    partition: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)
    commit: tuple[int, datetime] | None = None  # of a table: the version that brought the content, and its time

    @property
    def kind(self) -> tuple[str, str, bool, str, str]:
        """The key of files that one frame can read together."""
        laid_out = digest_of({name: kind for name, (kind, _) in self.partition.items()})
        return self.schema, digest_of(dict(self.types)), self.absent_is_null, digest_of(dict(self.inexact)), laid_out


def identity(sha256: str, path: str) -> str:
    """The name (64 hexadecimal digits) of a content whose rows depend on its path."""
    return hashlib.sha256(f"{sha256} {path}".encode()).hexdigest()


def ingest_rules(format: str, limits: Sequence[int], dialect: Mapping[str, Any]) -> dict[str, Any]:
    """The rules of an ingest as its description names them; an entry of other rules is ingested again."""
    return {"version": VERSION, "format": format, "limits": list(limits), DIALECT: dict(dialect)}


def put(store: Path, ingested: StoredFile, rules: Mapping[str, Any]) -> StoredFile:
    """Describe a content whose parquet lies in the store, as the last step of its ingest; return what `find` finds."""
    schema, is_null = _schema_digest(ingested.parquet), rules["format"] in ABSENT_IS_NULL
    described = replace(ingested, schema=schema, absent_is_null=is_null)
    proof = {"sha256": _sha256(ingested.parquet), "content": ingested.content or ingested.sha256}
    body = {**rules, "parquet": ingested.parquet.name, **proof, **{name: getattr(described, name) for name in KEPT}}
    path = _description(store, ingested.sha256)
    partial = path.with_suffix(f".{os.getpid()}.partial")
    try:
        partial.write_text(json.dumps(body, sort_keys=True), encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return described


def find(
    store: Path, sha256: str, first_scan: datetime | None = None, home_day: date | None = None,
    rules: Mapping[str, Any] | None = None,
) -> StoredFile | None:  # fmt: skip
    """Find a content and prove its bytes; None if it is absent, altered, or described by others than these `rules`."""
    body = _proven(store, sha256)
    if body is None or (rules and not {**rules}.items() <= body.items()):
        return None
    kept = {name: body[name] for name in KEPT if name in body}
    return StoredFile(sha256, store / body["parquet"], first_scan=first_scan, home_day=home_day, **kept)


def copy_path(store: Path, sha256: str, format: str) -> Path:
    """The path of a content's copy: the 64 digits of the content, the format and the parser version."""
    return store / f"{sha256}.{format}-{PARSER_VERSION}.parquet"


def is_in(store: Path, sha256: str) -> bool:
    """Whether the store has the rows of a table's content; that their bytes are as described is not proven."""
    return any(path.exists() for path in (copy_path(store, sha256, "delta"), store / f"{sha256}.us.parquet"))


def copies(store: Path) -> dict[str, int]:
    """The bytes that the store takes for each content, by its name; lists one folder."""
    found = defaultdict[str, int](int)
    for entry in os.scandir(store) if store.is_dir() else ():
        name, _, ending = entry.name.partition(".")
        if ending and len(name) == DIGEST_CHARS:
            found[name] += entry.stat(follow_symlinks=False).st_size
    return dict(found)


def discard(store: Path, sha256: str) -> None:
    """Remove all files of a content, so that it is ingested from the landing again.

    Unlinks every possible name: listing the whole store for each content would be quadratic.
    """
    parsed = (
        f"{kind}-{n}.parquet" for kind in ("csv", "jsonl", "parquet", "delta") for n in range(1, PARSER_VERSION + 1)
    )
    for ending in ("json", "parquet", "us.parquet", *parsed):
        (store / f"{sha256}.{ending}").unlink(missing_ok=True)


def _proven(store: Path, sha256: str) -> dict[str, Any] | None:
    """The description of a content whose parquet still has the bytes that `put` described, else None.

    Reads the file once, about a second per gigabyte: rows of another content must not pass under this name.
    """
    try:
        body: Any = json.loads(_description(store, sha256).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    if not isinstance(body, dict) or body.get("version") != VERSION:
        return None
    body.setdefault(DIALECT, {})
    exact = body["parquet"] != f"{sha256}.parquet" or body["sha256"] == body.get("content", sha256)
    return body if exact and body["sha256"] == _sha256(store / str(body["parquet"])) else None


def _description(store: Path, sha256: str) -> Path:
    return store / f"{sha256}.json"


def _sha256(path: Path) -> str:
    """The SHA-256 of a file of the store; an empty text without one."""
    try:
        with path.open("rb") as source:
            return hashlib.file_digest(source, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


def _schema_digest(parquet: Path) -> str:
    import pyarrow.parquet as pq

    schema = pq.read_schema(parquet).remove_metadata()
    return digest_of(sorted([f.name, str(f.type)] for f in schema))
