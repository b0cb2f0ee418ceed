"""Numbers of a table's files are equal, whoever counts: the lake's engine gives what DuckDB gives,
to the last bit. Not here: profiles (`test_auditor`), and what the queries mean
(`pipeline.transforms.test_queries`)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.engines.settings import AuditSettings
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.pipeline.transforms.queries import (
    label_flips_query,
    lateness_of_deliveries,
    lateness_of_versions,
)
from backfill_assets_tests.builders import day
from backfill_assets_tests.engine_choice import wants_spark
from backfill_assets_tests.files import bare_lake, stage_by_hand
from backfill_assets_tests.strategies import examples

TABLE = Contract(
    "t",
    "t",
    (
        Column("day", "DATE", "d", nullable=True),
        Column("op", "STRING", "o"),
        Column("label", "INT", "l", nullable=True),
        Column("an entity", "STRING", "e"),
        Column("label_state", "STRING", "s"),
        Column("came", "TIMESTAMP", "c"),
        Column("happened", "TIMESTAMP", "h", nullable=True),
    ),
    "day",
    (),
    (),
)
DAYS = [day(0), day(0), day(1), day(2), None]
MIDNIGHT = datetime(2024, 3, 1, tzinfo=UTC)
MIDNIGHTS = st.integers(-1, 1).map(lambda n: MIDNIGHT + timedelta(microseconds=n))
MOMENTS = MIDNIGHTS | st.datetimes(timezones=st.just(UTC))
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "day": st.sampled_from(DAYS),
            "op": st.sampled_from(["upsert", "upsert", "delete"]),
            "came": MOMENTS,
            "happened": st.none() | MOMENTS,
            "label": st.sampled_from([None, 0, 1]),
            "an entity": st.sampled_from(["", "a", "`", "{", '"']),
            "label_state": st.sampled_from(["mature", "open"]),
        }
    ),
    max_size=30,
)


def renamed(query: Callable[[str], str], on: str, came: str) -> Callable[[str], str]:
    """The query over this table, whose columns have other names."""
    return lambda rows: query(
        f'SELECT *, "day" AS {on}, came AS {came}, happened AS event_ts FROM ({rows})'
    )


def turned(before: str, after: str) -> str:
    of_day = 'SELECT *, "day" AS label_date FROM ({})'
    return label_flips_query(of_day.format(before), of_day.format(after), ["an entity"])


DELIVERIES = renamed(lateness_of_deliveries, "arrival_date", "arrival_ts")
VERSIONS = renamed(lateness_of_versions, "event_date", "known_from")


@pytest.fixture(scope="module")
def lake_session(spark: object, tmp_path_factory: pytest.TempPathFactory) -> LakeSession:
    """Of the tests' engine, which `spark` opens first."""
    return LakeSession(bare_lake(tmp_path_factory.mktemp("lake")))


def counting(lake_session: LakeSession, engine: Literal["duckdb", "engine"]) -> LakeSession:
    audit = AuditSettings(engine=engine)
    changed = lake_session.lake.settings.model_copy(update={"audit": audit})
    return LakeSession(replace(lake_session.lake, settings=changed))


def in_order(found: Sequence[tuple[Any, ...]]) -> list[str]:
    return sorted(map(repr, found))


@pytest.mark.users_do
@settings(max_examples=2 if wants_spark() else examples(12))
@given(before=ROWS, after=ROWS)
def test_numbers_by_the_engine_are_duckdbs(
    lake_session: LakeSession, before: list[dict[str, Any]], after: list[dict[str, Any]]
) -> None:
    one, other = (stage_by_hand(lake_session.lake, TABLE, rows) for rows in (before, after))
    by_duckdb, by_engine = counting(lake_session, "duckdb"), counting(lake_session, "engine")
    try:
        for query, sides in ((DELIVERIES, [one]), (VERSIONS, [one]), (turned, [one, other])):
            found = [
                [
                    (names, in_order(rows))
                    for names, rows in who.auditor(TABLE, one.files).answers(
                        TABLE, query, *(s.files for s in sides)
                    )
                ]
                for who in (by_duckdb, by_engine)
            ]
            assert found[0] == found[1]
        for column in ("an entity", "label"):
            counted = (
                who.auditor(TABLE, one.files).rows_by(TABLE, one, column)
                for who in (by_duckdb, by_engine)
            )
            assert in_order(next(counted)) == in_order(next(counted))
    finally:
        one.drop()
        other.drop()
