"""The rows of data files that deletion vectors of Delta take away, as their numbers in the files.

Not here: which rows a commit took away, and where these go (`intake.table_rows`,
`foreign.plain_copies`). delta-rs gives all vectors of a version at once or none of them
(`DeltaTable.deletion_vectors`): the vectors of one commit would cost those of the whole table, one
that vacuum took would hide all others, and it gives none of a table with a feature that it does not
scan, such as type widening. So the published form is read here: a portable 64-bit Roaring bitmap
behind a number of Delta's, in the log itself (base85 in ZeroMQ's alphabet) or in a file of the
table, with a checksum. Which files of a version have one, its newest checkpoint and the commits
after it tell; who asks has the log judged before (`intake.log_bounds`).
"""

import base64
import json
import string
import struct
import uuid
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from backfill_assets.intake.log_bounds import SIDECARS
from backfill_assets.intake.log_reading import commit_actions
from backfill_assets.kernel.log.file_names import file_fault, name_fault, printable_name
from backfill_assets.kernel.log.log import LOG, parsed_checkpoint
from backfill_assets.kernel.place.port import Place

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

FEATURE = "deletionVectors"  # in a table's protocol

INLINE, BELOW, ABSOLUTE = "i", "u", "p"  # storage types of Delta's protocol
MAGIC = 1_681_511_377  # of a portable array of Roaring bitmaps
UUID_CHARS = 20  # of a UUID in base85
MOST_BYTES = 1 << 28  # of a vector: one of 10^9 rows, every second deleted, has about half of it
MOST_ROWS = 1 << 27  # that it may take away: a few bytes may stand for more than memory holds
# Digits 0 to 84 in ZeroMQ's alphabet, and in the one that Python's base64 reads.
Z85 = string.digits + string.ascii_lowercase + string.ascii_uppercase + ".-:+=^!/*?&<>()[]{}@%$#"
B85 = string.digits + string.ascii_uppercase + string.ascii_lowercase + "!#$%&()*+-;<=>?@^_`{|}~"
TO_B85 = str.maketrans(Z85, B85)
# Of a 32-bit Roaring bitmap: the first number without, and with, containers of runs.
PLAIN_COOKIE, RUNS_COOKIE = 12346, 12347
FEW_CONTAINERS = 4  # fewer of a bitmap with runs have no offsets
MOST_LISTED = 4096  # rows of a container that lists them; one with more has a bit for each
CONTAINER_ROWS = 1 << 16
VECTOR_COLUMNS = ("add.path", "add.deletionVector", "sidecar.path")  # of one in Parquet


class UnreadableVector(ValueError):
    """What a log names as a deletion vector is none that can be read; the text says why, as a part
    of a sentence about the table."""


@dataclass(frozen=True)
class DeletionVector:
    """A deletion vector, as a log names it beside a data file."""

    storage: str  # see the storage types above
    named: str  # the vector itself, or what its file is called
    offset: int  # bytes, in its file
    size: int  # bytes, without length and checksum
    rows: int  # that it takes away

    @property
    def id(self) -> str:
        """What tells it from each other vector of the table: two states of a file differ by it."""
        return f"{self.storage}{self.named}@{self.offset}"


def vector_of(action: Mapping[str, Any]) -> DeletionVector | None:
    """The deletion vector of a file that an action adds or removes; None without one. Raises
    UnreadableVector for what is none."""
    told = action.get("deletionVector")
    if not told:
        return None
    try:
        vector = DeletionVector(
            str(told["storageType"]),
            str(told["pathOrInlineDv"]),
            int(told.get("offset") or 0),
            int(told["sizeInBytes"]),
            int(told["cardinality"]),
        )
    except (KeyError, TypeError, ValueError):
        raise UnreadableVector("has a deletion vector without a place") from None
    if min(vector.offset, vector.size, vector.rows) < 0 or vector.size > MOST_BYTES:
        raise UnreadableVector(f"has a deletion vector of {vector.size} bytes")
    return vector


def deleted_rows(table: Place, vector: DeletionVector | None) -> "pa.Int64Array":
    """The numbers, from 0 and ascending, of the rows of a file that the vector takes away; none
    without one. Raises UnreadableVector, and FileNotFoundError if vacuum took it."""
    import pyarrow as pa

    if vector is None:
        return pa.array([], pa.int64())
    content = _inline_bytes(vector) if vector.storage == INLINE else _bytes_in_file(table, vector)
    try:
        found = _rows_in_array(content, vector.rows)
    except (struct.error, IndexError, pa.ArrowInvalid):
        raise _fault_of(vector, "which ends too early") from None
    if len(found) != vector.rows:
        raise _fault_of(vector, f"which has {len(found)} rows, not {vector.rows}")
    return found


