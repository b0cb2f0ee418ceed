"""An engine as other rooms see it: what it can do, and the engine that a receipt names for a day.

Not here: how an engine is started and reached (`engines`), and comparing rows (`reading.matching`).
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backfill_assets.kernel.core.column_types import ColumnType
    from backfill_assets.kernel.core.contracts import Contract
    from backfill_assets.kernel.core.receipts import DayEntry
    from backfill_assets.kernel.core.view import DayReceipt

EMBEDDED, SAIL = "embedded", "sail"
OWN_SERVERS = (EMBEDDED, SAIL)  # engines that compute in a server of the lake's own
PROJECT_SESSION = "session"  # a session of the project's own
# The tag with the days (with commas) that differ from what the same inputs, code and settings gave
# before.
IRREPRODUCIBLE = "unlike"
ENGINE = "engine"  # the tag, e.g. `spark 4.2.0`; receipts of earlier versions have none
# How an engine whose queries share one pool says that they need more of it: sorting and grouping
# spill to disk, joining and writing cannot. The kinds of these errors are those of errors about
# data.
SHORT_OF_MEMORY = re.compile(
    r"remain available for the total memory pool|Resources exhausted|Failed to allocate additional"
)
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


class Engine:
    """The abilities of an engine. These are Spark's; the class of another engine overrides what
    differs."""

    name = "Spark"
    needs_java = True
    # `_metadata` names the file of a row and its place in it; else this process decodes files and
    # numbers their rows
    has_row_metadata = True
    # Landed values that Spark reads; else `converts` and `doubtful` say which it refuses.
    reads_all_landed = True
    reads_delta = True  # tables that another program changed, too
    # Files of a narrower type are read as the column's; else all files of a read are of one type.
    casts_files = True
    # `try_to_binary` gives NULL for what raises within it; else one row ends the query.
    catches_errors = True

    def files_at_once(self, memory: str, columns: int) -> int | None:
        """Return how many files of so many columns one write may have open, given `memory`; None:
        it decides itself."""
        return None

    def differences(
        self,
        text: str,
        types: Mapping[str, str],
        keys: Collection[frozenset[str]] = (),
        landed: bool = False,
        agg: str = "",
    ) -> Mapping[str, str]:
        """Return the names in SQL over columns of `types` that are known to give other rows than on
        Spark, each with what to write instead ("": nothing). `keys`: columns that identify a row;
        `landed`: its texts are landed; `agg`: the declared aggregation of the expression `text`
        ("": of the rows themselves)."""
        return {}

    def plan_differences(
        self, frame: Any, inputs: Mapping[str, Any], contracts: Sequence["Contract"]
    ) -> Mapping[str, str]:
        """Return the same for the plan of a frame over input frames with these contracts."""
        return {}

    def converts(self, found: str, kind: "ColumnType") -> bool:
        """Return whether it converts landed values of the type `found` (Spark's name of it) to
        `kind` as Spark does."""
        return True

    def doubtful(self, value: Any, found: str, kind: "ColumnType") -> Any:
        """Return the condition that it may convert the value otherwise than Spark; None if it never
        does."""
        return None


SPARK = Engine()


def differences_culprit(names: Mapping[str, str], engine: Engine) -> str:
    """Return the second part of a refusal's message: what differs."""
    shown = ", ".join([*names][:3])
    if len(names) > 3:
        shown += f" and {len(names) - 3} more"
    return f"{shown}: on {engine.name.lower()} not always what Spark gives"


def differences_advice(names: Mapping[str, str]) -> str:
    """Return the last part of a refusal's message: what to do."""
    instead = dict.fromkeys(filter(None, names.values()))
    return "; or: ".join([*instead, 'Set [spark] engine = "embedded": Spark computes it'])


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
