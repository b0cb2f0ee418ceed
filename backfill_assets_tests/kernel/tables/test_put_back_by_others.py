"""Days of an adopted table that a rollback put back, and that others write before they are
released. Not here: adopting and judging (`test_adopting.py`), and every other restore
(`test_restore.py`)."""

import pytest

from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.core.states import State
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets.plans.rollback import RollbackRequest, release_days, roll_back
from backfill_assets.testing import rows_of
from backfill_assets.upkeep.inspection import inspect_table
from backfill_assets_tests.files import publish_by_hand
from backfill_assets_tests.foreign.test_adopting import D1, D2, D3, World, rows, shared

__all__ = ("shared",)
pytestmark = pytest.mark.usefixtures("storages")


def test_a_day_that_was_put_back_stays_held_when_others_write_it_until_it_is_released(
    shared: World,
) -> None:
    pipeline = chosen_pipeline(shared.lake)
    shared.write(rows((D2, "b", 9)))
    shared.look()
    asked, by = (
        RollbackRequest(table="orders", days=DayRange(D2, D3), to_version=2),
        Provenance("manual"),
    )
    roll_back(shared.lake, pipeline, asked, by)
    shared.write(rows((D2, "c", 5), (D3, "c", 8)))
    assert shared.look().days == (D2, D3)
    assert shared.states() == {str(D1): State.FRESH, str(D2): State.HELD, str(D3): State.FRESH}
    assert (
        len(rows_of(shared.lake, "orders", D2))
        == shared.lake.store.view("orders", "day").latest[D2].entry.rows
        == 2
    )
    release_days(shared.lake, pipeline, asked, by)
    assert set(shared.states().values()) == {State.FRESH}
    assert (shared.look().days, inspect_table(shared.lake, pipeline.contracts[0]).day_rows) == (
        (),
        {D1: 2, D2: 2, D3: 1},
    )
    newest = shared.lake.store.head("orders")
    roll_back(shared.lake, pipeline, asked.model_copy(update={"over_newer": True}), by)
    roll_back(
        shared.lake,
        pipeline,
        asked.model_copy(update={"to_version": newest - 1, "over_newer": True}),
        by,
    )
    release_days(shared.lake, pipeline, asked, by)
    assert set(shared.states().values()) == {State.FRESH}, (
        "a version that was judged while held is put back, too"
    )
    assert len(rows_of(shared.lake, "orders", D2)) == 2


def test_a_day_that_a_plan_wrote_is_released_by_the_plans_name_when_others_wrote_it_since(
    shared: World,
) -> None:
    pipeline = chosen_pipeline(shared.lake)
    publish_by_hand(
        shared.lake,
        pipeline.contracts[0],
        [{"day": D2, "id": "b", "amount": 9}],
        plan="p",
        chunk="1",
    )
    asked, by = RollbackRequest(plan="p"), Provenance("manual")
    roll_back(shared.lake, pipeline, asked, by)
    for amount in (5, 6):  # judged twice
        shared.write(rows((D2, f"c{amount}", amount)))
        assert shared.look().days == (D2,)
    with pytest.raises(BackfillError, match="none of its days is held"):
        release_days(shared.lake, pipeline, RollbackRequest(plan="another"), by)
    assert release_days(shared.lake, pipeline, asked, by) == {"orders": (D2,)}
    assert set(shared.states().values()) == {State.FRESH}
    assert len(rows_of(shared.lake, "orders", D2)) == 3
