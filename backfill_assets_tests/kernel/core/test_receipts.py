"""Receipts: what a commit says of itself survives the log, and nothing else passes for a receipt.

Tested here: `kernel.core.receipts`. Not tested here: finding receipts in a log
(`kernel/log/test_log.py`).
"""

import json
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given

from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.profiles import SCHEME, DayProfile
from backfill_assets.kernel.core.receipts import (
    SCHEMA,
    Built,
    DayEntry,
    Receipt,
    parse_receipt,
)
from backfill_assets_tests.builders import day, receipt
from backfill_assets_tests.strategies import json_values, receipts

WHOLE: dict[str, Any] = json.loads(
    receipt(frontier=datetime(2024, 3, 1, tzinfo=UTC), inputs={"raw": 4}).to_json()
)
FOREIGN = {
    "no metadata": None,
    "an empty text": "",
    "a person's note": "fixed the bad day by hand",
    "torn JSON": '{"backfill_assets":1,"write_id":"w',
    "zero bytes": "\x00\x00\x00",
    "a number": "7",
    "a list": '[{"backfill_assets":1}]',
    "null": "null",
    "another tool's JSON": '{"job":"nightly","days":{}}',
    "the schema and nothing else": '{"backfill_assets":1}',
    "a yes instead of a schema": '{"backfill_assets":true}',
    "brackets without end": "[" * 100_000,
}
BROKEN: dict[str, dict[str, Any]] = {
    "days as a list": {"days": ["2024-02-26"]},
    "days missing": {"days": None},
    "a day that is none": {"days": {"2024-02-30": [1, "A", "d", "complete"]}},
    "a day with a fact too few": {"days": {"2024-02-26": [1, "A", "d"]}},
    "rows that are no number": {"days": {"2024-02-26": ["many", "A", "d", "complete"]}},
    "a frontier that is no time": {"frontier": "soon"},
    "a frontier without a time zone": {"frontier": "2024-03-01T00:00:00"},
    "a frontier as a number": {"frontier": 17},
    "inputs as a number": {"inputs": 4},
    "tags as a text": {"tags": "late"},
}


TEXT = (
    '{"backfill_assets":1,"bytes":90,"code":"c","columns":[{"entity":"STRING"},{"cents":"INT"}],'
    '"columns_of":{"2024-02-28":1,"2024-02-29":null},"counts":{"2024-02-27":{"null cents":2}},'
    '"cpu_seconds":null,"days":{"2024-02-27":[3,"A","d","complete"],'
    '"2024-02-28":[0,"B","e","pending"],"2024-02-29":[1,"C","f","held"]},'
    '"frontier":"2024-03-01T00:00:00+00:00","inputs":{"raw":4},"note":"","parts":'
    '{"2024-02-28":{"some":"P"}},"reason":"stale","run_id":"r","scheme":2,'
    '"schemes":{"2024-02-29":1},"seconds":1.5,"settings":"s","start_seconds":null,'
    '"table":"staging","tags":{"engine":"spark"},"write_id":"w"}'
)


def test_the_text_of_a_receipt_stays_the_same_byte_for_byte() -> None:
    entity, cents = {"entity": "STRING"}, {"cents": "INT"}
    written = Receipt(
        "w",
        "staging",
        "stale",
        {
            date(2024, 2, 27): DayEntry(3, "A", "d", counts={"null cents": 2}, columns=entity),
            date(2024, 2, 28): DayEntry(
                0, "B", "e", Built.PENDING, parts={"some": "P"}, columns=cents
            ),
            date(2024, 2, 29): DayEntry(1, "C", "f", Built.HELD, scheme=1),
        },
        "r",
        code_digest="c",
        settings_digest="s",
        frontier=datetime(2024, 3, 1, tzinfo=UTC),
        inputs={"raw": 4},
        tags={"engine": "spark"},
        seconds=1.5,
        bytes=90,
    )
    assert written.to_json() == TEXT
    assert parse_receipt(TEXT) == written


@given(receipts)
def test_any_receipt_is_read_back_equal(written: Receipt) -> None:
    assert parse_receipt(written.to_json()) == written


