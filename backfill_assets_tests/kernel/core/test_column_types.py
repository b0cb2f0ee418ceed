"""The types of columns: one spelling of each, and refusals that say what to write.

Tested here: `kernel.core.column_types`. Not tested here: what engines make of them (`intake`).
"""

import pytest

from backfill_assets.kernel.core.column_types import read_type

SPELLINGS = {
    "bigint": "BIGINT",
    " Boolean ": "BOOLEAN",
    "decimal( 18 , 2 )": "DECIMAL(18,2)",
    "DECIMAL(38,38)": "DECIMAL(38,38)",
    "array<string>": "ARRAY<STRING>",
    "ARRAY < DECIMAL(9, 0) >": "ARRAY<DECIMAL(9,0)>",
}


@pytest.mark.parametrize(("written", "kept"), SPELLINGS.items())
def test_a_type_is_read_in_any_case_and_kept_in_one_spelling(written: str, kept: str) -> None:
    assert str(read_type(written)) == kept
    assert read_type(kept) == read_type(written)


REFUSED = {
    "VARCHAR(20)": "write STRING",
    "integer": "write INT",
    "float": "write DOUBLE",
    "DECIMAL": "write BOOLEAN, INT",
    "DECIMAL(39,2)": "1 through 38 digits",
    "DECIMAL(5,6)": "no more behind the point",
    "": "is no type",
    "ARRAY<ARRAY<INT>>": "is no type",
    "MAP<STRING,INT>": "is no type",
}


@pytest.mark.parametrize(("written", "told"), REFUSED.items())
def test_what_is_no_type_is_refused_with_what_to_write(written: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        read_type(written)


@pytest.mark.parametrize(
    ("other", "wanted", "wider"),
    [
        ("INT", "BIGINT", True),
        ("DECIMAL(9,2)", "DECIMAL(20,2)", True),
        ("ARRAY<INT>", "ARRAY<BIGINT>", True),
        ("BIGINT", "INT", False),
        ("DATE", "TIMESTAMP", False),
        ("DECIMAL(9,2)", "DECIMAL(20,4)", False),
        ("INT", "DOUBLE", False),
        ("INT", "INT", False),
        ("DECIMAL(9,2)", "DECIMAL(8,2)", False),
    ],
)
def test_a_type_is_wider_if_it_holds_every_value_with_the_same_text(
    other: str, wanted: str, wider: bool
) -> None:
    assert read_type(wanted).is_wider_than(read_type(other)) is wider
    assert not read_type(wanted).is_wider_than(None)
