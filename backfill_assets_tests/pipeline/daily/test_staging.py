"""staging: its contract.

Tested here: `pipeline.daily.staging`. Not tested here: which versions there are (`transforms`).
"""

from backfill_assets.kernel.core.contracts import Input, InputKind
from backfill_assets_tests.pipeline.built_in import contract


def test_it_is_made_from_the_deliveries_that_the_ledger_of_arrivals_names() -> None:
    assert contract("staging").inputs == (Input("raw", kind=InputKind.ARRIVALS),)


def test_an_unknown_entity_and_an_open_interval_are_null() -> None:
    assert [c.name for c in contract("staging").columns if c.nullable] == ["entity", "known_until"]
