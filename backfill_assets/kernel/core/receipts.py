"""Receipts: the record in every commit of this package, as JSON in Delta's `userMetadata`; the
truth about a write.

Not here: reading them from a log (`kernel.log.log`) and deriving states (`kernel.core.states`).
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeVar

from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.profiles import EMPTY_FINGERPRINT, SCHEME, DayProfile
from backfill_assets.kernel.core.records import UnknownWord, json_of, record_of

SCHEMA = 1
SPREAD = "spread"  # the tag with the choices of the contract against skew
KEPT = "kept"  # the count of a merged day: rows that stood there and that its inputs do not give
# Fields of a receipt that its text has by the same names.
SAME_FIELDS = (
    *("write_id", "table", "reason", "run_id", "note", "frontier", "inputs", "tags"),
    *("seconds", "cpu_seconds", "start_seconds", "bytes"),
)
V = TypeVar("V")
Columns = Mapping[str, str]  # the type of each column by its name


class Built(StrEnum):
    """The kind of a day's write."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"  # input days were missing, or made without a column that is read
    PENDING = "pending"  # its cut lay after the frontier: empty on purpose
    HELD = "held"  # put back by a rollback; to be left alone
    # Complete, and rows are kept besides that its inputs do not give (write mode `merge`).
    MERGED = "merged"


@dataclass(slots=True)  # not frozen: hundreds of thousands are made, that takes five times as long
class DayEntry:
    """One day of a receipt.

    Fingerprints name no column, so that a renamed column shows in `columns` alone.
    """

    rows: int
    fingerprint: str  # of the rows' content
    input_digest: str  # of what should determine the day (`kernel.core.digests`)
    built: Built = Built.COMPLETE
    # numbers by name: NULLs as `null COLUMN`, duplicates, quarantined rows, …
    counts: Mapping[str, int] = field(default_factory=dict, compare=False)
    scheme: int = SCHEME  # the fingerprint's method; kept when a receipt repeats an older one
    # fingerprints of sets of columns by name (`kernel.core.readings`)
    parts: Mapping[str, str] = field(default_factory=dict, compare=False)
    # Name and type of each column of the day's data files; None: without rows, or not written yet.
    # A column is left out where the day's deliveries were loaded without it.
    columns: Columns | None = field(default=None, compare=False)

    @property
    def content(self) -> tuple[int, str, int]:
        """Rows, fingerprint and scheme: equal only for days with the same rows; days of two schemes
        never compare equal, unless both are empty."""
        if not self.rows:
            return (0, EMPTY_FINGERPRINT, SCHEME)
        return (self.rows, self.fingerprint, self.scheme)

    def agrees_with(self, found: DayProfile) -> bool:
        """Whether the rows found now may be those written: by their number alone where the scheme
        is another."""
        if self.scheme != SCHEME:
            return self.rows == found.rows
        return self.content == found.content


@dataclass(frozen=True)
class Provenance:
    """Who writes, why, with which code and settings, from which input versions."""

    reason: str
    run_id: str = ""
    note: str = ""
    code_digest: str = ""
    settings_digest: str = ""
    frontier: datetime | None = None  # of the inputs
    inputs: Mapping[str, int] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    # start of the work on this process's monotonic clock (seconds)
    began: float = field(default_factory=time.monotonic)
    # Processor time until the rows were audited; None: not measured.
    cpu_seconds: float | None = None
    start_seconds: float | None = None  # the wait for an engine to open; None: not measured


@dataclass(frozen=True)
class Receipt:
    """Who wrote which days of a table from which inputs. Seconds and bytes decide nothing."""

    write_id: str
    table: str
    reason: str
    days: Mapping[date, DayEntry]
    run_id: str = ""
    note: str = ""
    code_digest: str = ""
    settings_digest: str = ""
    frontier: datetime | None = None  # an aware instant
    inputs: Mapping[str, int] = field(default_factory=dict)  # table versions
    tags: Mapping[str, str] = field(default_factory=dict)
    seconds: float | None = None  # from the request to the commit; None: not measured
    cpu_seconds: float | None = None  # processor time on this machine
    start_seconds: float | None = None  # the part of `seconds` that opened an engine
    bytes: int | None = None  # of the added data files

    def __post_init__(self) -> None:
        if self.frontier is not None and self.frontier.tzinfo is None:
            raise ValueError(f"the frontier of a receipt is an aware instant, got {self.frontier}")

    @property
    def work_seconds(self) -> float:
        """The seconds after an engine was open; 0.0 where nothing was measured."""
        return max((self.seconds or 0.0) - (self.start_seconds or 0.0), 0.0)

    def to_json(self) -> str:
        """The text for `userMetadata`: compact, keys sorted."""
        return json.dumps(json_of(_text_of(self)), sort_keys=True, separators=(",", ":"))


