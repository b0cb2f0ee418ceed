"""The profile of a day's rows: what the gate judges, what Dagster plots, what a receipt records.

Lives here: the value. Does not live here: computing it (`lake.audit`) and its fingerprint (`lake.fingerprints`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

EMPTY_FINGERPRINT = "0"


@dataclass(frozen=True)
class DayProfile:
    """One day of one candidate: rows, fingerprint, NULLs per column, rows that repeat a key, sums per number column."""

    rows: int = 0
    fingerprint: str = EMPTY_FINGERPRINT
    nulls: Mapping[str, int] = field(default_factory=dict)
    duplicates: int = 0
    sums: Mapping[str, int] = field(default_factory=dict)
