"""How a run changes days: `WriteMode`, a value with its own rules, and its text in the tags of runs
and receipts.

Whoever writes asks the mode for a rule, such as `keeps_standing_rows`, never for its name. Not
here: the rows that a merge keeps (`kernel.write.session.Auditor`), judging days
(`kernel.write.judging`), and what a plan's options are called (`plans.policy`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.core.receipts import Built

MODE_TAG = "write_mode"  # of runs and receipts, where a write is no overwrite
ON_BAD_DAYS_TAG = "on_bad_days"  # of runs alone, where it was asked for
OVERWRITES, MERGES, MERGES_KEEPING = "", "merge", "merge, removed rows kept"  # texts of MODE_TAG


class OnBadDays(StrEnum):
    """What a run does with days that are refused: it writes none of its days, or the others."""

    REFUSE = "refuse"
    KEEP_GOOD = "keep_good"


@dataclass(frozen=True)
class WriteMode:
    """How a run changes days: it replaces each day as a whole, or upserts rows by their key."""

    # Rows that stand in a day, and that the new ones lack, stay; they may be there by chance.
    keeps_standing_rows: bool = False
    keeps_removed_rows: bool = False  # also where that is what a correction removed or moved
    on_bad_days: OnBadDays | None = None  # None: as the bounds of each table say

    @classmethod
    def of_tags(cls, tags: Mapping[str, str]) -> Self:
        """The mode of a run with these tags. Raises BackfillError for an unknown way to write, and
        SettingsError for another word about bad days."""
        mode = tags.get(MODE_TAG, OVERWRITES)
        if mode not in (OVERWRITES, MERGES, MERGES_KEEPING):
            raise BackfillError(
                f"the tag {MODE_TAG}",
                f"{mode[:40]!r} is no way to write",
                "Nothing was written",
                "Make a plan: `backfill-assets plan --write-mode merge`",
            )
        on_bad_days = _parse_bad_days(tags.get(ON_BAD_DAYS_TAG, ""))
        return cls(mode != OVERWRITES, mode == MERGES_KEEPING, on_bad_days)

    @property
    def tags(self) -> dict[str, str]:
        """The tags by which `of_tags` gives this mode, as plain texts: Dagster keeps no others."""
        tags = {}
        if self.text:
            tags[MODE_TAG] = self.text
        if self.on_bad_days is not None:
            tags[ON_BAD_DAYS_TAG] = self.on_bad_days.value
        return tags

    @property
    def text(self) -> str:
        """How receipts name the way to write; empty for an overwrite."""
        if not self.keeps_standing_rows:
            return OVERWRITES
        return MERGES_KEEPING if self.keeps_removed_rows else MERGES

    @property
    def keeps_good_days(self) -> bool:
        """Whether the days that pass are written though others are refused."""
        return self.on_bad_days is OnBadDays.KEEP_GOOD

    @property
    def gives_what_inputs_say(self) -> bool:
        """Whether the same inputs, code and settings must give the same rows whatever stood in a
        day: if not, no two writes of it can be compared."""
        return not self.keeps_standing_rows

    def settles(self, built: Built) -> bool:
        """Whether a day written as `built`, of today's inputs and code, need not be made again. A
        merged day holds rows that only a merge keeps."""
        return self.keeps_standing_rows or built is not Built.MERGED

    def with_default(self, on_bad_days: OnBadDays) -> Self:
        """This mode, which does that with bad days where nobody asked for anything."""
        return replace(self, on_bad_days=self.on_bad_days or on_bad_days)


def _parse_bad_days(asked: str) -> OnBadDays | None:
    """What a run is to do with bad days; None where nobody asked for anything (""). Raises
    SettingsError for another word."""
    if not asked:
        return None
    if asked not in {*OnBadDays}:
        raise SettingsError(
            ON_BAD_DAYS_TAG,
            f"{asked[:40]!r} is neither {' nor '.join(OnBadDays)}",
            "Nothing was written",
            "Name one of them",
        )
    return OnBadDays(asked)


OVERWRITE = WriteMode()
MERGE = WriteMode(keeps_standing_rows=True)
MERGE_KEEPING = WriteMode(keeps_standing_rows=True, keeps_removed_rows=True)
