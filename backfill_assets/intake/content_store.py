"""The content store: one Parquet file per landed content, named by its SHA-256; Spark reads these,
never the landing.

Not here: writing the Parquet file (`ingest`) and which contents have landed (`intake.ledger`). The
store holds copies, and links: to data files of Delta tables in folders, which nobody alters, and to
landed files that are read where they lie, each with a mark that tells when to look again. It may be
deleted at any time and is filled again.
"""

import hashlib
import json
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

from backfill_assets.intake.files import StillChanging
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.port import Place

# Of the ingest rules and of these descriptions; a greater one ingests every content again.
VERSION = 2
PARSER_VERSION = 2  # of the text parsers; raise it whenever a file could be parsed differently
# Of a content, as described.
KEPT = (
    "types",
    "schema",
    "absent_is_null",
    "rows",
    "bad_rows",
    "inexact",
    "refused",
    "partition",
    "is_undecoded",
    "rows_before",
)
DIGEST_CHARS, MARK_KEY = 64, "mark"
# In a description: what is not as in plain text files.
DIALECT_KEY = "dialect"
# A JSON object may leave out what it does not know, a table got columns later.
ABSENT_IS_NULL = {
    "jsonl",
    "delta",
}


@dataclass(frozen=True)
class StoredFile:
    """A landed content in the store, as its description and the ledger have it."""

    sha256: (
        str  # of the bytes, or of these and the path (`content_name_by_path`): the content's name
    )
    store: Place
    # Of the Parquet file to read in the store; it begins with the content's; empty if it is not
    # read.
    name: str
    # of text: column -> type (`batches`); else empty
    types: Mapping[str, str] = field(default_factory=dict)
    schema: str = ""  # digest of the columns and types of the Parquet file
    first_scan: datetime | None = None  # aware; the ledger's, an ingest does not know it
    home_day: date | None = None  # the ledger's: the day of rows without a usable arrival time
    absent_is_null: bool = False  # a column that the file lacks is NULL in its rows
    rows: int = 0  # all records, counted apart from Spark
    # column -> why values differ from the landed file's
    inexact: Mapping[str, str] = field(default_factory=dict)
    refused: str | None = (
        # Why no row can be judged: it counts as one unusable row with number 0, and is not read.
        None
    )
    path: str = ""  # below the landing's root, if its rows depend on that
    path_day: date | None = None  # that the path names
    bad_rows: int = 0  # the unusable ones among `rows`
    content: str = ""  # SHA-256 of the bytes of a Parquet file
    # Where an erasure took records out: the content as it landed, and the numbers of these records,
    # ascending. The other records keep their place in the order of all, and their default `seq`.
    origin: tuple[str, tuple[int, ...]] | None = None
    # Of a table's data file: the type and the value (a text) of each column that its rows share and
    # the file lacks.
    partition: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)
    # Of a table: the version that brought the content, and its time.
    commit: tuple[int, datetime] | None = None
    # Of a table: what its columns are called now, by names that they had before.
    renamed: Mapping[str, str] = field(default_factory=dict)
    # Of a table: rows of its commit before its own; None: an earlier release took it in.
    rows_before: int | None = None
    is_undecoded: bool = False  # of Parquet: nobody looked into its pages before an engine does
    # In a store: its bytes stay on this machine, as long as it keeps them; nobody is sent them.
    is_local: bool = False
    # Of a landed file that is read where it lies, and of an object that a task put into a bucket:
    # the mark of its token at a moment when it had these bytes.
    mark: tuple[int | str, ...] = ()

    @property
    def parquet(self) -> Path:
        """The path of the Parquet file, for engines of this machine."""
        return self.store.local(self.name)

    @property
    def kind(self) -> tuple[str, str, bool, str, str]:
        """The key of files that one frame can read together."""
        laid_out = digest_of({name: kind for name, (kind, _) in self.partition.items()})
        return (
            self.schema,
            digest_of(dict(self.types)),
            self.absent_is_null,
            digest_of(dict(self.inexact)),
            laid_out,
        )


def content_name_by_path(sha256: str, path: str) -> str:
    """The name (64 hexadecimal digits) of a content whose rows depend on its path."""
    return hashlib.sha256(f"{sha256} {path}".encode()).hexdigest()


