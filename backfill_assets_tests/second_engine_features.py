"""Random declared features and labels over awkward rows, on both engines: equal, or refused by name before they run.

Lives here: asking both engines for many of them at once, over Spark Connect. Does not live here: what is drawn
(`second_engine_drawing`), labels (`second_engine_labels`), functions one by one (`second_engine_catalogue`), and what
the right answer is (`pipeline.transforms.test_declared`).

usage: python -m backfill_assets_tests.second_engine_features EXAMPLES COLUMNS
"""

import json
import logging
import sys
from collections.abc import Iterator, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.errors import SettingsError
from backfill_assets.engine.sail import Sail
from backfill_assets.lake.model import Table
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.load.steadiness import differing_expressions
from backfill_assets.pipeline.columns import Declared
from backfill_assets.pipeline.declared import declared_features
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.second_engine_drawing import (
    AROUND,
    ERAS,
    EVENT_DAYS,
    PAYLOAD,
    Column,
    Row,
    declarations,
    rows_of,
    staging,
    versions,
)
from backfill_assets_tests.second_engine_labels import Label, labels, table_of
from backfill_assets_tests.second_engine_labels import compared as of_label
from backfill_assets_tests.second_engine_probe import session_on

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LABELS = 2
Drawn = tuple[date, Any, bool]  # the era, staging as Arrow, and whether the cut counts


def taken(asked: Sequence[Column]) -> tuple[list[Declared], list[str]]:
    """The columns that Spark takes and Sail does not refuse; and the names that it refuses, as often as it does."""
    found, refused = list[Declared](), list[str]()
    for column in asked:
        source = {"files": "*.csv", "format": "csv", "select": "seq", "payload": PAYLOAD}
        told = {"start_date": ERAS[1], "source": source, "features": {"columns": [column]}}
        try:
            made = LakeSettings.model_validate(told)
            (compiled,) = declared_features(made)
        except SettingsError:
            continue
        names = {name for found_names in differing_expressions(tables(made), Sail()).values() for name in found_names}
        refused += names
        found += [] if names else [compiled]
    return found, refused


def answers(session: "SparkSession", drawn: Drawn, columns: Sequence[Declared]) -> list[str]:
    """Each row of the features, as text, in one order: on days before, within and after those of the events."""
    from backfill_assets.pipeline.transforms.declared import at_cut, now

    era, rows, known = drawn
    days, made = DayRange(era - ONE_DAY, era + ONE_DAY * (EVENT_DAYS + AROUND)), [c.aggregation for c in columns]
    frame = session.createDataFrame(rows)
    frame = at_cut(frame, days, ["entity"], made, 2) if known else now(frame, days, ["entity"], made)
    typed = [f"CAST({c.name} AS {c.type}) AS {c.name}" for c in made]
    return rows_of(frame.selectExpr("CAST(feature_date AS STRING) AS feature_date", "entity", *typed))


def compared(sessions: Sequence["SparkSession"], drawn: Drawn, made: Sequence[Declared]) -> Iterator[dict[str, Any]]:
    """What differs; where an engine raises, of each half apart, down to the columns for which one alone raises."""
    told: list[list[str] | str] = []
    for session in sessions:
        try:
            told.append(answers(session, drawn, made))
        except Exception as error:  # noqa: BLE001 - the engine's, whatever it is
            told.append(str(error).splitlines()[0][:200])
    spark, sail = told
    if isinstance(spark, list) and isinstance(sail, list):
        yield from [found] if (found := difference(made, spark, sail)) else []
    elif len(made) > 1:
        half = len(made) // 2
        yield from compared(sessions, drawn, made[:half])
        yield from compared(sessions, drawn, made[half:])
    elif isinstance(spark, list) or isinstance(sail, list):
        yield {said(made[0]): [x if isinstance(x, str) else "does not raise" for x in told]}


def said(column: Declared) -> str:
    """A column as it was declared."""
    return f"{column.aggregation.agg} of {column.of} where {column.where}"


def difference(asked: Sequence[Declared], spark: Sequence[str], sail: Sequence[str]) -> dict[str, Any]:
    """The declared columns whose values differ in rows of the same place, and the first of these; {}: none does."""
    if len(spark) != len(sail):
        return {"rows": [len(spark), len(sail)]}
    found: dict[str, Any] = {}
    for one, other in zip(map(json.loads, spark), map(json.loads, sail), strict=True):
        for place, column in enumerate(asked, 2):
            if one[:2] != other[:2] or one[place] != other[place]:
                found.setdefault(said(column), [one[:2], other[:2], one[place], other[place]])
    return found


def main() -> None:
    """Draw and ask; prints what differs and how much was asked."""
    examples, columns = map(int, sys.argv[1:3])
    told: dict[str, Any] = {"asked": 0, "labels": 0, "other": [], "refused": {}}
    logging.disable(logging.CRITICAL)
    with session_on("embedded") as spark, session_on("sail") as sail:

        @settings(
            max_examples=examples, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(versions(), declarations(columns), st.booleans(), st.lists(labels(), min_size=LABELS, max_size=LABELS))
        def hold(drawn: tuple[date, list[Row]], asked: list[Column], known: bool, labelled: list[Label]) -> None:
            made, refused = taken(asked)
            told["asked"] += len(made)
            for name in refused:
                told["refused"][name] = told["refused"].get(name, 0) + 1
            rows = staging(drawn[1])
            told["other"] += compared((spark, sail), (drawn[0], rows, known), made)
            for label in labelled:
                table = table_of(label)
                if isinstance(table, Table):
                    told["labels"] += 1
                    told["other"] += of_label((spark, sail), (drawn[0], rows), label, table)

        hold()
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
