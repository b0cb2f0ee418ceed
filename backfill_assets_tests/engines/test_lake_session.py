"""A lake with its engine: settings become the engine's, losses become one line, and nothing starts
before it is asked. Not here: engines (`engines.test_session`), and reading tables
(`test_store`)."""

import errno
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any, cast
from unittest.mock import Mock

import pyarrow as pa
import pytest

from backfill_assets.engines.lake_session import (
    LakeSession,
    explaining_losses,
    small_frame,
    unpersist_frame,
)
from backfill_assets.engines.server import server_status
from backfill_assets.kernel.core.errors import BackfillError, EngineLost
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.sections import SparkSettings
from backfill_assets.kernel.tables.settings import AccessSettings

LOST = EngineLost("Spark", "the engine died", "Nothing was written", "Run it again")


class Handing:
    """A session that hands back what it is given."""

    def createDataFrame(self, table: pa.Table) -> pa.Table:
        return table


def test_the_engines_settings_are_the_lakes_and_no_engine_starts(lake: Lake) -> None:
    spark = SparkSettings(memory="3g", idle_minutes=4, trust_jars="ab" * 32)
    changed = {"access": AccessSettings(readers="group"), "spark": spark}
    engine = LakeSession(replace(lake, settings=lake.settings.model_copy(update=changed))).engine
    assert (engine.engine, engine.memory, engine.idle_minutes) == (
        spark.engine,
        spark.memory,
        spark.idle_minutes,
    )
    assert engine.trust_jars == spark.trust_jars
    assert engine.umask == 0o027
    assert server_status(lake.root) is None


def test_a_few_rows_keep_their_types_and_no_rows_at_all_have_them_too() -> None:
    schema = "name string, rows bigint, small int, whole boolean, of date, at timestamp"
    row = ("a", 2**40, 1, True, date(2024, 2, 29), datetime(2024, 2, 29, tzinfo=UTC))
    for rows in ([row], []):
        made = cast(Any, small_frame(cast(Any, Handing()), rows, schema))
        assert [str(t) for t in made.schema.types] == [
            "string",
            "int64",
            "int32",
            "bool",
            "date32[day]",
            "timestamp[us, tz=UTC]",
        ]
        assert [tuple(r.values()) for r in made.to_pylist()] == rows


def test_only_a_loss_of_the_engine_is_told_anew_and_any_other_error_stays_itself() -> None:
    for error in (ValueError("of the caller"), LOST):
        with pytest.raises(type(error)) as raised, explaining_losses():
            raise error
        assert raised.value is error
    with pytest.raises(BackfillError, match="space") as told, explaining_losses():
        raise OSError(errno.ENOSPC, "No space left on device")
    assert isinstance(told.value.__cause__, OSError)


def test_freeing_leaves_a_dead_engine_alone_and_hides_no_other_error() -> None:
    alive, gone, wrong = (
        Mock(**{"unpersist.side_effect": e}) for e in (None, LOST, ValueError("mine"))
    )
    unpersist_frame(alive)
    unpersist_frame(gone)
    with pytest.raises(ValueError, match="mine"):
        unpersist_frame(wrong)
    try:
        raise LOST
    except EngineLost:
        unpersist_frame(alive)
    counts = alive.unpersist.call_count, gone.unpersist.call_count
    assert counts == (1, 1), "an engine that is being told as lost is not called again"