@dataclass(slots=True)  # not frozen: that takes longer to make
class _ReceiptText:
    """The form of a receipt in its text."""

    write_id: str
    table: str
    reason: str
    run_id: str
    note: str
    code: str
    settings: str
    frontier: datetime | None
    inputs: Mapping[str, int]
    tags: Mapping[str, str]
    days: Mapping[date, tuple[int, str, str, Built]]  # rows, fingerprint, input digest, built
    counts: Mapping[date, Mapping[str, int]]  # of days with some
    parts: Mapping[date, Mapping[str, str]]  # of days with some
    columns: tuple[Mapping[str, str], ...]  # the distinct ones of all days
    # The number of a day's among `columns` where it is not 0; None: it has no rows.
    columns_of: Mapping[date, int | None]
    scheme: int
    schemes: Mapping[date, int]  # of days whose is not `scheme`
    seconds: float | None
    cpu_seconds: float | None
    start_seconds: float | None
    bytes: int | None
    backfill_assets: int = SCHEMA


def _text_of(receipt: Receipt) -> _ReceiptText:
    """The form in which a receipt is written: the columns that many days share are written once."""
    days = receipt.days
    numbers = dict[date, int | None]()  # of each day's columns among the distinct ones
    distinct = dict[tuple[tuple[str, str], ...], int]()
    for day, entry in days.items():
        numbers[day] = None
        if entry.columns is not None:
            numbers[day] = distinct.setdefault(tuple(entry.columns.items()), len(distinct))
    return _ReceiptText(
        **{name: getattr(receipt, name) for name in SAME_FIELDS},
        code=receipt.code_digest,
        settings=receipt.settings_digest,
        days={d: (e.rows, e.fingerprint, e.input_digest, e.built) for d, e in days.items()},
        counts={d: e.counts for d, e in days.items() if e.counts},
        parts={d: e.parts for d, e in days.items() if e.parts},
        columns=tuple(dict(items) for items in distinct),
        columns_of={d: number for d, number in numbers.items() if number != 0},
        scheme=SCHEME,
        schemes={d: e.scheme for d, e in days.items() if e.scheme != SCHEME},
    )


def parse_receipt(text: str | None) -> Receipt | None:
    """The receipt in a commit's `userMetadata`; None for a foreign commit and an incomplete
    receipt.

    Raises BackfillError for one of a newer version, and of one before 0.3, whose days would else be
    rebuilt.
    """
    try:
        body: Any = json.loads(text or "")
        if not isinstance(body, dict):
            return None
        schema = body.get("backfill_assets")
        if type(schema) is int and schema > SCHEMA:
            raise _newer_release_error(body)
        if schema != SCHEMA:
            return None
        if "days" in body and "columns" not in body:
            raise _older_release_error(body)
        return _receipt_from_text(record_of(_ReceiptText, body))
    except UnknownWord:
        raise _newer_release_error(body) from None
    except (ValueError, TypeError, IndexError, RecursionError):
        return None


def _newer_release_error(body: Mapping[str, Any]) -> BackfillError:
    return BackfillError(
        f"the table {body.get('table')}",
        "a newer version of backfill-assets wrote to it, whose receipts this one cannot read",
        "Nothing was read or written",
        "Upgrade backfill-assets",
    )


def _older_release_error(body: Mapping[str, Any]) -> BackfillError:
    return BackfillError(
        f"the table {body.get('table')}",
        "a version of backfill-assets before 0.3 wrote to it, whose receipts do not say which "
        "columns its files have",
        "Nothing was read or written",
        "Make the lake anew: its lake.toml and landing folder in another folder, then "
        "`backfill-assets catch-up`",
    )


def _receipt_from_text(text: _ReceiptText) -> Receipt:
    return Receipt(
        **{name: getattr(text, name) for name in SAME_FIELDS},
        code_digest=text.code,
        settings_digest=text.settings,
        days=_entries_from_text(text),
    )


def _entries_from_text(text: _ReceiptText) -> dict[date, DayEntry]:
    """The entries of the days of a written receipt; equal counts and columns are one object."""
    columns = [shared_mapping(found) for found in text.columns]
    nothing: Mapping[str, Any] = {}  # one for all days without counts or parts
    entries = {}
    for day, (rows, fingerprint, digest, built) in text.days.items():
        number = text.columns_of.get(day, 0 if columns else None)
        entries[day] = DayEntry(
            rows,
            fingerprint,
            digest,
            built,
            shared_mapping(text.counts.get(day, nothing)),
            text.schemes.get(day, text.scheme),
            text.parts.get(day, nothing),
            None if number is None else columns[number],
        )
    return entries


def shared_mapping(found: Mapping[str, V]) -> Mapping[str, V]:
    """A mapping with these keys and values in this order, the same object for equal ones, which
    saves memory. Callers do not change it."""
    return _shared_mapping(tuple(found.items()))


@lru_cache(maxsize=1024)
def _shared_mapping(items: tuple[tuple[str, Any], ...]) -> Mapping[str, Any]:
    return dict(items)