def deleted_by_file(table: Place, opened: "DeltaTable") -> dict[str, "pa.Int64Array"]:
    """The numbers of the rows that deletion vectors take away at the version of a table that is
    `opened`, by the names of their files in it. Raises UnreadableVector, FileNotFoundError where
    vacuum took one, and LandingError for a commit that cannot be read."""
    if FEATURE not in (opened.protocol().reader_features or ()):
        return {}
    held = held_vectors(table, opened.version())
    return {name: deleted_rows(table, vector) for name, vector in held.items()}


def held_vectors(table: Place, version: int) -> dict[str, DeletionVector]:
    """The deletion vectors of the files of a version, by the files' names in the table. Raises as
    `deleted_by_file` does."""
    first, names = _newest_checkpoint(table.names(LOG), version)
    held = dict[str, Mapping[str, Any]]()
    for name in names:
        held |= _added_in_checkpoint(table, name)
    for at in range(first + 1, version + 1):
        actions, _ = commit_actions(table, at)
        for gone in (action["remove"] for action in actions if action.get("remove")):
            held.pop(unquote(gone["path"]), None)
        for added in (action["add"] for action in actions if action.get("add")):
            held[unquote(added["path"])] = added
    vectors = {name: vector_of(added) for name, added in held.items()}
    return {name: vector for name, vector in vectors.items() if vector is not None}


def _newest_checkpoint(names: Collection[str], version: int) -> tuple[int, list[str]]:
    """The version of the newest whole checkpoint up to a version, and its files: one, or all its
    parts; -1 and none without one."""
    parts_by_version = defaultdict[int, dict[str, int]](dict)  # of which there are so many
    for name in names:
        found = parsed_checkpoint(name)
        if found and found.version <= version:
            parts_by_version[found.version][name] = found.parts
    for at in sorted(parts_by_version, reverse=True):
        parts = parts_by_version[at]
        for count in sorted({*parts.values()}):
            alike = sorted(name for name, of_all in parts.items() if of_all == count)
            if count == 1 or len(alike) == count:
                return at, alike[:count]
    return -1, []


def _added_in_checkpoint(table: Place, name: str) -> dict[str, Mapping[str, Any]]:
    """The files with a deletion vector that a file of a checkpoint names, and those of its
    sidecars, as actions that add them."""
    found = dict[str, Mapping[str, Any]]()
    for action in _checkpoint_actions(table, name):
        if sidecar := (action.get("sidecar") or {}).get("path"):
            found |= _added_in_checkpoint(table, f"{SIDECARS}/{sidecar}")
        added = action.get("add") or {}
        if added.get("deletionVector"):
            found[unquote(added["path"])] = added
    return found


def _checkpoint_actions(table: Place, name: str) -> Iterator[Mapping[str, Any]]:
    """The actions of a file of a checkpoint, of the Parquet ones as far as vectors need them."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with table.open(f"{LOG}/{name}") as opened:
        if name.endswith(".json"):
            yield from (json.loads(line) for line in opened if line.strip())
            return
        file = pq.ParquetFile(opened)
        known = {*file.schema_arrow.names}
        columns = [column for column in VECTOR_COLUMNS if column.partition(".")[0] in known]
        for batch in file.iter_batches(columns=columns):
            for column in batch.schema.names:
                rows = batch.column(column)
                yield from ({column: row} for row in rows.filter(pc.is_valid(rows)).to_pylist())


def vector_file(table: Place, vector: DeletionVector) -> str:
    """The name in its table of the file that holds a vector; empty of one in the log itself. Raises
    UnreadableVector for one that is no file of the table."""
    if vector.storage == INLINE:
        return ""
    if vector.storage == BELOW and len(vector.named) >= UUID_CHARS:
        prefix, encoded = vector.named[:-UUID_CHARS], vector.named[-UUID_CHARS:]
        name = f"deletion_vector_{uuid.UUID(bytes=_of_base85(vector, encoded))}.bin"
        name = f"{prefix}/{name}" if prefix else name
    elif vector.storage == ABSOLUTE and _address_below(table, vector.named):
        name = _address_below(table, vector.named)
    else:
        raise _fault_of(vector, "which lies elsewhere")
    if why := name_fault(name) or file_fault(table, [name]):
        raise _fault_of(vector, why)
    return name


def _address_below(table: Place, address: str) -> str:
    """The name in its table of what lies at an absolute address; empty of what lies elsewhere."""
    beginnings = {f"{table.uri().rstrip('/')}/"}
    if not table.is_store:
        beginnings |= {f"{table.local()}/", f"file://{table.local()}/", f"file:{table.local()}/"}
    found = [address.removeprefix(start) for start in beginnings if address.startswith(start)]
    return found[0] if found else ""


def _fault_of(vector: DeletionVector, why: str) -> UnreadableVector:
    return UnreadableVector(f"has the deletion vector {printable_name(vector.named)}, {why}")


def _of_base85(vector: DeletionVector, text: str) -> bytes:
    """The bytes that a text in ZeroMQ's base85 stands for."""
    try:
        return base64.b85decode(text.translate(TO_B85))
    except ValueError:
        raise _fault_of(vector, "which is no base85") from None


