"""The profile of a day's rows: what the gate judges, what Dagster plots, what a receipt records.

Lives here: the value, and NULL counts as a receipt keeps them. Does not live here: computing it (`lake.audit`) and its
fingerprint (`lake.fingerprints`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

EMPTY_FINGERPRINT = "0"
NULL_COUNT = "null "  # + column: the names of NULL counts in a receipt


@dataclass(frozen=True)
class DayProfile:
    """One day of one candidate: rows, fingerprint, NULLs per column, rows that repeat a key, sums per number column,
    rows that break a rule of the contract by its name."""

    rows: int = 0
    fingerprint: str = EMPTY_FINGERPRINT
    nulls: Mapping[str, int] = field(default_factory=dict)
    duplicates: int = 0
    sums: Mapping[str, int] = field(default_factory=dict)
    broken: Mapping[str, int] = field(default_factory=dict)


def null_counts(profile: DayProfile, columns: Iterable[str]) -> dict[str, int]:
    """The NULLs of these columns as counts of a receipt, zeros too: a column without a count was never counted."""
    return {NULL_COUNT + c: profile.nulls.get(c, 0) for c in columns}


def counted_nulls(counts: Mapping[str, int]) -> dict[str, int]:
    """NULLs per column as a receipt counted them; empty for receipts of before there were counts."""
    return {name.removeprefix(NULL_COUNT): n for name, n in counts.items() if name.startswith(NULL_COUNT)}
