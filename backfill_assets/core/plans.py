"""Tags and values by which runs and receipts name a plan, its chunk, its write mode, and the versions of a rollback.

Elsewhere: the plan itself (`plans.model`), restoring files (`lake.restore`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Final

from backfill_assets.core.days import contiguous, parse_span
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.receipts import Receipt

PLAN_TAG, CHUNK_TAG = "plan", "chunk"  # in `Provenance.tags` and `Receipt.tags`: the plan's id, and the chunk's number
PLAN_REASON = "plan"  # the reason of every receipt that a plan's run wrote
MODE_TAG = "write_mode"  # of runs and receipts, where it is not overwrite: `merge`, or that with rows kept
KEEP_GOOD: Final = "keep_good"  # the days of a run that pass are written though others are refused
ON_BAD_DAYS_TAG = "on_bad_days"  # of runs: what is done with bad days, where it was asked for
CODE_TAG = "code"  # of runs and receipts of a plan that works by older code: which
MOST_CHUNK_DAYS = 31  # one huge run is one huge thing to put back: a month of days is what a person still looks at
ROLLBACK, RELEASE, PUBLISH = "rollback", "release", "publish"  # reasons of receipts
REPLAY = "replay-late"  # the reason of receipts that release rows of the ledger `too_late`
TO_VERSION = "to_version"  # tag of a rollback's receipt: `VERSION`, or `VERSION:FIRST..LAST …` where days differ
NO_DIGEST = ""  # the input digest of a day put back to before it was ever made: equal to no digest


class WriteMode(StrEnum):
    """How a write changes a day: it replaces the day as a whole, or upserts rows by key. `MERGE` refuses to keep rows
    that the new ones lack, `MERGE_KEEPING` keeps them."""

    OVERWRITE = ""
    MERGE = "merge"
    MERGE_KEEPING = "merge, removed rows kept"

    @property
    def upserts(self) -> bool:
        """Whether a day may afterwards hold rows that its inputs alone do not give."""
        return self is not WriteMode.OVERWRITE


@dataclass(frozen=True)
class DayMove:
    """A day of a table under today's settings against what is written."""

    table: str
    day: date
    gains: int  # keys
    loses: int  # keys
    changes: int  # keys whose rows differ


def keep_good_tags(asked: bool) -> dict[str, str]:
    """The tags of a run for which keeping good days was asked, or not."""
    return {ON_BAD_DAYS_TAG: KEEP_GOOD} if asked else {}


def mode_of(tags: Mapping[str, str]) -> WriteMode:
    """The write mode of a run with these tags. Raises BackfillError for an unknown one."""
    mode = tags.get(MODE_TAG, "")
    try:
        return WriteMode(mode)
    except ValueError:
        raise BackfillError(
            f"the tag {MODE_TAG}", f"{mode[:40]!r} is no way to write", "Nothing was written",
            "Make a plan: `backfill-assets plan --write-mode merge`",
        ) from None  # fmt: skip


def targets_text(targets: Mapping[date, int]) -> str:
    """The target versions of days, as the text of the tag `TO_VERSION`."""
    chosen = sorted(set(targets.values()))
    if len(chosen) == 1:
        return str(chosen[0])
    spans = [(v, r) for v in chosen for r in contiguous(d for d, at in targets.items() if at == v)]
    return " ".join(f"{version}:{span.start}..{span.last}" for version, span in spans)


def target_of(receipt: Receipt, day: date) -> int | None:
    """The version to which a rollback's receipt restored `day`; None if it names none."""
    text = receipt.tags.get(TO_VERSION, "")
    try:
        if ":" not in text:
            return int(text)
        for part in text.split():
            version, _, span = part.partition(":")
            if ".." in span and day in parse_span(span):
                return int(version)
    except (ValueError, BackfillError):
        return None
    return None
