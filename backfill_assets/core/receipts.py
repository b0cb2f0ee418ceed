"""Receipts: the record in every commit of this package, as JSON in Delta's `userMetadata`; the truth about a write.

Not here: reading them from a log (`lake.log`) and deriving states (`core.states`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from typing import Any

from backfill_assets.core.errors import BackfillError
from backfill_assets.core.profiles import EMPTY_FINGERPRINT, SCHEME, DayProfile

SCHEMA = 1
KEPT = "kept"  # the count of a merged day: rows that stood there and that its inputs do not give
UNNUMBERED = 1  # the scheme of receipts from before they named it: never called equal to one of ours


class Built(StrEnum):
    """The kind of a day's write."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"  # required input days were missing
    PENDING = "pending"  # its cut lay after the frontier: empty on purpose
    HELD = "held"  # put back by a rollback; to be left alone
    MERGED = "merged"  # complete, and rows are kept besides that its inputs do not give (write mode `merge`)


@dataclass(frozen=True, slots=True)  # tens of thousands are held
class DayEntry:
    """One day of a receipt: its row count, content fingerprint, input digest and what was said of it.

    `counts` are further whole numbers by name (NULLs per column as `null COLUMN`, duplicates, quarantined rows, …), as
    counted when the day was made. They decide nothing: two entries that differ only in them are equal. `scheme` is the
    number of the way the fingerprint was made; it stays with the day when a receipt repeats an older one. `parts` are
    fingerprints of sets of its columns by their names (`core.readings`).
    """

    rows: int
    fingerprint: str
    input_digest: str
    built: Built = Built.COMPLETE
    counts: Mapping[str, int] = field(default_factory=dict, compare=False)
    scheme: int = SCHEME
    parts: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def content(self) -> tuple[int, str, int]:
        """What says whether two days hold the same rows: equal only if they do. Fingerprints of two schemes say
        nothing of each other, so that days with rows are then never equal; a day without rows is one in any scheme."""
        return (self.rows, self.fingerprint, self.scheme) if self.rows else (0, EMPTY_FINGERPRINT, SCHEME)

    def agrees_with(self, found: DayProfile) -> bool:
        """Whether what was found now may be what was written: by rows alone where the scheme is another."""
        return self.rows == found.rows and (self.scheme != SCHEME or self.content == found.content)


@dataclass(frozen=True)
class Receipt:
    """Who wrote which days of `table` from which inputs. `inputs` are table versions; `frontier` an aware instant.

    `seconds` is what the work took from being asked for to its commit, `cpu_seconds` what it used of the processors of
    this machine (None: not measured), and `start_seconds` those of `seconds` in which it waited for an engine to be
    opened. `bytes` are those of the data files that it brought. They decide nothing.
    """

    write_id: str
    table: str
    reason: str
    days: Mapping[date, DayEntry]
    run_id: str = ""
    note: str = ""
    code_digest: str = ""
    settings_digest: str = ""
    frontier: datetime | None = None
    inputs: Mapping[str, int] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    seconds: float | None = None
    cpu_seconds: float | None = None
    start_seconds: float | None = None
    bytes: int | None = None

    def __post_init__(self) -> None:
        if self.frontier is not None and self.frontier.tzinfo is None:
            raise ValueError(f"the frontier of a receipt is an aware instant, got {self.frontier}")

    @property
    def work_seconds(self) -> float:
        """What the work took once an engine was open; 0.0 where nothing was measured."""
        return max((self.seconds or 0.0) - (self.start_seconds or 0.0), 0.0)

    def to_json(self) -> str:
        """The text for `userMetadata`: compact, keys sorted, days as `[rows, fingerprint, digest, built]`; `schemes`
        are those of the days whose fingerprint is not by `scheme`."""
        body = {
            "backfill_assets": SCHEMA,
            "write_id": self.write_id,
            "table": self.table,
            "reason": self.reason,
            "run_id": self.run_id,
            "note": self.note,
            "code": self.code_digest,
            "settings": self.settings_digest,
            "frontier": self.frontier.isoformat() if self.frontier else None,
            "inputs": dict(self.inputs),
            "tags": dict(self.tags),
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "start_seconds": self.start_seconds,
            "bytes": self.bytes,
            "days": {str(d): [e.rows, e.fingerprint, e.input_digest, e.built] for d, e in self.days.items()},
            "counts": {str(d): dict(e.counts) for d, e in self.days.items() if e.counts},
            "parts": {str(d): dict(e.parts) for d, e in self.days.items() if e.parts},
            "scheme": SCHEME,
            "schemes": {str(d): e.scheme for d, e in self.days.items() if e.scheme != SCHEME},
        }
        return json.dumps(body, sort_keys=True, separators=(",", ":"))


def parse_receipt(text: str | None) -> Receipt | None:
    """The receipt in a commit's `userMetadata`, or None for a foreign commit.

    An incomplete receipt counts as foreign. Raises BackfillError for one of a newer version: taken for foreign, its
    days would be rebuilt and its held or released days be lost.
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


def _built(said: Any, body: Mapping[str, Any]) -> Built:
    if isinstance(said, str) and said not in Built.__members__.values():
        raise _newer(body)
    return Built(said)


def _from_body(body: Mapping[str, Any]) -> Receipt:
    parts = body.get("parts", {})  # receipts of earlier versions have neither these nor counts
    counts = _shared({day: {str(k): int(n) for k, n in found.items()} for day, found in body.get("counts", {}).items()})
    nothing: Mapping[str, Any] = {}  # one for all days without counts or parts
    scheme, schemes = int(body.get("scheme", UNNUMBERED)), body.get("schemes", {})
    days = {
        date.fromisoformat(day): DayEntry(
            int(rows),
            str(fingerprint),
            str(digest),
            _built(built, body),
            counts.get(day, nothing),
            int(schemes.get(day, scheme)),
            {str(k): str(fingerprint) for k, fingerprint in parts[day].items()} if day in parts else nothing,
        )
        for day, (rows, fingerprint, digest, built) in body["days"].items()
    }
    return Receipt(
        write_id=body["write_id"],
        table=body["table"],
        reason=body["reason"],
        days=days,
        run_id=body["run_id"],
        note=body["note"],
        code_digest=body["code"],
        settings_digest=body["settings"],
        frontier=datetime.fromisoformat(body["frontier"]) if body["frontier"] else None,
        inputs=dict(body["inputs"]),
        tags=dict(body["tags"]),
        seconds=_number(body.get("seconds")),  # older receipts have none
        cpu_seconds=_number(body.get("cpu_seconds")),
        start_seconds=_number(body.get("start_seconds")),
        bytes=int(told) if (told := body.get("bytes")) is not None else None,
    )


def _shared(counts: dict[str, dict[str, int]]) -> Mapping[str, Mapping[str, int]]:
    """The counts of each day; days with equal counts share one mapping, which saves half a KiB for most days."""
    known: dict[tuple[tuple[str, int], ...], dict[str, int]] = {}
    return {day: known.setdefault(tuple(found.items()), found) for day, found in counts.items()}


def _number(told: Any) -> float | None:
    return float(told) if told is not None else None
