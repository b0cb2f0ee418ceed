"""What an engine can do: Spark's abilities, which the class of another engine narrows, and the
words of a refusal where one computes otherwise.

Here: the class `Engine`, which everybody asks who computes or takes in. Not here: how an engine is
started and reached (`server`, `session`), what a certain engine computes otherwise (its own
module), and the engine that a receipt names (`kernel.core.engines`).
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from backfill_assets.kernel.core.column_types import ColumnType
from backfill_assets.kernel.core.contracts import Contract

# How an engine whose queries share one pool says that they need more of it: sorting and grouping
# spill to disk, joining and writing cannot. The kinds of these errors are those of errors about
# data.
SHORT_OF_MEMORY = re.compile(
    r"remain available for the total memory pool|Resources exhausted|Failed to allocate additional"
)


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
    bounds_files = False  # whether one write may have only so many open (`files_at_once`)

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
        self, frame: Any, inputs: Mapping[str, Any], contracts: Sequence[Contract]
    ) -> Mapping[str, str]:
        """Return the same for the plan of a frame over input frames with these contracts."""
        return {}

    def converts(self, found: str, kind: ColumnType) -> bool:
        """Return whether it converts landed values of the type `found` (Spark's name of it) to
        `kind` as Spark does."""
        return True

    def doubtful(self, value: Any, found: str, kind: ColumnType) -> Any:
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


def identifying_columns(inputs: Collection[Contract]) -> list[frozenset[str]]:
    """Sets of columns that identify a row of one of these tables: its key, and the column of its
    day."""
    return [frozenset((*c.key, day)) for c in inputs for day in _day_columns(c)]


def _day_columns(contract: Contract) -> Iterator[str]:
    """The columns that give a row's day: the day itself, and the time that decides it (`x_ts` for
    `x_date`)."""
    yield contract.day_column
    time = f"{contract.day_column.removesuffix('_date')}_ts"
    if time in contract.column_names:
        yield time
