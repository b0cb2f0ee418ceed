"""Engines by their names: in settings, in declared expressions, and in the receipt of a day that
one computed.

Not here: what an engine can do, how it is started and reached (the room `engines`), and comparing
rows (`reading.matching`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backfill_assets.kernel.core.receipts import DayEntry
    from backfill_assets.kernel.core.view import DayReceipt

EMBEDDED, SAIL = "embedded", "sail"
OWN_SERVERS = (EMBEDDED, SAIL)  # engines that compute in a server of the lake's own
PROJECT_SESSION = "session"  # a session of the project's own
# The tag with the days (with commas) that differ from what the same inputs, code and settings gave
# before.
IRREPRODUCIBLE = "unlike"
ENGINE = "engine"  # the tag, e.g. `spark 4.2.0`; receipts of earlier versions have none
DEPENDS_ON_CHANCE = (
    ": the transform depends on more than its inputs, such as a file, the network or chance"
)


@dataclass(frozen=True)
class DeclaredExpression:
    """A Spark SQL expression that `lake.toml` declares, and by which a table is computed."""

    where: str  # the place in `lake.toml`
    text: str
    types: Mapping[str, str]  # of the columns it may name
    agg: str = ""  # its declared aggregation; "": the expression is of the rows themselves


def rebuild_disagreement(
    before: "DayReceipt", now: "DayEntry", code: tuple[str, str], engine: str
) -> str:
    """Return how a day rebuilt by `engine` differs from what the same inputs, `code` (its digest
    and that of settings) gave before; empty if it does not, or if that cannot be said."""
    earlier = before.entry
    can_be_said = bool(before.engine) and (before.code_digest, before.settings_digest) == code
    decided_by = (now.input_digest, now.scheme, now.built)
    is_same_work = (earlier.input_digest, earlier.scheme, earlier.built) == decided_by
    if not can_be_said or not is_same_work or earlier.content == now.content:
        return ""
    found = (
        f"{engine} gives other rows ({now.rows}, fingerprint {now.fingerprint}) than "
        f"{before.engine} gave ({earlier.rows}, {earlier.fingerprint}) from the same inputs and "
        "code"
    )
    if before.engine == engine:
        found += DEPENDS_ON_CHANCE
    return found
