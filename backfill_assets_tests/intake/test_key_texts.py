"""Which expressions for `event_key` take a number or a moment as it comes, by a matrix of
expressions and types.

Tested here: `intake.key_texts` alone. Not tested here: the keys that engines then make
(`intake.test_forms_of_keys`).
"""

import pytest

from backfill_assets.intake.casting import UnfitSelect
from backfill_assets.intake.key_texts import (
    key_fault,
    key_fault_of_types,
    refuse_varying_keys,
)

VARYING = ("double", "float", "decimal(10,2)", "timestamp", "timestamp_ntz")
STEADY = ("decimal(10,0)", "date", "boolean", "string")
AS_IT_COMES = (
    "c",
    "CAST(c AS string)",
    "string(c)",
    "concat(c, '-', a)",
    "c || '-x'",
    "concat_ws('-', a, c)",
    "lower(c)",
    "coalesce(c, 'x')",
    "nvl(c, '')",
    "md5(CAST(c AS string))",
    "sha2(c, 256)",
    "format_string('%s', c)",
    "trim(c)",
    "substr(c, 1, 30)",
    "lpad(c, 8, '0')",
    "if(a IS NULL, 'x', c)",
    "CASE WHEN a = 'x' THEN c ELSE a END",
    "CAST(xxhash64(c) AS string)",
    "CAST(hash(c) AS string)",
    "to_json(struct(c))",
    "replace(c, 'x', 'y')",
    "array_join(array(c), ',')",
    "named_struct('a', c).a",
    "greatest(c, c)",
    "nullif(c, 0)",
    "url_encode(c)",
    "s.c",
    "l[0]",
    "CAST(c * 1 AS string)",
    "CAST(length(c) AS string)",
    "my_function(c)",
)
IN_A_FORM = (
    "CAST(CAST(c AS bigint) AS string)",
    "CAST(CAST(c AS decimal(20,2)) AS string)",
    "date_format(c, 'yyyyMMdd')",
    "CAST(CAST(c AS timestamp) AS string)",
    "concat(a, '@', CAST(c AS timestamp))",
    "CAST(unix_micros(c) AS string)",
    "to_char(c, '999.99')",
    "CAST(year(c) AS string)",
    "CAST(floor(c) AS string)",
    "CAST(c IS NULL AS string)",
    "CASE c WHEN 1 THEN 'a' END",
    "CASE WHEN c > 1 THEN a ELSE 'b' END",
    "if(c > 1, a, 'x')",
    "CAST(date_trunc('day', c) AS string)",
    "concat(a, CAST(to_date(c) AS string))",
    "regexp_replace(c, '[.]0$', '')",
    "CAST(c DIV 1 AS string)",
    "CAST(c IN (1, 2) AS string)",
    "a",
)


def columns(kind: str) -> dict[str, str]:
    return {"c": kind, "a": "string", "s": f"struct<c:{kind}>", "l": f"array<{kind}>"}


@pytest.mark.parametrize("expression", AS_IT_COMES)
def test_a_value_that_is_taken_as_it_comes_is_a_fault_where_its_text_varies(
    expression: str,
) -> None:
    for kind in VARYING:
        told = key_fault(f"{expression} AS event_key", columns(kind))
        assert told.startswith("event_key takes "), kind
        assert "CAST(CAST(" in told
    assert [key_fault(f"{expression} AS event_key", columns(kind)) for kind in STEADY] == [
        ""
    ] * len(STEADY)


@pytest.mark.parametrize("expression", IN_A_FORM)
def test_a_form_that_select_spells_out_is_none(expression: str) -> None:
    for kind in (*VARYING, *STEADY, "int"):
        assert key_fault(f"{expression} AS event_key", columns(kind)) == "", kind


def test_a_hash_of_a_whole_number_depends_on_its_width() -> None:
    assert key_fault("xxhash64(c)", {"c": "int"})
    assert not key_fault("xxhash64(CAST(c AS bigint))", {"c": "int"})
    assert not key_fault("concat(c, '-x')", {"c": "int"})


def test_other_columns_and_unknown_ones_are_not_judged() -> None:
    select = "a AS event_key, CAST(c AS string) AS who, c AS event_ts"
    refuse_varying_keys(select, {"a": "string", "c": "double"}, ())
    refuse_varying_keys("gone AS event_key", {"c": "double"}, ())
    with pytest.raises(UnfitSelect, match=r"CAST\(CAST\(a AS double\) AS bigint\)"):
        refuse_varying_keys(select, {"a": "string", "c": "double"}, {"a"})


