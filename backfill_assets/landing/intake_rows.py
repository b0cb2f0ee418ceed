"""Records on their way from a parser into the stock: batches of columns in which every record has its row.

Lives here: collecting good and unusable records in file order, which column names are allowed, and the text kept of an
unusable record. Does not live here: deciding that a record is unusable (`intake_json`, `intake_csv`), and parquet files
(`intake_stock`).
"""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from backfill_assets.landing.intake_bytes import Limits, TextLines

ROW_NUMBER, BAD_TEXT, BAD_REASON = "__row_number", "__bad_text", "__bad_reason"
NAME_CHARS = 1024  # parquet and Spark take any; a name as long as a row is an attack
# Names that the reading of the stock needs for itself (`load.deliveries`), and Spark's own hidden column.
RESERVED = re.compile(
    r"__(row_number|bad_text|bad_reason|json|sha256|number|text|reason|raised|lacking|d\d+)|_metadata", re.IGNORECASE
)

Values = Sequence[str | None]
Row = TypeVar("Row")


class BadRecord(Exception):
    """A record cannot be used; the text says why. It goes on as an unusable row."""


@dataclass(frozen=True)
class Batch:
    """Consecutive records: `first` is the number of the first one (from 1), `size` how many.

    `columns` hold `size` values each, NULL for an unusable record; `bad` has text and reason per position in the batch.
    """

    first: int
    size: int
    columns: Mapping[str, Values]
    bad: Mapping[int, tuple[str, str]]


class Parser(Protocol):
    """What a text format must do. `columns` (name -> STRING, BIGINT, BOOLEAN) is complete once all batches are read."""

    def batches(self, lines: TextLines) -> Iterator[Batch]:
        """The records of a file; raises Unreadable where the file cannot be used as a whole."""

    @property
    def columns(self) -> dict[str, str]:
        """The file's columns in the order of their first appearance."""


@dataclass
class Collector(Generic[Row]):
    """Records waiting for their batch. `blank` stands for an unusable one; `cut` turns rows into columns."""

    limits: Limits
    blank: Row
    cut: Callable[[list[Row]], dict[str, Values]]
    first: int = 1
    rows: list[Row] = field(default_factory=list)
    bad: dict[int, tuple[str, str]] = field(default_factory=dict)
    size_bytes: int = 0

    def add(self, row: Row, size_bytes: int) -> None:
        """A usable record and the length of its text."""
        self.rows.append(row)
        self.size_bytes += size_bytes

    def add_bad(self, text: str, reason: str) -> None:
        """An unusable record."""
        self.bad[len(self.rows)] = (text, reason)
        self.rows.append(self.blank)
        self.size_bytes += len(text)

    def is_full(self, width: int) -> bool:
        """Whether the batch should go now that the file has `width` columns."""
        rows, limits = len(self.rows), self.limits
        return rows >= limits.batch_rows or self.size_bytes >= limits.batch_bytes or rows * width >= limits.batch_cells

    def batch(self) -> Batch:
        """What was collected, as a batch (perhaps without records); collecting starts anew behind it."""
        made = Batch(self.first, len(self.rows), self.cut(self.rows), self.bad)
        self.first += len(self.rows)
        self.rows, self.bad, self.size_bytes = [], {}, 0
        return made


class ColumnNames:
    """The column names of a file, kept apart as Spark does: without regard to case."""

    def __init__(self, limits: Limits) -> None:
        self.known: dict[str, None] = {}
        self._folded: set[str] = set()
        self._most = limits.max_columns

    def admit(self, names: Iterable[str]) -> None:
        """Add names that are not known yet, all or none; raises BadRecord naming the first that cannot be added."""
        fresh: dict[str, str] = {}
        for name in names:
            folded = folded_name(name)
            if folded in self._folded or folded in fresh:
                raise BadRecord(f"the name {shown(name)} occurs twice, case aside")
            if why := name_fault(name):
                raise BadRecord(why)
            fresh[folded] = name
            if len(self.known) + len(fresh) > self._most:
                raise BadRecord(f"it would give the file more than {self._most} columns")
        self._folded.update(fresh)
        self.known.update(dict.fromkeys(fresh.values()))


def folded_name(name: str) -> str:
    """The name as Spark compares it: to Spark, two names with one folded form are the same."""
    return name.upper().lower()


def name_fault(name: str) -> str | None:
    """Why this cannot be a column's name, if it cannot."""
    if not name.strip():
        return "a column has a blank name"
    if len(name) > NAME_CHARS:
        return f"a column's name is longer than {NAME_CHARS} characters"
    if any(ord(c) < 32 for c in name):
        return f"the name {shown(name)} has control characters"
    return f"the name {shown(name)} is reserved" if RESERVED.fullmatch(name) else None


def shown(text: str) -> str:
    """A name or value as it may stand in a reason: quoted, escaped, and cut at 80 characters."""
    return ascii(text if len(text) <= 80 else text[:77] + "...")


def kept_text(record: bytes, limits: Limits) -> str:
    """The beginning of an unusable record as text: bytes that are no UTF-8 as \\xNN, NUL as \\x00."""
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    text = decoder.decode(record[: limits.text_bytes], final=len(record) <= limits.text_bytes)
    return text.replace("\0", "\\x00")[: limits.text_bytes]