def _inline_bytes(vector: DeletionVector) -> bytes:
    return _of_base85(vector, vector.named)[: vector.size]


def _bytes_in_file(table: Place, vector: DeletionVector) -> bytes:
    """The bytes of a vector in a file, between their length and their checksum."""
    with table.open(vector_file(table, vector)) as opened:
        opened.seek(vector.offset)
        content = opened.read(vector.size + 8)
    if len(content) < vector.size + 8:
        raise _fault_of(vector, "which ends too early")
    (length,) = struct.unpack_from(">i", content)
    data, (checksum,) = content[4:-4], struct.unpack_from(">I", content, vector.size + 4)
    if length != vector.size or zlib.crc32(data) != checksum:
        raise _fault_of(vector, "whose bytes have another checksum")
    return data


def _rows_in_array(content: bytes, expected: int) -> "pa.Int64Array":
    """The rows of an array of bitmaps; of more than are `expected` the first ones."""
    import pyarrow as pa

    magic, bitmaps = struct.unpack_from("<iq", content)
    if magic != MAGIC:
        raise UnreadableVector(f"has a deletion vector of another form ({magic})")
    at, parts, rows = 12, list[pa.Int64Array](), 0
    for _ in range(bitmaps):
        (key,) = struct.unpack_from("<I", content, at)
        heads, at = _container_heads(content, at + 4, key << 32)
        for head in heads:
            found, at = _rows_in_container(content, at, head)
            parts.append(found)
            rows += len(found)
            if rows > min(expected, MOST_ROWS):
                return pa.concat_arrays(parts)
    return pa.concat_arrays(parts) if parts else pa.array([], pa.int64())


class _Head(NamedTuple):
    """What a bitmap says of one of its containers before they come."""

    base: int  # the number of its first row
    rows: int
    has_runs: bool


def _container_heads(content: bytes, at: int, base: int) -> tuple[list[_Head], int]:
    """The heads of the containers of the 32-bit bitmap at a byte, whose rows come after `base`, and
    where the first container begins."""
    (cookie,) = struct.unpack_from("<I", content, at)
    flags = b""
    if cookie & 0xFFFF == RUNS_COOKIE:
        count = (cookie >> 16) + 1
        flags = content[at + 4 : at + 4 + (count + 7) // 8]
        at += 4 + len(flags)
    elif cookie == PLAIN_COOKIE:
        (count,) = struct.unpack_from("<I", content, at + 4)
        at += 8
    else:
        raise UnreadableVector(f"has a deletion vector of another form ({cookie})")
    told = struct.unpack_from(f"<{2 * count}H", content, at)
    at += 4 * count
    if not flags or count >= FEW_CONTAINERS:
        at += 4 * count  # where each container begins, which follows from those before it
    heads = list[_Head]()
    for n in range(count):
        has_runs = bool(flags) and bool(flags[n // 8] >> n % 8 & 1)
        heads.append(_Head(base + (told[2 * n] << 16), told[2 * n + 1] + 1, has_runs))
    return heads, at


def _rows_in_container(content: bytes, at: int, head: _Head) -> tuple["pa.Int64Array", int]:
    """The rows of the container at a byte, and where it ends."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found: pa.Array
    if head.has_runs:
        found, end = _rows_of_runs(content, at)
    elif head.rows <= MOST_LISTED:
        end = at + 2 * head.rows
        found = pa.array(struct.unpack_from(f"<{head.rows}H", content, at), pa.int64())
    else:
        end = at + CONTAINER_ROWS // 8
        (bits,) = struct.unpack_from(f"{CONTAINER_ROWS // 8}s", content, at)
        is_deleted = pa.Array.from_buffers(pa.bool_(), CONTAINER_ROWS, [None, pa.py_buffer(bits)])
        found = pc.indices_nonzero(is_deleted).cast(pa.int64())
    return pc.add(found, head.base), end


def _rows_of_runs(content: bytes, at: int) -> tuple["pa.Int64Array", int]:
    """The rows of a container that names the first of each run and how many more follow."""
    import pyarrow as pa

    (runs,) = struct.unpack_from("<H", content, at)
    bounds, numbers = struct.unpack_from(f"<{2 * runs}H", content, at + 2), list[int]()
    for start, more in zip(bounds[::2], bounds[1::2], strict=True):
        numbers += range(start, start + more + 1)
        if len(numbers) > CONTAINER_ROWS:
            raise UnreadableVector("has a deletion vector whose runs overlap")
    return pa.array(numbers, pa.int64()), at + 2 + 4 * runs
