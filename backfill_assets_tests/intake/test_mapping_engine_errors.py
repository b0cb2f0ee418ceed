"""What engines say of a query: Spark by conditions and states, Sail by kinds and words. No engine
runs here."""

from typing import Any

import pytest
from pyspark.errors.exceptions.connect import (
    AnalysisException,
    ArithmeticException,
    ParseException,
    UnsupportedOperationException,
)

from backfill_assets.intake.mapping import (
    absent_column,
    has_no_condition,
    is_data_fault,
    is_select_fault,
)

ABSENT = (
    'attribute ObjectName([Identifier("who")]) is missing from the schema: cannot resolve attribute'
)


def of_spark(condition: str, state: str, parameters: dict[str, str] | None = None) -> Any:
    return AnalysisException(
        "told", errorClass=condition, sql_state=state, messageParameters=parameters or {}
    )


def test_an_absent_column_is_named_by_either_engine() -> None:
    spark = of_spark("UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703", {"objectName": "`who`"})
    assert absent_column(spark) == absent_column(AnalysisException(ABSENT)) == "who"
    assert absent_column(AnalysisException("Cannot coerce arithmetic expression")) == ""
    assert [has_no_condition(spark), has_no_condition(AnalysisException(ABSENT))] == [False, True]


@pytest.mark.parametrize(
    ("error", "text", "data"),
    [
        (of_spark("PARSE_SYNTAX_ERROR", "42601"), True, True),
        (of_spark("DATATYPE_MISMATCH", "42K09"), False, True),
        (of_spark("INTERNAL_ERROR", "XX000"), False, False),
        (ParseException("found ("), True, True),
        (UnsupportedOperationException("unknown function: nonsense"), True, True),
        (
            UnsupportedOperationException("cast Timestamp(Millisecond, None) to Timestamp"),
            False,
            True,
        ),
        (ArithmeticException("divide by zero"), False, True),
        (
            AnalysisException(
                "Failed to allocate 1 KB: 0 B remain available for the total memory pool"
            ),
            False,
            False,
        ),
        (OSError("no disk"), False, False),
    ],
)
def test_data_text_and_machine_are_told_apart(error: Any, text: bool, data: bool) -> None:
    assert (not isinstance(error, OSError) and is_select_fault(error), is_data_fault(error)) == (
        text,
        data,
    )
