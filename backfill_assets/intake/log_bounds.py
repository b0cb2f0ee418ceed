"""What a log of others may hold before delta-rs reads it: commits that are regular files, bounded
in bytes and depth.

delta-rs overflows its stack over deep JSON, which ends the process, and waits for ever for a pipe.
So each commit that it would read is looked at first, once per process and content, as are the
newest checkpoint, its sidecars, and the pointer to it. The data files that a log names are decoded
apart, within the bounds of landed Parquet, before a query reads them: 100 kB can stand for 20 GB.
The kernel and other rooms ask by `kernel.log.log_bounds`. Not here: what the commits mean
(`kernel.log.log`, `source_log`), and which files they may name (`kernel.log.file_names`).
"""

import io
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import Any, BinaryIO

from backfill_assets.intake.json_lines import is_nested_deeper
from backfill_assets.intake.limited_decoding import examine_apart
from backfill_assets.intake.text_lines import Limits, Unreadable
from backfill_assets.kernel.log.file_names import printable_name
from backfill_assets.kernel.log.log import LOG, parsed_checkpoint
from backfill_assets.kernel.place.port import Place, Token

LINE_BYTES = 64 << 20  # of one action: the statistics of 2,000 columns take less than one MiB
COMMIT_BYTES = 1 << 30  # a commit that adds a million files has about half of it
OWN_JSON = ("stats", "schemaString")  # texts of an action that are JSON themselves
LAST_CHECKPOINT = "_last_checkpoint"
SIDECARS = "_sidecars"
NEWEST = 10**20  # a version has 20 digits at most
# A sidecar's plain name: delta-rs would follow `..`, a quoted `/`, and an address to any file.
SIDECAR = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_.-]*\.parquet")
COMMIT = re.compile(r"([0-9]{20})\.json")


def log_fault(table: Place, version: int | None = None) -> str:
    """Why a table's log must not be read up to a version (None: the newest); "" if it may be."""
    names = table.names(LOG)
    last = NEWEST if version is None else version
    checkpoints = {n: at for n, at in _checkpoints_by_name(names).items() if at <= last}
    newest = max(checkpoints.values(), default=-1)
    wanted = [name for name, at in checkpoints.items() if at == newest]
    wanted += [name for name in names if name == LAST_CHECKPOINT]
    matches = {name: COMMIT.fullmatch(name) for name in sorted(names)}
    commits = {name: int(found[1]) for name, found in matches.items() if found}
    wanted += [name for name, at in commits.items() if newest <= at <= last]
    return next(filter(None, (commit_fault(table, name) for name in wanted)), "")


def commit_fault(table: Place, name: str) -> str:
    """Why a file of a table's log, a commit or a checkpoint, must not be read; "" if it may be, or
    is gone."""
    why = table.file_fault(f"{LOG}/{name}")
    if why:
        return f"its log has the file {name}, {why}"
    token = table.token(f"{LOG}/{name}")
    if token is None:
        return ""
    why = _content_fault(table, name, token)
    if why or parsed_checkpoint(name) is None:
        return why
    sidecars = _sidecar_names(table, name, token)
    return next(filter(None, (_sidecar_fault(table, sidecar) for sidecar in sidecars)), "")


def bounded_commit(table: Place, name: str) -> tuple[bytes, str]:
    """The bytes of a commit by its name in the log, and why they must not be used ("": they may
    be), by one reading. Raises Gone."""
    why = table.file_fault(f"{LOG}/{name}")
    if why:
        return b"", f"its log has the file {name}, {why}"
    with table.open(f"{LOG}/{name}") as opened:
        why = _size_fault(name, opened.seek(0, os.SEEK_END))
        if why:
            return b"", why
        opened.seek(0)
        content = opened.read()
    return content, _lines_fault(name, io.BytesIO(content))


def _sidecar_fault(table: Place, named: str) -> str:
    """Why a sidecar, as its checkpoint names it, must not be read; "" if it may be, or is gone."""
    if not SIDECAR.fullmatch(named):
        return (
            f"its checkpoint names the sidecar {printable_name(named)}, which is no plain file name"
        )
    return commit_fault(table, f"{SIDECARS}/{named}")


def data_fault(table: Place, names: Iterable[str]) -> str:
    """Say which of these data files of a table of others must not be read, and why; "" if all may
    be. Decodes each once, in a process of its own."""
    for name in names:
        token = table.token(name)
        why = "" if token is None else _data_fault(table, name, token)
        if why:
            return f"its file {printable_name(name)} cannot be used: {why}"
    return ""


@lru_cache(maxsize=4096)
def _data_fault(table: Place, name: str, token: Token) -> str:
    """Why a data file of this content must not be read; "" if it may be."""
    try:
        examine_apart(table.local(name), token.size, Limits())
    except Unreadable as error:
        return str(error)
    return ""


def checkpoint_versions(names: Collection[str]) -> set[int]:
    """The versions at which there is a checkpoint, by the names in a log."""
    return {*_checkpoints_by_name(names).values()}


def _checkpoints_by_name(names: Collection[str]) -> dict[str, int]:
    """The versions of the files of checkpoints among the names in a log."""
    parsed = {name: parsed_checkpoint(name) for name in names}
    return {name: found.version for name, found in parsed.items() if found}


