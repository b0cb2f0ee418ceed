"""The value by which a run says how it changes days. Not here: the tags of plans and work
(`kernel.core.test_plans`), and bounds of a table that say it (`kernel.write.test_good_days`)."""

from itertools import product

import pytest

from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.core.receipts import Built
from backfill_assets.kernel.core.write_mode import (
    MERGE,
    MERGE_KEEPING,
    OVERWRITE,
    OnBadDays,
    WriteMode,
)

MODES = [
    WriteMode(keeps_rows, keeps_rows and keeps_removed, on_bad_days)
    for keeps_rows, keeps_removed, on_bad_days in product(
        (False, True), (False, True), (None, *OnBadDays)
    )
]


@pytest.mark.parametrize("mode", dict.fromkeys(MODES), ids=lambda mode: str(mode.tags))
def test_a_mode_is_read_back_from_its_tags_and_asked_words_win_over_a_table_s(
    mode: WriteMode,
) -> None:
    assert WriteMode.of_tags(mode.tags) == mode
    assert {type(text) for text in mode.tags.values()} <= {str}, "Dagster keeps no enumerations"
    for of_table in OnBadDays:
        asked = mode.on_bad_days or of_table
        assert mode.with_default(of_table).keeps_good_days == (asked is OnBadDays.KEEP_GOOD)


def test_the_texts_in_receipts_and_tags_are_those_of_every_release() -> None:
    assert [m.text for m in (OVERWRITE, MERGE, MERGE_KEEPING)] == [
        "",
        "merge",
        "merge, removed rows kept",
    ]


def test_a_merged_day_is_settled_for_a_merge_alone_and_any_other_for_every_mode() -> None:
    for built in Built:
        assert MERGE.settles(built)
        assert OVERWRITE.settles(built) == (built is not Built.MERGED)


def test_other_words_are_refused_by_name() -> None:
    with pytest.raises(BackfillError, match="'append' is no way to write"):
        WriteMode.of_tags({"write_mode": "append"})
    with pytest.raises(SettingsError, match="'keep' is neither refuse nor keep_good"):
        WriteMode.of_tags({"on_bad_days": "keep"})
