"""Changed columns in words: gained, lost, of another type.

Tested here: `operations.status`. Not tested here: what becomes of the table (`lake.test_columns`).
"""

from dataclasses import replace

from backfill_assets.core.contracts import Column
from backfill_assets.operations.status import column_changes
from backfill_assets_tests.builders import STAGING

THERE = {"entity": "STRING", "value": "BIGINT", "event_date": "DATE"}


def test_a_table_as_its_contract_says_and_one_not_made_yet_change_nothing() -> None:
    assert column_changes(STAGING, THERE) == column_changes(STAGING, {}) == ()


def test_what_is_gained_lost_and_cannot_be_is_told_by_name() -> None:
    country = Column("country", "STRING", "where", nullable=True)
    other = replace(
        STAGING, columns=(country, Column("value", "DECIMAL(18,2)", "v"), STAGING.columns[2]), key=(), inputs=()
    )
    assert column_changes(other, THERE) == (
        "gets country STRING",
        "loses entity",
        "cannot be written: value is BIGINT, not DECIMAL(18,2)",
    )