NESTED = {
    "s": "struct<`a`:{},`b`:string,`t`:struct<`c`:{}>>",
    "l": "array<{}>",
    "m": "map<string,{}>",
    "k": "map<{},string>",
    "r": "array<struct<`x`:{},`y`:int>>",
}
TAKEN_WHOLE = (
    "CAST(s AS string)",
    "string(l)",
    "md5(CAST(m AS string))",
    "concat(CAST(k AS string), 'x')",
    "to_json(r)",
    "array_join(l, ',')",
    "CAST(l[0] AS string)",
    "CAST(s.t AS string)",
    "CAST(r[0].x AS string)",
    "CAST(try_element_at(l, 1) AS string)",
    "CAST(array(s) AS string)",
    "concat_ws(',', CAST(l AS array<string>))",
    "CAST(coalesce(l, array()) AS string)",
    "CAST(sort_array(l) AS string)",
    "CAST(hash(s) AS string)",
    "CAST(transform(l, x -> x) AS string)",
    "sha2(to_json(struct(*)), 256)",
    "array_join(transform(l, x -> CAST(x AS string)), ',')",
)
WITHOUT_IT = (
    "s.b",
    "CAST(s.b AS string)",
    "CAST(r[0].y AS string)",
    "CAST(size(l) AS string)",
    "CAST(l IS NULL AS string)",
    "CAST(CAST(s.a AS decimal(20,4)) AS string)",
    "CAST(CAST(l[0] AS decimal(20,4)) AS string)",
    "CAST(CAST(l[0] AS bigint) AS string)",
    "CAST(transform(l, x -> CAST(x AS decimal(20,4))) AS string)",
    "array_join(transform(l, x -> CAST(CAST(x AS decimal(20,4)) AS string)), ',')",
    "CAST(struct(CAST(s.a AS decimal(20,4)), s.b) AS string)",
    "to_json(struct(* EXCEPT (s, l, m, k, r)))",
    "a",
)


def columns_read(expression: str) -> list[tuple[str, str]]:
    """The nested columns that an expression may read, with their types to be filled in."""
    return [(name, kind) for name, kind in NESTED.items() if name in expression]


@pytest.mark.parametrize("expression", TAKEN_WHOLE)
def test_a_wider_type_within_a_value_is_a_fault_where_the_key_takes_its_text(
    expression: str,
) -> None:
    pairs = (("decimal(5,2)", "decimal(12,4)"), ("int", "double"), ("float", "double"))
    select = f"{expression} AS event_key"
    for before, after in pairs:
        told = [
            key_fault_of_types(select, name, kind.replace("{}", before), kind.replace("{}", after))
            for name, kind in columns_read(expression)
        ]
        assert any("event_key takes " in fault and ": write " in fault for fault in told), before
    for name, kind in columns_read(expression):
        same = kind.replace("{}", "decimal(9,2)"), kind.replace("{}", "decimal(12,2)")
        if "hash" not in expression:
            assert key_fault_of_types(select, name, *same) == ""
        assert key_fault(select, {name: same[0]}) == "" or "[0]" in expression


@pytest.mark.parametrize("expression", WITHOUT_IT)
def test_a_wider_type_that_no_text_in_the_key_shows_is_none(expression: str) -> None:
    for name, kind in NESTED.items():
        before, after = kind.replace("{}", "decimal(5,2)"), kind.replace("{}", "decimal(12,4)")
        assert key_fault_of_types(f"{expression} AS event_key", name, before, after) == ""


def test_a_hash_depends_on_the_widths_within_a_value_and_a_text_does_not() -> None:
    types = "struct<`a`:int>", "struct<`a`:bigint>"
    assert key_fault_of_types("xxhash64(s) AS event_key", "s", *types)
    assert not key_fault_of_types("CAST(s AS string) AS event_key", "s", *types)


def test_a_whole_number_that_became_a_text_within_a_value_has_the_same_one() -> None:
    for before, after in (("bigint", "string"), ("array<bigint>", "array<string>")):
        assert not key_fault_of_types("CAST(c AS string) AS event_key", "c", before, after)


def test_a_field_that_came_to_a_struct_is_no_wider_type() -> None:
    types = "struct<`a`:decimal(5,2)>", "struct<`b`:string,`a`:decimal(5,2)>"
    assert not key_fault_of_types("to_json(s) AS event_key", "s", *types)
