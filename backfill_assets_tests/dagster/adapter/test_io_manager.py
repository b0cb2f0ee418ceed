"""The only door to a table: what is refused there, and how an error looks in Dagster.

Tested here: `dagster.adapter.io_manager` without a run. Not tested here: a rebuild that it
publishes (`end_to_end`).
"""

from unittest.mock import Mock

import dagster as dg
import pytest

from backfill_assets.dagster.adapter.io_manager import (
    Handover,
    RebuildIOManager,
    as_failure,
)
from backfill_assets.dagster.adapter.step_write import StepWrite
from backfill_assets.kernel.core.errors import BackfillError


@pytest.mark.parametrize("value", [None, 1, [1], {"a": 1}, "text"])
def test_an_asset_that_returns_a_plain_value_is_refused_by_name_and_type(value: object) -> None:
    refusal = rf"the asset mine returned a {type(value).__name__}; .* Nothing was written"
    # A context that is not closed leaves its database to the garbage collector, which complains on
    # stderr.
    with (
        dg.build_output_context(asset_key=dg.AssetKey("mine")) as context,
        pytest.raises(dg.Failure, match=refusal) as refused,
    ):
        RebuildIOManager().handle_output(context, value)
    assert not refused.value.allow_retries


def test_a_publication_that_fails_gives_the_lock_of_the_load_back() -> None:
    rebuild, given_up = Mock(), Mock()
    rebuild.publish.side_effect = BackfillError(
        "the table raw", "a file is gone", "Nothing was written", "Make it"
    )
    handover = Handover(StepWrite(Mock(), rebuild), {}, given_up)
    with (
        dg.build_output_context(asset_key=dg.AssetKey("raw")) as context,
        pytest.raises(dg.Failure, match="is gone"),
    ):
        RebuildIOManager().handle_output(context, handover)
    given_up.assert_called_once_with()


def test_nothing_is_read_through_it() -> None:
    with (
        dg.build_input_context(asset_key=dg.AssetKey("raw")) as context,
        pytest.raises(dg.Failure, match="any Delta reader"),
    ):
        RebuildIOManager().load_input(context)


def test_an_error_is_one_line_with_its_four_parts_and_is_not_retried_by_dagster() -> None:
    failure = as_failure(
        BackfillError("the table raw", "the disk is full", "Nothing was written", "Free space")
    )
    assert (
        failure.description == "the table raw: the disk is full. Nothing was written. Free space."
    )
    assert {name: value.value for name, value in failure.metadata.items()} == {
        "about": "the table raw",
        "cause": "the disk is full",
        "consequence": "Nothing was written",
        "next": "Free space",
        "kind": "BackfillError",
    }
    assert not failure.allow_retries
