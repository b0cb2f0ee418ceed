"""The types of the parts of an expression, before an engine sees it.

Tested here: what a part holds, through fields, elements, lambdas and functions that pass arguments
on. Not tested here: what is refused by it (`test_session_free`, `test_differing`).
"""

import pytest
from sqlglot import exp

from backfill_assets.intake.expression_types import is_floating, typed_tree, value_kinds

TYPES = {
    "t": "string",
    "at": "timestamp",
    "d": "date",
    "n": "bigint",
    "f": "double",
    "a": "array<string>",
    "times": "array<timestamp>",
    "m": "map<string,timestamp>",
    "s": "struct<t:string,at:timestamp>",
    "odd": "struct<a b:string>",
}


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("t", ["text"]),
        ("at", ["time"]),
        ("d", ["date"]),
        ("n", ["other"]),
        ("absent", []),
        ("NULL", []),
        ("a", ["text"]),
        ("a[0]", ["text"]),
        ("get(times, 0)", ["time"]),
        ("m['x']", ["time"]),
        ("m", ["time"]),
        ("s.at", ["time"]),
        ("x.s.t", ["text"]),
        ("s", ["text", "time"]),
        ("struct(at, t)", ["time", "text"]),
        ("odd.`a b`", []),
        ("s.missing", []),
        ("concat(array(at), times)[1]", ["time"]),
        ("map('x', at)['x']", ["time"]),
        ("decode(n, 1, at, t)", ["time"]),
        ("aggregate(a, at, (x, y) -> x)", ["time"]),
        ("transform(a, x -> cast(x AS timestamp))", ["time"]),
        ("transform(n, x -> x)", []),
        ("zip_with(times, a, (x, y) -> y)", ["text"]),
        ("transform_values(m, (k, v) -> v)", ["time"]),
        ("map_zip_with(m, m, (k, x, y) -> x)", ["time"]),
        ("try_to_timestamp(t, 'yyyy')", []),
        ("unknown(at)", []),
        ("array_sort(a, (l, r) -> 1)", ["text"]),
        ("filter(times, (x, i) -> i > 0)", ["time"]),
    ],
)
def test_a_part_holds_what_its_columns_fields_and_lambdas_do(text: str, kinds: list[str]) -> None:
    assert list(value_kinds(typed_tree(text, TYPES))) == kinds


@pytest.mark.parametrize("text", ["coalesce(", "map(t)", "filter(a, )"])
def test_what_the_parser_cannot_read_is_a_null(text: str) -> None:
    assert isinstance(typed_tree(text, TYPES), exp.Null)


def test_a_call_without_its_argument_is_no_text_and_no_instant() -> None:
    """Some releases of the parser refuse it, some leave that to the engine."""
    assert value_kinds(typed_tree("floor()", TYPES)) in ((), ("other",))


def test_a_double_is_floating_and_a_whole_number_is_not() -> None:
    assert [is_floating(typed_tree(text, TYPES)) for text in ("f", "n", "absent")] == [
        True,
        False,
        False,
    ]
