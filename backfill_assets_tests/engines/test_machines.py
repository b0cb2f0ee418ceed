"""Tasks on the machines of an engine: results as text, and what this process does where a task has
none.

Lives here: tasks run by this process in place of an engine's Python, on moto. Does not live here:
what is counted so (`test_machine_audit`), and an engine that runs them
(`end_to_end.test_bucket_elsewhere`).
"""

import math
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from backfill_assets.engines.machines import answers_there, as_text, from_text, machines_fault
from backfill_assets.kernel.core.addresses import local_root
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.place.port import Place
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets_tests.files import SMALLEST
from backfill_assets_tests.intake.test_taking import Engine

RESULTS = (
    None,
    True,
    -(2**70),
    -0.0,
    math.inf,
    'a text: {"map": 1}',
    [1, [2.5, None]],
    {"a": 1, 2: {None: "b"}, date(2024, 3, 1): []},
    Decimal("-0.10"),
    datetime(2024, 3, 1, 9, tzinfo=UTC),
)


@pytest.mark.parametrize("value", RESULTS, ids=repr)
def test_a_result_comes_back_as_it_was(value: Any) -> None:
    found = from_text(as_text(value))
    assert (found, repr(found)) == (value, repr(value))


def test_what_is_no_result_is_refused_by_its_kind() -> None:
    with pytest.raises(TypeError, match="a result holds a bytes"):
        as_text({"a": [b"x"]})


def double(item: int, folder: str) -> int:
    """Work that fails for 13."""
    if item == 13:
        raise ValueError("unlucky")
    assert folder
    return 2 * item


@pytest.fixture
def place(bucket_address: str) -> Place:
    found = place_at(local_root(bucket_address))
    found.write(FILE_NAME, SMALLEST.encode())
    return found


@pytest.mark.slow
def test_results_come_in_their_order_or_none_with_the_reason(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    session: Any = Engine()
    assert answers_there(session, place, double, [3, 1, 2], "it", at_once=2) == [6, 2, 4]
    assert not caplog.text
    assert answers_there(session, place, double, [3, 13], "the audit of t") is None
    assert "no task of the engine did the audit of t (ValueError: unlucky)" in caplog.text


class OtherRelease(Engine):
    """Its machines have other code."""

    def mapInArrow(self, run: Any, schema: str) -> Engine:
        return super().mapInArrow(replace(run.__self__, code="of the caller").run, schema)


@pytest.mark.slow
def test_machines_with_other_code_or_another_store_are_asked_once(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    other: Any = OtherRelease()
    for _ in range(2):
        assert answers_there(other, place, double, [1], "it") is None
    assert caplog.text.count("another release of backfill-assets or of DuckDB") == 1
    session: Any = Engine()
    assert "it does not find s3://" in machines_fault(session, place.at("another"))
