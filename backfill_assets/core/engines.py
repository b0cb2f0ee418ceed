"""Which engine made a day, and whether two of them agree about it.

Lives here: the tag of a receipt that names the engine, and the comparison of a day with what another engine made of the
same inputs. Does not live here: engines (`engine`), and comparing rows (`lake.differences`). The engine is no part of
code or settings: two that give the same fingerprint are one to every day.
"""

from backfill_assets.core.receipts import DayEntry
from backfill_assets.core.view import Stamp

ENGINE = "engine"  # the tag, e.g. `spark 4.2.0`; receipts of earlier versions have none


def disagreement(before: Stamp, now: DayEntry, code: tuple[str, str], engine: str) -> str:
    """How a day made anew by `engine` differs from what another engine made of the same inputs with the same code and
    settings; empty where it does not, or where that cannot be said."""
    if not before.engine or before.engine == engine:
        return ""
    same = (before.code_digest, before.settings_digest) == code and before.entry.input_digest == now.input_digest
    if not same or before.entry.scheme != now.scheme or before.entry.built != now.built:
        return ""
    if before.entry.content == now.content:
        return ""
    return (
        f"{engine} gives other rows ({now.rows}, fingerprint {now.fingerprint}) than {before.engine} gave "
        f"({before.entry.rows}, {before.entry.fingerprint}) from the same inputs and code"
    )
