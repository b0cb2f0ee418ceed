"""Commands as errors print them: the days that a command makes are the days that are meant.

Not tested here: the lake that it names (`dagster.adapter.test_printed_commands`), and refusals with
such commands (`kernel.write.test_good_days`, `dagster.test_messages`).
"""

from dataclasses import replace
from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.kernel.core.commands import making_advice, mending_advice
from backfill_assets.kernel.core.days import parse_days
from backfill_assets_tests.builders import STAGING

DAY = date(2024, 3, 2)
ASSETS = replace(STAGING, name="orders", made_by="shop/orders")
SOME = st.sets(st.dates(date(2024, 1, 1), date(2024, 2, 9)), min_size=1)


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
