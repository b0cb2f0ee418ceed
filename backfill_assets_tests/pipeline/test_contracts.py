"""The contracts of the product: the columns of the tables and the days that they are made from.

Tested here: `pipeline.contracts`. Not tested here: that frames have these columns (`transforms`), and what a
contract may say at all (`core`).
"""

import pytest

from backfill_assets.core.contracts import Basis, Contract, Input
from backfill_assets.load.deliveries import GREATEST_VALUE
from backfill_assets_tests.pipeline.built_in import contracts

BY_NAME = contracts((7, 28), 14, 5)
ALL = list(BY_NAME.values())
NAMES = list(BY_NAME)


def test_each_table_is_made_from_those_before_it() -> None:
    assert NAMES == ["raw", "staging", "features", "features_as_known", "labels", "training"]
    seen = {"landing"}
    for contract in ALL:
        assert {i.table for i in contract.inputs} <= seen
        seen.add(contract.name)


@pytest.mark.parametrize(
    ("table", "inputs"),
    [
        ("raw", (Input("landing", basis=Basis.FILES),)),
        ("staging", (Input("raw", basis=Basis.ARRIVALS),)),
        ("features", (Input("staging", before=27),)),
        ("features_as_known", (Input("staging", before=27, basis=Basis.KNOWN_AT_CUT),)),
        ("labels", (Input("staging", before=13, after=14), Input("features_as_known"))),
        ("training", (Input("features_as_known"), Input("labels"))),
    ],
)
def test_the_days_that_a_day_is_made_from(table: str, inputs: tuple[Input, ...]) -> None:
    assert BY_NAME[table].inputs == inputs


def test_what_looks_at_the_cut_waits_for_it() -> None:
    assert [c.name for c in ALL if c.waits_for_cut] == ["features_as_known", "labels", "training"]


def test_labels_and_what_is_made_of_them_mature_after_horizon_and_maturity() -> None:
    ripening = {c.name: c.matures_after_days for c in ALL if c.matures_after_days is not None}
    assert ripening == {"labels": 19, "training": 19}


@pytest.mark.parametrize("contract", ALL, ids=NAMES)
def test_keys_and_days_are_never_null_and_every_column_is_described(contract: Contract) -> None:
    assert {*contract.key, contract.day_column} <= set(contract.required_columns)
    assert all(c.description for c in contract.columns)
    assert {c.name: c.type for c in contract.columns}[contract.day_column] == "DATE"


@pytest.mark.parametrize(
    ("table", "nullable"),
    [("raw", ["event_ts", "entity", "value", "flag"]), ("staging", ["entity", "known_until"])],
)
def test_what_may_be_null(table: str, nullable: list[str]) -> None:
    assert [c.name for c in BY_NAME[table].columns if c.nullable] == nullable


def test_nothing_downstream_of_staging_may_be_null_but_a_sum_that_does_not_fit() -> None:
    nullable = {c.name: c.description for made in ALL[2:] for c in made.columns if c.nullable}
    assert set(nullable) == {"value_short", "value_long", "forward", "backward"}
    assert all("does not fit 64 bits" in description for description in nullable.values())


def test_the_contract_names_the_bound_of_values_that_intake_holds() -> None:
    assert GREATEST_VALUE == 2**53
    for made in ALL[:2]:
        assert "-2^53 through 2^53" in next(c.description for c in made.columns if c.name == "value")
