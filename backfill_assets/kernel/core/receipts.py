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
from typing import Any

from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.profiles import EMPTY_FINGERPRINT, SCHEME, DayProfile

SCHEMA = 1
SPREAD = "spread"  # the tag with the choices of the contract against skew
KEPT = "kept"  # the count of a merged day: rows that stood there and that its inputs do not give
UNCHANGED_FIELDS = (
    "write_id",
    "table",
    "reason",
    "run_id",
    "note",
    "seconds",
    "cpu_seconds",
    "start_seconds",
    "bytes",
)
# The scheme of receipts from before they named it: never called equal to one of ours.
UNNUMBERED = 1
Columns = Mapping[str, str]  # the type of each column by its name


class Built(StrEnum):
    """The kind of a day's write."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"  # input days were missing, or made without a column that is read
    PENDING = "pending"  # its cut lay after the frontier: empty on purpose
    HELD = "held"  # put back by a rollback; to be left alone
    # Complete, and rows are kept besides that its inputs do not give (write mode `merge`).
    MERGED = "merged"


@dataclass(frozen=True, slots=True)  # tens of thousands are held
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
    # Name and type of each column of the day's data files; type "": not known; None: no column is
    # known. A column is left out where the day's deliveries were loaded without it.
    columns: Columns | None = field(default=None, compare=False)

    @property
    def content(self) -> tuple[int, str, int]:
        """Rows, fingerprint and scheme: equal only for days with the same rows; days of two schemes
        never compare equal, unless both are empty."""
        return (
            (self.rows, self.fingerprint, self.scheme)
            if self.rows
            else (0, EMPTY_FINGERPRINT, SCHEME)
        )

    def agrees_with(self, found: DayProfile) -> bool:
        """Whether the rows found now may be those written: by their number alone where the scheme
        is another."""
        return self.rows == found.rows and (self.scheme != SCHEME or self.content == found.content)


@dataclass(frozen=True)
class Provenance:
    """Who writes, why, with which code and settings, from which input versions."""

    reason: str
    run_id: str = ""
    note: str = ""
    code_digest: str = ""
    settings_digest: str = ""
    frontier: datetime | None = None  # of the inputs
    inputs: Mapping[str, int] | None = None
    tags: Mapping[str, str] | None = None
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
        """The text for `userMetadata`: compact, keys sorted, days as `[rows, fingerprint, digest,
        built]`; `schemes`: by day, where the fingerprint's scheme is not `scheme`. `columns` are
        the distinct columns of days, `columns_of` their numbers by day where it is not 0 (null: not
        known)."""
        schemas = list(
            dict.fromkeys(
                tuple(e.columns.items()) for e in self.days.values() if e.columns is not None
            )
        )
        numbers = {
            d: None if e.columns is None else schemas.index(tuple(e.columns.items()))
            for d, e in self.days.items()
        }
        body = {name: getattr(self, name) for name in UNCHANGED_FIELDS} | {
            "backfill_assets": SCHEMA,
            "code": self.code_digest,
            "settings": self.settings_digest,
            "frontier": self.frontier.isoformat() if self.frontier else None,
            "inputs": dict(self.inputs),
            "tags": dict(self.tags),
            "days": {
                str(d): [e.rows, e.fingerprint, e.input_digest, e.built]
                for d, e in self.days.items()
            },
            "counts": {str(d): dict(e.counts) for d, e in self.days.items() if e.counts},
            "parts": {str(d): dict(e.parts) for d, e in self.days.items() if e.parts},
            "columns": [dict(schema) for schema in schemas],
            "columns_of": {str(d): number for d, number in numbers.items() if number != 0},
            "scheme": SCHEME,
            "schemes": {str(d): e.scheme for d, e in self.days.items() if e.scheme != SCHEME},
        }
        return json.dumps(body, sort_keys=True, separators=(",", ":"))


def parse_receipt(text: str | None) -> Receipt | None:
    """The receipt in a commit's `userMetadata`; None for a foreign commit and an incomplete
    receipt.

    Raises BackfillError for one of a newer version, whose days would else be rebuilt.
    """
    try:
        body: Any = json.loads(text or "")
        if not isinstance(body, dict):
            return None
        schema = body.get("backfill_assets")
        if type(schema) is int and schema > SCHEMA:
            raise _newer(body)
        if schema != SCHEMA:
            return None
        return _from_body(body)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _newer(body: Mapping[str, Any]) -> BackfillError:
    return BackfillError(
        f"the table {body.get('table')}",
        "a newer version of backfill-assets wrote to it, whose receipts this one cannot read",
        "Nothing was read or written",
        "Upgrade backfill-assets",
    )


def _built(value: Any, body: Mapping[str, Any]) -> Built:
    if isinstance(value, str) and value not in Built.__members__.values():
        raise _newer(body)
    return Built(value)


def _from_body(body: Mapping[str, Any]) -> Receipt:
    parts = body.get("parts", {})  # receipts of earlier versions have neither these nor counts
    counts = _shared(
        {
            day: {str(k): int(n) for k, n in found.items()}
            for day, found in body.get("counts", {}).items()
        }
    )
    nothing: Mapping[str, Any] = {}  # one for all days without counts or parts
    scheme, schemes = int(body.get("scheme", UNNUMBERED)), body.get("schemes", {})
    schemas = [
        kept_columns(tuple((str(n), str(t)) for n, t in c.items())) for c in body.get("columns", ())
    ]
    numbers = body.get("columns_of", {})
    days = {
        date.fromisoformat(day): DayEntry(
            int(rows),
            str(fingerprint),
            str(digest),
            _built(built, body),
            counts.get(day, nothing),
            int(schemes.get(day, scheme)),
            {str(k): str(fingerprint) for k, fingerprint in parts[day].items()}
            if day in parts
            else nothing,
            schemas[number] if schemas and (number := numbers.get(day, 0)) is not None else None,
        )
        for day, (rows, fingerprint, digest, built) in body["days"].items()
    }
    times = {name: body.get(name) for name in ("seconds", "cpu_seconds", "start_seconds")}
    measured: dict[str, Any] = {
        name: None if time is None else float(time) for name, time in times.items()
    }
    return Receipt(
        days=days,
        **{name: body[name] for name in ("write_id", "table", "reason", "run_id", "note")},
        code_digest=body["code"],
        settings_digest=body["settings"],
        frontier=datetime.fromisoformat(body["frontier"]) if body["frontier"] else None,
        inputs=dict(body["inputs"]),
        tags=dict(body["tags"]),
        **measured,
        bytes=int(size) if (size := body.get("bytes")) is not None else None,
    )


@lru_cache(maxsize=1024)
def kept_columns(columns: tuple[tuple[str, str], ...]) -> Columns:
    """These names and types as a mapping, the same object for equal ones, which saves memory.
    Callers do not change it."""
    return dict(columns)


def _shared(counts: dict[str, dict[str, int]]) -> Mapping[str, Mapping[str, int]]:
    """The counts of each day; days with equal counts share one mapping, which saves memory."""
    known: dict[tuple[tuple[str, int], ...], dict[str, int]] = {}
    return {day: known.setdefault(tuple(found.items()), found) for day, found in counts.items()}
