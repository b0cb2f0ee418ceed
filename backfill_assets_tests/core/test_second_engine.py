"""Which names and types the second engine may not use. The lists themselves are held to Sail in `load`."""

import pytest

from backfill_assets.core.second_engine import Term, unequal

TYPES = {
    "value": "BIGINT", "total": "DECIMAL(18,2)", "x": "DOUBLE", "event_ts": "TIMESTAMP", "entity": "STRING",
    "day": "DATE",
}  # fmt: skip
VALUE, TOTAL, X, TIME = (Term("column", name) for name in ("value", "total", "x", "event_ts"))
ONE = Term("literal", "INT")


def call(name: str, *parts: Term) -> Term:
    return Term("call", name, parts)


@pytest.mark.parametrize(
    ("term", "refused"),
    [
        (call("+", VALUE, ONE), ["+"]),
        (call("+", TOTAL, ONE), []),
        (call("*", Term("cast", "DECIMAL", (VALUE,)), ONE), []),
        (call("sum", VALUE), ["sum"]),
        (call("try_sum", VALUE), []),
        (call("sum", X), ["sum"]),
        (call("try_add", VALUE, Term("cast", "BIGINT", (ONE,))), []),
        (call("try_add", Term("column", "day"), ONE), []),
        (call("try_add", VALUE, ONE), []),
        (call("+", call("year", TIME), ONE), []),
        (call("+", Term("column", "of_a_type_not_told"), ONE), []),
        (call("-", Term("column", "day"), Term("column", "day")), ["-"]),
        (call("-", Term("column", "day"), ONE), []),
        (call("/", TOTAL, ONE), ["/ of DECIMAL"]),
        (call("left", Term("column", "entity"), call("negative", ONE)), ["left from the end"]),
        (call("left", Term("column", "entity"), ONE), []),
        (call("min", call("struct", VALUE, ONE)), ["min of STRUCT"]),
        (call("concat", call("date_format", TIME, ONE), ONE), []),
        (call("collect_list", VALUE), ["collect_list unsorted"]),
        (call("try_subtract", VALUE, ONE), []),
        (call("max", X), ["max of DOUBLE"]),
        (call("collect_set", VALUE), ["collect_set unsorted"]),
        (call("sort_array", call("collect_set", VALUE)), []),
        (call("max", VALUE), []),
        (call("max", Term("column", "of_a_type_not_told")), []),
        (call("upper", TIME), ["upper of TIMESTAMP"]),
        (call("coalesce", X, ONE), []),
        (call("coalesce", X, TOTAL), ["coalesce of DOUBLE"]),
        (call("case", VALUE, ONE), ["case of several types"]),
        (call("case", ONE, Term("literal", "NULL")), []),
        (Term("cast", "BIGINT", (TIME,)), ["cast as bigint"]),
        (Term("cast", "BIGINT", (VALUE,)), []),
        (Term("cast", "BIGINT", (call("hour", TIME),)), []),
        (Term("cast", "BINARY", (VALUE,)), []),
    ],
)
def test_what_would_be_otherwise_without_a_word_is_refused_by_name(term: Term, refused: list[str]) -> None:
    assert list(unequal(term, TYPES)) == refused
