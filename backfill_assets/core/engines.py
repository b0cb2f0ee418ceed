"""Which engine made a day, and whether a day that is made again from the same inputs has the same rows.

Lives here: the tags of a receipt that name the engine and the days that differ, and that comparison, of one engine
with itself or with another. Does not live here: engines (`engine`), and comparing rows (`lake.differences`). The engine
is no part of code or settings: two that give the same fingerprint are one to every day.
"""

import re

from backfill_assets.core.receipts import DayEntry
from backfill_assets.core.view import Stamp

UNLIKE = "unlike"  # the tag: days that differ from what the same inputs, code and settings gave before, with commas
ENGINE = "engine"  # the tag, e.g. `spark 4.2.0`; receipts of earlier versions have none
# How an engine whose queries share one pool says that they need more of it: sorting and grouping spill to disk, joining
# and writing cannot. The kinds of these errors are those of errors about data.
SHORT_OF_MEMORY = re.compile(
    r"remain available for the total memory pool|Resources exhausted|Failed to allocate additional"
)
CHANCE = ": the transform depends on more than its inputs, such as a file, the network or chance"


def disagreement(before: Stamp, now: DayEntry, code: tuple[str, str], engine: str) -> str:
    """How a day made again by `engine` differs from what the same inputs, code and settings gave before; empty where it
    does not, or where that cannot be said."""
    if not before.engine:
        return ""
    same = (before.code_digest, before.settings_digest) == code and before.entry.input_digest == now.input_digest
    if not same or before.entry.scheme != now.scheme or before.entry.built != now.built:
        return ""
    if before.entry.content == now.content:
        return ""
    return (
        f"{engine} gives other rows ({now.rows}, fingerprint {now.fingerprint}) than {before.engine} gave "
        f"({before.entry.rows}, {before.entry.fingerprint}) from the same inputs and code"
    ) + (CHANCE if before.engine == engine else "")
