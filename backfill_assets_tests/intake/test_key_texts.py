"""Which expressions for `event_key` take a number or a moment as it comes, by a matrix of
expressions and types.

Tested here: `intake.key_texts` alone. Not tested here: the keys that engines then make
(`intake.test_forms_of_keys`).
"""

import pytest

from backfill_assets.intake.casting import UnfitSelect
from backfill_assets.intake.key_texts import key_fault, refuse_varying_keys

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
