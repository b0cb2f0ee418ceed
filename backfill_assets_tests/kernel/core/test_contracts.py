"""Contracts: what can be declared, what follows from it, and what cannot be built at all.

Tested here: `kernel.core.contracts`. Not tested here: the contracts of this product (`pipeline`).
"""

from dataclasses import replace

import pytest

from backfill_assets.kernel.core.contracts import Column, Input, InputKind, landed_by_versions
from backfill_assets_tests.builders import STAGING, contract


def test_a_table_of_versions_is_told_with_the_landed_table_whose_arrivals_it_reads() -> None:
    made = [
        contract("raw_b", "day"),
        contract("versions", "day", Input("raw_a", kind=InputKind.ARRIVALS)),
        contract("more", "day", Input("raw_b", kind=InputKind.ARRIVALS), Input("versions")),
        contract("sums", "day", Input("versions")),
    ]
    assert landed_by_versions(made) == {"versions": "raw_a", "more": "raw_b"}


def test_files_are_laid_out_by_day_unless_the_contract_says_otherwise() -> None:
    assert STAGING.partition_column == "event_date"
    assert replace(STAGING, partition_by="entity").partition_column == "entity"
    assert replace(STAGING, partition_by="", inputs=()).partition_column == ""


@pytest.mark.parametrize(
    "layout", ["", "no_such_column", "value"], ids=["none", "no column", "a number"]
)
def test_a_layout_in_which_days_cannot_be_replaced_is_refused_by_name(layout: str) -> None:
    with pytest.raises(
        ValueError, match=f"contract staging: partition_by is '{layout}'; name a STRING column"
    ):
        replace(STAGING, partition_by=layout)


def test_columns_whose_names_differ_by_case_only_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="contract staging: value and Value differ by case only"):
        replace(STAGING, columns=(*STAGING.columns, Column("Value", "BIGINT", "again")))


@pytest.mark.parametrize(
    "spoilt",
    [
        {"day_column": "no_such_day"},
        {"key": ("entity", "no_such_key")},
        {"columns": STAGING.columns + STAGING.columns[:1]},
    ],
    ids=["the day is no column", "a key is no column", "a column twice"],
)
def test_a_contract_that_contradicts_itself_cannot_be_built(spoilt: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="contract staging: day column and key must be columns"):
        replace(STAGING, **spoilt)  # type: ignore[arg-type]
