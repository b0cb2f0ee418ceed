"""The profile of a day's rows: the input of gates, plots and receipts.

Not here: computing it (`lake.audit`) and its fingerprint (`lake.fingerprints`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

EMPTY_FINGERPRINT = "0"
# The number of the way fingerprints are made (`lake.fingerprints`): who changes it raises it, and receipts carry it.
SCHEME = 2  # 1: sums of salted xxhash64, computed by Spark before the write
NULL_COUNT = "null "  # + column: the names of NULL counts in a receipt
BROKEN = "breaks "  # + rule: rows, or groups of rows, that break a rule which only warns
BITS = "bits "  # + bucket + column: rows whose number has so many bits (`core.drift`)


@dataclass(frozen=True)
class DayProfile:
    """One day of one candidate: rows, fingerprint, NULLs per column, rows that repeat a key, sums of the numbers that
    have exact ones, rows (or groups) that break a rule of the contract by its name, and histograms of the columns that
    measure something (`core.drift`). `parts` are the fingerprints of sets of columns by their names
    (`core.readings`)."""

    rows: int = 0
    fingerprint: str = EMPTY_FINGERPRINT
    nulls: Mapping[str, int] = field(default_factory=dict)
    duplicates: int = 0
    sums: Mapping[str, int | Decimal] = field(default_factory=dict)
    broken: Mapping[str, int] = field(default_factory=dict)
    histograms: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)

    @property
    def content(self) -> tuple[int, str, int]:
        """What a receipt's `DayEntry.content` is compared with."""
        return (self.rows, self.fingerprint, SCHEME) if self.rows else (0, EMPTY_FINGERPRINT, SCHEME)


def null_counts(profile: DayProfile, columns: Iterable[str]) -> dict[str, int]:
    """The NULLs of these columns as counts of a receipt, zeros too: a column without a count was never counted."""
    return {NULL_COUNT + c: profile.nulls.get(c, 0) for c in columns}


def counted_nulls(counts: Mapping[str, int]) -> dict[str, int]:
    """NULLs per column as a receipt counted them; empty for receipts that are older than these counts."""
    return {name.removeprefix(NULL_COUNT): n for name, n in counts.items() if name.startswith(NULL_COUNT)}


def kept_counts(profile: DayProfile, columns: Iterable[str]) -> dict[str, int]:
    """What a receipt keeps of a profile besides rows and fingerprint: NULLs of these columns, broken rules (of a day
    that was written: those that only warn), and all histograms."""
    bits = {f"{BITS}{b} {c}": n for c, found in profile.histograms.items() for b, n in sorted(found.items())}
    return null_counts(profile, columns) | {BROKEN + rule: n for rule, n in profile.broken.items()} | bits


def counted_broken(counts: Mapping[str, int]) -> dict[str, int]:
    """Rows or groups that break a rule, as a receipt kept them."""
    return {name.removeprefix(BROKEN): n for name, n in counts.items() if name.startswith(BROKEN)}


def counted_histograms(counts: Mapping[str, int]) -> dict[str, dict[int, int]]:
    """Histograms per column as a receipt kept them; empty for receipts that were written earlier."""
    found: dict[str, dict[int, int]] = {}
    for name, rows in counts.items():
        if name.startswith(BITS):
            bucket, _, column = name.removeprefix(BITS).partition(" ")
            found.setdefault(column, {})[int(bucket)] = rows
    return found
