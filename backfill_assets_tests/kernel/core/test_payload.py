"""The payload: what a declaration gives, which names are not free, and what can name an entity.

Tested here: `kernel.core.payload`. Not tested here: the settings that hold it
(`kernel.tables.sections`).
"""

import pytest

from backfill_assets.kernel.core.payload import entity_misfit, log_columns, read_payload

ORDERS = {
    "customer_id": "STRING",
    "total": "decimal(18, 2) not  null",
    "is_return": "BOOLEAN NOT NULL",
}
REFUSED = {
    "a name of the machinery": ({"seq": "BIGINT"}, "seq is a name of the tables themselves"),
    "one in another case": (
        {"Known_From": "DATE"},
        "Known_From is a name of the tables themselves",
    ),
    "one name twice": ({"total": "INT", "Total": "INT"}, "total and Total are one name to SQL"),
    "no name": ({"my total": "INT"}, "'my total' is no name of a column"),
    "a name of ours": ({"__total": "INT"}, "'__total' is no name of a column"),
    "a type that is none": ({"total": "MONEY"}, "total: 'MONEY' is no type; write BOOLEAN"),
    "no column": ({}, "it names no column"),
}


@pytest.mark.parametrize(("declared", "told"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_a_payload_is_refused_by_name(declared: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        read_payload(declared)


@pytest.mark.parametrize(
    ("entity", "told"),
    [
        (("customer_id",), ""),
        (("customer_id", "is_return"), ""),
        (
            ("country",),
            "country is no column of the payload; name one or several of customer_id, total, "
            "is_return",
        ),
        (("total", "total"), "a column is named twice"),
    ],
)
def test_an_entity_is_named_by_columns_of_the_payload(entity: tuple[str, ...], told: str) -> None:
    assert entity_misfit(entity, read_payload(ORDERS)).startswith(told)
    assert bool(entity_misfit(entity, read_payload(ORDERS))) is bool(told)


@pytest.mark.parametrize("kind", ["DOUBLE", "BINARY", "ARRAY<INT>"])
def test_what_has_no_plain_equality_names_no_entity(kind: str) -> None:
    assert entity_misfit(("x",), read_payload({"x": kind})).startswith("x is ")


def test_raw_keeps_of_a_table_what_select_gives_that_the_commit_gives_of_rows_it_took() -> None:
    assert log_columns(()) == {"log_change": "STRING", "log_commit_ts": "TIMESTAMP"}
    own = log_columns(["version_ts", "event_key", "seq"]).items() - log_columns(()).items()
    assert dict(own) == {"row_seq": "BIGINT", "row_version_ts": "TIMESTAMP"}
