"""Deletion vectors and mapped columns for the tests of tables that others write: written here as
Delta's protocol says, not by the code that reads them.

Here: vectors in a log and in files, a commit that deletes rows of a file by one, and other names of
columns than files have. Not here: tables as Spark writes them (`end_to_end`).
"""

import base64
import json
import string
import struct
import uuid
import zlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from backfill_assets.kernel.log.log import commit_name
from backfill_assets.kernel.place.choice import place_of_others

Z85 = string.digits + string.ascii_lowercase + string.ascii_uppercase + ".-:+=^!/*?&<>()[]{}@%$#"
B85 = string.digits + string.ascii_uppercase + string.ascii_lowercase + "!#$%&()*+-;<=>?@^_`{|}~"
LISTED = 4096  # rows of a container that lists them; one of more has a bit for each
PROTOCOL = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["deletionVectors"],
    "writerFeatures": ["deletionVectors"],
}


def encoded_rows(rows: Collection[int], *, by_runs: bool = False) -> bytes:
    """A portable array of Roaring bitmaps with Delta's number before it. `by_runs`: its containers
    name runs."""
    keys = sorted({row >> 32 for row in rows})
    found = struct.pack("<iq", 1681511377, len(keys))
    for key in keys:
        of_key = [row & 0xFFFFFFFF for row in rows if row >> 32 == key]
        found += struct.pack("<I", key) + _bitmap(of_key, by_runs)
    return found


