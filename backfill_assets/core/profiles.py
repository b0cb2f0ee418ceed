"""The profile of a day's rows: what the gate judges, what Dagster plots, what a receipt records.

Lives here: the value and the text form of a fingerprint. Does not live here: computing it in Spark (`lake.profile`).
"""

from collections.abc import Mapping, Sequence
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


def fingerprint_text(halves: Sequence[int]) -> str:
    """The fingerprint as text: the sums of the low and high 32-bit halves of two salted hashes, in hex.

    Order-free and mergeable (AdHash): equal contents give equal text, whatever the order or partitioning of the rows.
    It finds accidents, not an attacker. `facts`: xxhash64 skips NULLs, so the hashed value starts with a NULL mask.
    """
    return ".".join(f"{half:X}" for half in halves) if any(halves) else EMPTY_FINGERPRINT