def ingest_rules(format: str, limits: Sequence[int], dialect: Mapping[str, Any]) -> dict[str, Any]:
    """The rules of an ingest as its description names them; an entry of other rules is ingested
    again."""
    return {
        "version": VERSION,
        "format": format,
        "limits": list(limits),
        DIALECT_KEY: dict(dialect),
    }


@contextmanager
def scratch_folder(store: Place) -> Iterator[Path]:
    """A new folder of this machine for files on their way into the store, deleted with what is left
    in it."""
    with tempfile.TemporaryDirectory(prefix=".writing-", dir=store.prepared("")) as folder:
        yield Path(folder)


def put_content(
    ingested: StoredFile, rules: Mapping[str, Any], finished: Path | None = None
) -> StoredFile:
    """Put a content's `finished` Parquet file into its store, unless it lies there, and its
    description, as the last step of its ingest; return what `find_content` finds. Nothing is
    synced: a copy that a power cut tears fails its proof."""
    if finished is not None:
        store = Folder(str(ingested.store.prepared(""))) if ingested.is_local else ingested.store
        store.put(ingested.name, finished, is_synced=False)
    schema, is_null = _schema_digest(ingested.parquet), rules["format"] in ABSENT_IS_NULL
    described = replace(ingested, schema=schema, absent_is_null=is_null)
    content = ingested.content or ingested.sha256
    proof: dict[str, Any] = {"content": content}
    if ingested.mark:
        proof |= {"sha256": content, MARK_KEY: ingested.mark}
    else:
        proof["sha256"] = _parquet_sha256(ingested)
    body = {
        **rules,
        "parquet": ingested.name,
        **proof,
        **{name: getattr(described, name) for name in KEPT},
    }
    ingested.store.write(f"{ingested.sha256}.json", json.dumps(body, sort_keys=True).encode())
    return described


def find_content(
    store: Place,
    sha256: str,
    first_scan: datetime | None = None,
    home_day: date | None = None,
    rules: Mapping[str, Any] | None = None,
) -> StoredFile | None:
    """Find a content and prove its bytes: of a landed file that is read where it lies by its mark,
    and by reading it where that moved. None if it is absent, altered, or described by others than
    these `rules`."""
    body = _prove_content(store, sha256)
    if body is None:
        return None
    if rules and not {**rules}.items() <= body.items():
        return None
    return replace(described_content(store, sha256, body), first_scan=first_scan, home_day=home_day)


def described_content(store: Place, sha256: str, body: Mapping[str, Any]) -> StoredFile:
    """A content as its description has it; proves nothing."""
    kept = {name: body[name] for name in KEPT if name in body}
    if body.get(MARK_KEY):
        kept |= {"content": body["content"], MARK_KEY: tuple(body[MARK_KEY])}
    return StoredFile(sha256, store, body["parquet"], **kept)


def note_mark(file: StoredFile) -> dict[str, Any]:
    """Note in the description of a content that was just put into a bucket the mark of its object,
    by which `find_content` proves it from now on without a byte of it; return the description.
    Raises StillChanging if it is gone."""
    name = f"{file.sha256}.json"
    body, token = file.store.read_json(name), file.store.token(file.name)
    if not body or token is None:
        raise StillChanging(file.store.uri(file.name))
    body[MARK_KEY] = [*token.mark]
    file.store.write(name, json.dumps(body, sort_keys=True).encode())
    return body


def note_decoded(file: StoredFile) -> StoredFile:
    """Note in the content's description that its pages were decoded without harm; return it as
    described now."""
    name = f"{file.sha256}.json"
    body = file.store.read_json(name) | {"is_undecoded": False}
    file.store.write(name, json.dumps(body, sort_keys=True).encode())
    return replace(file, is_undecoded=False)


def refuse_replaced(files: Iterable[StoredFile]) -> None:
    """Raise StillChanging, which names them all, where landed files that are read where they lie
    were touched since `find_content` proved their bytes: an engine would not notice. To be called
    when a query over the files has ended, before anything of it counts."""
    replaced = dict[str, StoredFile]()
    for file in files:
        if file.mark:
            token = file.store.token(file.name)
            if token is None or token.mark != file.mark:
                replaced[file.sha256] = file
    if replaced:
        first = next(iter(replaced.values()))
        raise StillChanging(file_location(first), frozenset(replaced))