def _bitmap(rows: Iterable[int], by_runs: bool) -> bytes:
    containers: dict[int, list[int]] = {}
    for row in sorted(rows):
        containers.setdefault(row >> 16, []).append(row & 0xFFFF)
    count, bodies = len(containers), [_container(c, by_runs) for c in containers.values()]
    if by_runs:
        head = struct.pack("<I", 12347 | (count - 1) << 16) + b"\xff" * ((count + 7) // 8)
    else:
        head = struct.pack("<II", 12346, count)
    for key, listed in containers.items():
        head += struct.pack("<HH", key, len(listed) - 1)
    if not by_runs or count >= 4:
        start = len(head) + 4 * count
        for body in bodies:
            head += struct.pack("<I", start)
            start += len(body)
    return head + b"".join(bodies)


def _container(rows: list[int], by_runs: bool) -> bytes:
    if by_runs:
        runs: list[list[int]] = []
        for row in rows:
            if runs and row == sum(runs[-1]) + 1:
                runs[-1][1] += 1
            else:
                runs.append([row, 0])
        return struct.pack(f"<H{2 * len(runs)}H", len(runs), *(n for run in runs for n in run))
    if len(rows) <= LISTED:
        return struct.pack(f"<{len(rows)}H", *rows)
    return sum(1 << row for row in rows).to_bytes(8192, "little")


def base85(content: bytes) -> str:
    """The text of bytes in ZeroMQ's base85, filled up to whole groups of four."""
    filled = content + b"\0" * (-len(content) % 4)
    return base64.b85encode(filled).decode().translate(str.maketrans(B85, Z85))


def inline_vector(rows: Collection[int]) -> dict[str, Any]:
    """A vector that lies in the log."""
    content = encoded_rows(rows)
    return {
        "storageType": "i",
        "pathOrInlineDv": base85(content),
        "sizeInBytes": len(content),
        "cardinality": len(rows),
    }


def vector_in_file(table: Path | str, rows: Collection[int], prefix: str = "") -> dict[str, Any]:
    """A vector in a new file of the table, below a folder `prefix`."""
    content, name = encoded_rows(rows), uuid.uuid4()
    framed = struct.pack(">i", len(content)) + content + struct.pack(">I", zlib.crc32(content))
    file = f"{prefix}/deletion_vector_{name}.bin" if prefix else f"deletion_vector_{name}.bin"
    place_of_others(str(table)).write(file, b"\x01" + framed)
    return {
        "storageType": "u",
        "pathOrInlineDv": f"{prefix}{base85(name.bytes)}",
        "offset": 1,
        "sizeInBytes": len(content),
        "cardinality": len(rows),
    }


def delete_by_vector(
    table: Path | str, added: dict[str, Any], vector: dict[str, Any], version: int, time: int
) -> dict[str, Any]:
    """Commit that a file, as the action says that `added` it, has this vector from now on; return
    the action that adds it again."""
    again = {**added, "deletionVector": vector, "dataChange": True}
    gone = {**added, "deletionTimestamp": time, "dataChange": True}
    gone.pop("stats", None)
    info = {"timestamp": time, "operation": "DELETE"}
    actions = [{"commitInfo": info}, {"protocol": PROTOCOL}, {"remove": gone}, {"add": again}]
    lines = "".join(f"{json.dumps(action)}\n" for action in actions)
    place_of_others(str(table)).write(commit_name(version), lines.encode())
    return again


def update_by_vector(table: Path, row: int, news: dict[str, Any], version: int) -> None:
    """Let the newest commit of the table, which added the file `news`, be an update, as Spark makes
    one: this row of the first commit's file went by a vector."""
    log = table / commit_name(version)
    told = [json.loads(line) for line in log.read_text().splitlines()]
    lines = (table / commit_name(0)).read_text().splitlines()
    (file,) = (action["add"] for action in map(json.loads, lines) if "add" in action)
    gone = {**file, "deletionTimestamp": 0, "dataChange": True}
    again = {**file, "deletionVector": inline_vector({row}), "dataChange": True}
    actions = [*(action for action in told if "add" not in action), {"protocol": PROTOCOL}]
    actions += [{"add": again}, {"remove": gone}, {"add": news}]
    log.write_text("".join(f"{json.dumps(action)}\n" for action in actions))


def retype_column(table: Path, column: str, kind: str, version: int, time: int) -> None:
    """Commit, as `ALTER COLUMN TYPE` does, that a column has another type, and no file."""
    lines = (table / commit_name(0)).read_text().splitlines()
    (metadata,) = (a["metaData"] for a in map(json.loads, lines) if "metaData" in a)
    schema = json.loads(metadata["schemaString"])
    (field,) = (field for field in schema["fields"] if field["name"] == column)
    field["metadata"]["delta.typeChanges"] = [{"fromType": field["type"], "toType": kind}]
    field["type"] = kind
    metadata["schemaString"] = json.dumps(schema)
    features = [*PROTOCOL["readerFeatures"], "typeWidening"]  # type: ignore[misc]
    protocol = {**PROTOCOL, "readerFeatures": features, "writerFeatures": features}
    info = {"timestamp": time, "operation": "CHANGE COLUMN"}
    actions = [{"commitInfo": info}, {"metaData": metadata}, {"protocol": protocol}]
    (table / commit_name(version)).write_text("".join(f"{json.dumps(a)}\n" for a in actions))


def rename_columns(
    table: Path,
    names: Mapping[str, str],
    version: int = 0,
    *,
    of: int = 0,
    without: Collection[str] = (),
) -> None:
    """Let a commit say that the columns of the table are mapped by name, and that those of files
    (the keys) are called so in the table from then on. `of`: the commit that told its columns;
    `without`: those of files that the table then has no more."""
    log = table / commit_name(version)
    actions = [json.loads(line) for line in (table / commit_name(of)).read_text().splitlines()]
    (metadata,) = (action["metaData"] for action in actions if "metaData" in action)
    metadata["configuration"]["delta.columnMapping.mode"] = "name"
    schema = json.loads(metadata["schemaString"])
    for number, field in enumerate(schema["fields"], 1):
        field["metadata"].setdefault("delta.columnMapping.id", number)
        stored = field["metadata"].setdefault("delta.columnMapping.physicalName", field["name"])
        field["name"] = names.get(stored, stored)
    metadata["configuration"]["delta.columnMapping.maxColumnId"] = str(len(schema["fields"]))
    schema["fields"] = [f for f in schema["fields"] if f["name"] not in without]
    metadata["schemaString"] = json.dumps(schema)
    lines = [line for line in log.read_text().splitlines() if "metaData" not in json.loads(line)]
    log.write_text("".join(f"{line}\n" for line in (*lines, json.dumps({"metaData": metadata}))))
