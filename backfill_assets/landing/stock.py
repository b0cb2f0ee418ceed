"""The stock: one parquet per landed content, named by its sha256, which is all that Spark ever reads of the landing.

Lives here: the description beside each parquet, proving that an entry is still what was put there, and finding it
again. Does not live here: making the parquet (`intake`) and what has landed (`lake.ledger`). The stock holds copies (or
clones of the file system's), never links: what happens to a landed file later cannot reach it. It can be deleted at any
time and is made again from the landing. Reading by sha256 makes content independent of paths and their spelling.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill_assets.core.digests import digest_of

if TYPE_CHECKING:
    from backfill_assets.landing.intake import Intake

VERSION = (
    2  # of the intake's rules and of these descriptions: raise it, and every content is taken from the landing anew
)
PARSER_VERSION = 1  # of text files: raise it whenever one could come out differently, and older copies are made anew
ABSENT_IS_NULL = {"jsonl"}  # a JSON object may leave out what it does not know


@dataclass(frozen=True)
class StockFile:
    """A landed content in the stock: its sha256, the parquet to read (named by it), the types of a text file's columns
    (empty for parquet), when it was first scanned (aware), and the day of its rows without a usable arrival time.

    `rows` are counted apart from Spark. `inexact`: column -> why its values are not those of the landed file.
    `refused`: why none of its rows can be judged; it is then one unusable row with number 0, and not read. `path`:
    where it lies below the landing's root, if its rows depend on that.
    """

    sha256: str
    parquet: Path
    types: Mapping[str, str]
    schema: str
    first_scan: datetime
    home_day: date | None = None
    absent_is_null: bool = False
    rows: int = 0
    inexact: Mapping[str, str] = field(default_factory=dict)
    refused: str | None = None
    path: str = ""

    @property
    def kind(self) -> tuple[str, str, bool, str]:
        """Files of one kind are read as one frame."""
        return self.schema, digest_of(dict(self.types)), self.absent_is_null, digest_of(dict(self.inexact))


@dataclass(frozen=True)
class Made:
    """Under what a content was taken in; an entry made under anything else is made anew."""

    format: str
    limits: Sequence[int]

    def said(self) -> dict[str, Any]:
        """As it stands in a description."""
        return {"version": VERSION, "format": self.format, "limits": list(self.limits)}


def put(stock: Path, intake: "Intake", made: Made) -> "Intake":
    """Describe a taken content whose parquet lies in the stock, as the last step of taking it in; returns it with the
    parquet that Spark can read."""
    from backfill_assets.landing.nanoseconds import in_microseconds

    parquet, inexact = intake.parquet, dict[str, str]()
    if parquet.name == f"{intake.sha256}.parquet":
        parquet, inexact = in_microseconds(parquet, stock / f"{intake.sha256}.us.parquet")
    body = {
        **made.said(),
        "parquet": parquet.name,
        "sha256": _sha256(parquet),
        "content": intake.content or intake.sha256,
        "rows": intake.rows,
        "types": dict(intake.columns),
        "schema": _schema_digest(parquet),
        "absent_is_null": made.format in ABSENT_IS_NULL,
        "inexact": inexact,
        "refused": intake.unreadable,
    }
    _write(_description(stock, intake.sha256), json.dumps(body, sort_keys=True))
    return replace(intake, parquet=parquet)


def find(stock: Path, sha256: str, first_scan: datetime, home_day: date | None = None) -> StockFile | None:
    """The content in the stock, its bytes proven; None where it is not there or no longer what was put there."""
    body = _body(stock, sha256)
    if body is None or not is_proven(stock, sha256):
        return None
    return StockFile(
        sha256, stock / body["parquet"], body["types"], body["schema"], first_scan, home_day, body["absent_is_null"],
        body["rows"], body["inexact"], body["refused"],
    )  # fmt: skip


def is_proven(stock: Path, sha256: str, made: Made | None = None) -> bool:
    """Whether the entry of a content has the very bytes that were put there (and was made under `made`).

    One pass over the file: about a second per gigabyte, against rows of another content under this one's name.
    """
    body = _body(stock, sha256)
    if body is None or (made is not None and not made.said().items() <= body.items()):
        return False
    exact: bool = body["parquet"] != f"{sha256}.parquet" or body["sha256"] == body.get("content", sha256)
    return exact and body["sha256"] == _sha256(stock / str(body["parquet"]))


def discard(stock: Path, sha256: str) -> None:
    """Remove whatever the stock has of a content, so that it is taken from the landing.

    Every name is known: looking for them would list the whole stock, for each of its files.
    """
    parsed = (f"{kind}-{n}.parquet" for kind in ("csv", "jsonl", "parquet") for n in range(1, PARSER_VERSION + 1))
    for ending in ("json", "parquet", "us.parquet", *parsed):
        (stock / f"{sha256}.{ending}").unlink(missing_ok=True)


def _description(stock: Path, sha256: str) -> Path:
    return stock / f"{sha256}.json"


def _body(stock: Path, sha256: str) -> dict[str, Any] | None:
    try:
        body: dict[str, Any] = json.loads(_description(stock, sha256).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return body if isinstance(body, dict) and body.get("version") == VERSION else None


def _sha256(path: Path) -> str:
    """The SHA-256 of a file of the stock; the empty text where there is none."""
    try:
        with path.open("rb") as source:
            return hashlib.file_digest(source, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


def _schema_digest(parquet: Path) -> str:
    import pyarrow.parquet as pq

    schema = pq.read_schema(parquet).remove_metadata()
    return digest_of(sorted([f.name, str(f.type)] for f in schema))


def _write(path: Path, text: str) -> None:
    partial = path.with_suffix(f".{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()