def test_a_receipt_of_a_version_that_named_no_columns_is_refused_by_name() -> None:
    of_before = {k: v for k, v in WHOLE.items() if k not in ("columns", "columns_of", "scheme")}
    with pytest.raises(BackfillError, match=r"before 0\.3 wrote to it.*Make the lake anew"):
        parse_receipt(json.dumps(of_before))


def test_fingerprints_of_two_schemes_say_neither_that_rows_are_equal_nor_that_they_differ() -> None:
    ours, theirs, found = (
        DayEntry(3, "F", "d"),
        DayEntry(3, "F", "d", scheme=SCHEME + 1),
        DayProfile(3, "F"),
    )
    assert ours.content == found.content != theirs.content
    assert theirs.agrees_with(DayProfile(3, "G"))
    assert not theirs.agrees_with(DayProfile(4, "F"))
    assert not ours.agrees_with(DayProfile(3, "G"))
    assert DayEntry(0, "0", "d", scheme=1).content == DayProfile().content, "no rows are no rows"


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN.keys())
def test_what_is_not_ours_is_no_receipt(text: str | None) -> None:
    assert parse_receipt(text) is None


@given(json_values)
def test_no_json_of_others_is_a_receipt_or_an_error(value: object) -> None:
    assert parse_receipt(json.dumps(value)) is None


@pytest.mark.parametrize("missing", sorted(WHOLE.keys() - {"columns"}))
def test_a_receipt_that_lacks_a_part_is_no_receipt(missing: str) -> None:
    assert parse_receipt(json.dumps({k: v for k, v in WHOLE.items() if k != missing})) is None


@pytest.mark.parametrize("part", BROKEN.values(), ids=BROKEN.keys())
def test_a_receipt_with_a_broken_part_is_no_receipt(part: dict[str, Any]) -> None:
    assert parse_receipt(json.dumps(WHOLE)) is not None
    assert parse_receipt(json.dumps({**WHOLE, **part})) is None


def test_a_part_that_a_later_release_adds_does_not_make_a_receipt_foreign() -> None:
    assert parse_receipt(json.dumps({**WHOLE, "colour": "blue"})) == parse_receipt(
        json.dumps(WHOLE)
    )


def returned(written: Receipt) -> Receipt:
    """The receipt as it is read from its text."""
    found = parse_receipt(written.to_json())
    assert found is not None
    return found


def test_a_frontier_in_another_time_zone_is_the_same_instant() -> None:
    here = datetime(2024, 3, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert returned(receipt(frontier=here)).frontier == datetime(2024, 3, 1, tzinfo=UTC)


def test_columns_of_each_day_are_read_back_and_each_set_is_named_once() -> None:
    one, other = {"entity": "STRING", "cents": "BIGINT"}, {"entity": "STRING", "amount": "BIGINT"}
    for columns in ([one, other, None, other, one], [None]):
        written = receipt(
            days={day(n): DayEntry(3, "A", "d", columns=found) for n, found in enumerate(columns)}
        )
        assert [e.columns for e in returned(written).days.values()] == columns
        assert {written.to_json().count(name) for name in ("cents", "amount")} == {
            len({*map(bool, columns)}) - 1
        }


@pytest.mark.parametrize(
    "more", [{"counts": {"null entity": 2, "duplicates": 1}}, {"parts": {"some": "B"}}]
)
def test_counts_and_fingerprints_of_parts_are_read_back_and_decide_nothing(
    more: dict[str, Any],
) -> None:
    entry = DayEntry(3, "A", "d", **more)
    found = returned(receipt(days={day(1): entry})).days[day(1)]
    assert (found.counts, found.parts) == (entry.counts, entry.parts)
    assert entry == DayEntry(3, "A", "d"), (
        "a rerun must not look different because more was counted"
    )


@pytest.mark.parametrize(
    "newer",
    [
        {"backfill_assets": SCHEMA + 1},
        {"backfill_assets": SCHEMA + 1, "days": 7},
        {"days": {"2024-02-26": [1, "A", "d", "perfect"]}},
    ],
)
def test_a_receipt_of_a_newer_version_is_refused_by_name_and_is_not_another_programs(
    newer: dict[str, Any],
) -> None:
    with pytest.raises(
        BackfillError, match=r"the table staging: .*a newer version of backfill-assets.* Upgrade"
    ):
        parse_receipt(json.dumps({**WHOLE, "table": "staging", **newer}))