@lru_cache(maxsize=4096)
def _content_fault(place: Place, name: str, token: Token) -> str:
    """Why a commit or checkpoint, as it is with that token, is beyond the bounds, as a part of a
    sentence: by its bytes, or by its lines, of which the first that is too long or has a fault
    counts. Empty if it is within them."""
    why = _size_fault(name, token.size)
    if why:
        return why
    if name.endswith(".parquet"):
        return _checkpoint_fault(place, name, token)
    with place.open(f"{LOG}/{name}") as opened:
        return _lines_fault(name, opened)


def _size_fault(name: str, size: int) -> str:
    """Why a file of a log of so many bytes must not be read; "" if it may be."""
    if size <= COMMIT_BYTES:
        return ""
    which = f"its {_file_kind(name)} {name}"
    return f"{which} has {size} bytes, more than the limit of {COMMIT_BYTES}"


def _lines_fault(name: str, opened: BinaryIO) -> str:
    """Why the lines of a commit, or of a checkpoint in JSON, must not be read; "" if they may
    be."""
    while line := opened.readline(LINE_BYTES + 1):
        why = f"has a line of more than the limit of {LINE_BYTES} bytes"
        if len(line) <= LINE_BYTES:
            why = _action_fault(line)
        if why:
            return f"its {_file_kind(name)} {name} {why}"
    return ""


def _file_kind(name: str) -> str:
    """What a file of a log is, in words."""
    return "commit" if COMMIT.fullmatch(name) else "checkpoint"


@lru_cache(maxsize=4096)
def _sidecar_names(place: Place, name: str, token: Token) -> tuple[str, ...]:
    """The sidecars that a checkpoint of this content names, as it names them. Call it for one
    without fault only."""
    import pyarrow.parquet as pq

    with place.open(f"{LOG}/{name}") as opened:
        if name.endswith(".parquet"):
            file = pq.ParquetFile(opened)
            if "sidecar" not in file.schema_arrow.names:
                return ()
            return tuple(_column_texts(file.read(columns=["sidecar.path"])))
        return tuple(filter(None, map(_sidecar_path, opened)))


def _sidecar_path(line: bytes) -> str:
    """The path of an action that names a sidecar; empty of any other."""
    try:
        return str(json.loads(line)["sidecar"]["path"])
    except (ValueError, KeyError, TypeError):
        return ""


def _action_fault(line: bytes) -> str:
    """Why an action must not be read: it is too deep, as are texts in it that are JSON themselves,
    or has too many columns."""
    limits = Limits()
    if line.count(b"{") + line.count(b"[") <= limits.max_depth:
        return ""
    text = line.decode("utf-8", "replace")
    if is_nested_deeper(text, limits.max_depth):
        return f"is nested more than {limits.max_depth} levels deep"
    try:
        action = json.loads(text)
    except ValueError:
        return ""  # its readers say so
    return next(filter(None, map(_json_text_fault, _json_texts(action))), "")


def _json_texts(action: Any) -> Iterator[str]:
    """The texts of an action that are JSON themselves."""
    bodies = action.values() if isinstance(action, dict) else ()
    for body in bodies:
        if isinstance(body, dict):
            texts = [body.get(name) for name in OWN_JSON]
            yield from (text for text in texts if isinstance(text, str))


def _json_text_fault(text: str) -> str:
    """Why a text of JSON, statistics or a schema, must not be read: it is too deep or has too many
    columns; "" if it may be."""
    limits = Limits()
    if text.count("{") + text.count("[") <= limits.max_depth:  # too few brackets to be too deep
        return ""
    if is_nested_deeper(text, limits.max_depth):
        return f"holds a text that is nested more than {limits.max_depth} levels deep"
    if text.count('"name"') <= limits.max_columns:  # too few for so many columns: not parsed
        return ""
    columns = _column_count(text)
    if columns > limits.max_columns:
        return f"names {columns} columns, more than the limit of {limits.max_columns}"
    return ""


def _column_count(schema: str) -> int:
    """The number of columns of a schema; 0 of a text that is none."""
    try:
        return len(json.loads(schema)["fields"])
    except (ValueError, KeyError, TypeError):
        return 0


def _checkpoint_fault(place: Place, name: str, token: Token) -> str:
    """Why a checkpoint in Parquet must not be read, as a part of a sentence; empty if it may be,
    and of one in a store, which is not looked at. It is decoded in a process of its own within the
    bounds of landed Parquet; then the texts in it are judged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if place.is_store:
        # Its bytes are not on this machine, and a store's checkpoint is replaced: delta-rs alone
        # reads it.
        return ""
    try:
        examine_apart(place.local(f"{LOG}/{name}"), token.size, Limits())
        with place.open(f"{LOG}/{name}") as opened:
            columns = ["add.stats", "metaData.schemaString"]
            for batch in pq.ParquetFile(opened).iter_batches(columns=columns):
                for text in _column_texts(pa.Table.from_batches([batch])):
                    why = _json_text_fault(text)
                    if why:
                        return f"its checkpoint {name} {why}"
    except Unreadable as error:
        return f"its checkpoint {name} cannot be used: {error}"
    return ""


def _column_texts(table: Any) -> Iterator[str]:
    """The texts in the columns of an Arrow table, and in the fields of its structs."""
    for column in table.flatten().columns:
        yield from (text for text in column.to_pylist() if isinstance(text, str))