def file_location(file: StoredFile) -> str:
    """The path of the file that is read where it landed, or the address of an object."""
    return file.store.uri(file.name) if file.store.is_store else str(file.parquet.resolve())


def copy_name(sha256: str, format: str) -> str:
    """The name of a content's copy: the 64 digits of the content, the format and the parser
    version."""
    return f"{sha256}.{format}-{PARSER_VERSION}.parquet"


def microsecond_copy_name(sha256: str) -> str:
    """The name of a Parquet content's copy whose timestamps were converted to microseconds."""
    return f"{sha256}.us.parquet"


def has_table_rows(store: Place, sha256: str, names: Collection[str]) -> bool:
    """Whether the store, which holds these `names`, has the rows of a table's content; that their
    bytes are as described is not proven. A folder may hold a link to a data file that is gone."""
    for name in (copy_name(sha256, "delta"), microsecond_copy_name(sha256)):
        if name in names and (store.is_store or store.exists(name)):
            return True
    return False


def copy_sizes(store: Place) -> dict[str, int]:
    """The bytes that the store takes for each content, by its name, without the files of tables
    that it links to."""
    found = defaultdict[str, int](int)
    for name, token in store.tokens().items():
        sha256, _, ending = name.partition(".")
        if ending and len(sha256) == DIGEST_CHARS:
            found[sha256] += token.size
    return dict(found)


def discard_content(store: Place, sha256: str) -> None:
    """Remove all files of a content, so that it is ingested from the landing again.

    Deletes every possible name: listing the whole store for each content would be quadratic.
    """
    parsed = (
        f"{kind}-{n}.parquet"
        for kind in ("csv", "jsonl", "parquet", "delta")
        for n in range(1, PARSER_VERSION + 1)
    )
    for ending in ("json", "parquet", "us.parquet", *parsed):
        store.delete(f"{sha256}.{ending}")


def discard_described(store: Place, sha256: str) -> None:
    """Remove all files of a content before it is ingested anew; nothing without a description, as
    of new contents."""
    if store.exists(f"{sha256}.json"):
        discard_content(store, sha256)


def _prove_content(store: Place, sha256: str) -> dict[str, Any] | None:
    """The description of a content whose Parquet file still has the bytes that `put_content`
    described, else None: rows of another content must not pass under this name.

    A file whose mark is as noted is proven without a byte of it. Any other is read once, about a
    second per gigabyte; if it has a mark, today's is noted in the description, so that the next
    look reads nothing. In the description `sha256` is the digest of the Parquet file and `content`
    that of the landed bytes.
    """
    body = store.read_json(f"{sha256}.json")
    if body.get("version") != VERSION:
        return None
    name, noted_mark = str(body["parquet"]), body.get(MARK_KEY)
    token = store.token(name) if noted_mark else None
    if token is not None and [*token.mark] == noted_mark:
        return body
    of_parquet, of_landed = body["sha256"], body.get("content", sha256)
    is_copy_of_bytes = name == f"{sha256}.parquet"  # a landed Parquet file as it is
    if is_copy_of_bytes and of_parquet != of_landed:
        return None
    if of_parquet != _parquet_sha256(StoredFile(sha256, store, name)):
        return None
    if token is not None:  # taken before the bytes were read
        body[MARK_KEY] = [*token.mark]
        store.write(f"{sha256}.json", json.dumps(body, sort_keys=True).encode())
    return body


def _parquet_sha256(file: StoredFile) -> str:
    """The SHA-256 of the Parquet file that engines read; an empty text without one."""
    try:
        with file.parquet.open("rb") as source:
            return hashlib.file_digest(source, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


def _schema_digest(parquet: Path) -> str:
    """A digest of a Parquet file's columns and types, whatever their order."""
    import pyarrow.parquet as pq

    schema = pq.read_schema(parquet).remove_metadata()
    return digest_of(sorted([f.name, str(f.type)] for f in schema))
