"""raw: its contract, the same for every lake without a payload of its own.

Not tested here: the settings that reach it (`pipeline.test_tables`), and loading (`intake`).
"""

import pytest

from backfill_assets.intake.deliveries import GREATEST_VALUE
from backfill_assets.kernel.core.contracts import Contract, Input, InputKind
from backfill_assets_tests.pipeline.built_in import contract, contracts

ALL = contracts()


def test_it_is_made_from_the_landed_files_of_its_day() -> None:
    assert contract("raw").inputs == (Input("landing", kind=InputKind.FILES),)


def test_only_what_a_delete_lacks_may_be_null() -> None:
    assert [c.name for c in contract("raw").columns if c.nullable] == [
        "event_ts",
        "entity",
        "value",
        "flag",
    ]


@pytest.mark.parametrize("table", ["raw", "staging"])
def test_the_contract_names_the_bound_of_values_that_intake_holds(table: str) -> None:
    assert GREATEST_VALUE == 2**53
    assert "-2^53 through 2^53" in next(
        c.description for c in contract(table).columns if c.name == "value"
    )


@pytest.mark.parametrize("made", ALL.values(), ids=ALL)
def test_keys_and_days_of_no_table_are_ever_null_and_every_column_is_described(
    made: Contract,
) -> None:
    assert {*made.key, made.day_column} <= set(made.required_columns)
    assert all(c.description for c in made.columns)
    assert {c.name: c.type for c in made.columns}[made.day_column] == "DATE"
