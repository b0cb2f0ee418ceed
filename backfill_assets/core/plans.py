"""Words by which runs and receipts name a plan, its chunk and its write mode; and the rows that a preview finds moved.

Elsewhere: the plan itself (`operations.plan_model`), and running it (`operations.plan_run`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from backfill_assets.core.errors import BackfillError

PLAN_TAG, CHUNK_TAG = "plan", "chunk"  # in `Provenance.tags` and `Receipt.tags`: the plan's id, and the chunk's number
PLAN_REASON = "plan"  # the reason of every receipt that a plan's run wrote
MODE_TAG = "write_mode"  # of runs and receipts, where it is not overwrite: `merge`, or that with rows kept
CODE_TAG = "code"  # of runs and receipts of a plan that works by older code: which
MERGE, MERGE_KEEPING = "merge", "merge, removed rows kept"
MOST_CHUNK_DAYS = 31  # one huge run is one huge thing to put back: a month of days is what a person still looks at


@dataclass(frozen=True)
class DayMove:
    """A day of a table under today's settings against what stands there: how many keys it gains and loses, and how many
    change content."""

    table: str
    day: date
    gains: int
    loses: int
    changes: int


def mode_of(tags: Mapping[str, str]) -> str:
    """How a run with these tags changes days: "" (each is replaced as a whole), `MERGE` or `MERGE_KEEPING`.

    Raises BackfillError for any other word.
    """
    told = tags.get(MODE_TAG, "")
    if told not in ("", MERGE, MERGE_KEEPING):
        raise BackfillError(
            f"the tag {MODE_TAG}", f"{told[:40]!r} is no way to write", "Nothing was written",
            "Make a plan: `backfill-assets plan --write-mode merge`",
        )  # fmt: skip
    return told
