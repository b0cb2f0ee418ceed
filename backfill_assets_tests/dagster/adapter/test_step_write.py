"""One write of a step: what a refusal leaves, and whose name it bears.

Tested here: `dagster.adapter.step_write` without a run. Not tested here: writes of runs
(`end_to_end.test_dagster_events`).
"""

from unittest.mock import Mock

import pytest

from backfill_assets.dagster.adapter.step_write import StepWrite
from backfill_assets.kernel.core.errors import BackfillError


def test_what_cannot_be_computed_is_no_verdict_and_is_published_by_nobody() -> None:
    rebuild, step = Mock(), Mock()
    rebuild.table.contract.made_by = "shop/orders"
    rebuild.prepare.side_effect = BackfillError(
        "the table orders", "a file is gone", "Nothing was written", "Make it"
    )
    write = StepWrite(step, rebuild)
    with pytest.raises(BackfillError, match="is gone"):
        write.prepare()
    assert write.key.path == ["shop", "orders"]
    step.log_event.assert_not_called()
    rebuild.publish.assert_not_called()
