"""Commands as errors print them: each names the lake, and the days that it makes are the days that
are meant.

Not tested here: refusals with such commands (`kernel.write.test_good_days`,
`dagster.test_messages`).
"""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.kernel.core.commands import (
    commands_with_lake,
    making_advice,
    mending_advice,
    show_command,
)
from backfill_assets.kernel.core.days import parse_days
from backfill_assets.kernel.core.process import LAKE_VARIABLE
from backfill_assets_tests.builders import STAGING

DAY = date(2024, 3, 2)
ASSETS = replace(STAGING, name="orders", made_by="shop/orders")
SOME = st.sets(st.dates(date(2024, 1, 1), date(2024, 2, 9)), min_size=1)


def test_every_command_of_a_text_names_the_lake_but_one_that_needs_none(tmp_path: Path) -> None:
    lake = tmp_path / "my lake"
    text = (
        "Look with `backfill-assets show t 2024-03-02`, `backfill-assets guide plans`, or "
        "`lake_checks`"
    )
    shown = f"`backfill-assets show t 2024-03-02 --lake '{lake}'`"
    assert commands_with_lake(text, lake) == text.replace(
        "`backfill-assets show t 2024-03-02`", shown
    )
    assert commands_with_lake(commands_with_lake(text, lake), lake) == commands_with_lake(
        text, lake
    )


def test_a_lake_that_commands_find_by_themselves_is_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LAKE_VARIABLE, str(tmp_path))
    assert commands_with_lake(text := f"`{show_command('t', DAY)}`", tmp_path) == text


@given(days=SOME)
def test_an_advice_names_exactly_the_days(days: set[date]) -> None:
    command = making_advice(STAGING, days, can_run=False)
    words = command.strip("`").split()
    spans = f"{words[3]}..{words[5]}" if words[2] == "--from" else words[3]
    assert {*parse_days(spans)} == days
    told = making_advice(ASSETS, days, can_run=False).removeprefix(
        "materialize the asset shop/orders for "
    )
    assert {*parse_days(told.replace("...", "..").replace(", ", ","))} == days
    assert making_advice(ASSETS, days, can_run=True) == command.replace("staging", "orders")


def test_an_asset_without_a_commit_is_no_table_that_a_command_could_show() -> None:
    mend = mending_advice(ASSETS, DAY, [DAY], is_known=False, can_run=False)
    assert (
        mend
        == "Correct the input or the rule, then materialize the asset shop/orders for 2024-03-02"
    )
    assert "`backfill-assets show orders 2024-03-02`" in mending_advice(
        ASSETS, DAY, [DAY], is_known=True, can_run=False
    )
