"""Random declared labels over awkward rows, on both engines: each is equal, or refused by name before it runs.

Lives here: drawing rules, conditions, horizons and frontiers, and asking both engines by the product's own tables. Does
not live here: rows and expressions (`second_engine_drawing`), features (`second_engine_features`), and what the right
answer is (`pipeline.transforms.test_declared_labels`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.errors import SettingsError
from backfill_assets.engine.sail import Sail
from backfill_assets.lake.model import Chunk, Table
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.load.steadiness import differing_expressions
from backfill_assets.pipeline.tables import tables
from backfill_assets_tests.second_engine_drawing import AROUND, ERAS, EVENT_DAYS, HOLE, PAYLOAD, expressions, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_DAYS = 4
CONDITIONS = (
    "{ANY_NUMBER} > {ANY_NUMBER}", "{ANY_NUMBER} >= 2 AND count_behind() > 0", "coalesce({ANY_NUMBER}, 0) = 0",
    "{COUNT} > 2 * {COUNT} OR {ANY_NUMBER} < 0", "max_{SIDE}({DATE}) > min_{SIDE}({DATE})",
    "last_{SIDE}({TEXT}) = first_{SIDE}({TEXT})",
    "max_{SIDE}({TIME}) IS NULL", "NOT last_{SIDE}({TRUTH})", "last_{SIDE}({TEXTS}) = first_{SIDE}({TEXTS})",
    "min_{SIDE}({BYTES}) < max_{SIDE}({BYTES})", "distinct_{SIDE}({TEXT}) > 1",
)  # fmt: skip
NUMBERS = (
    "{COUNT}", "sum_{SIDE}({BIGINT})", "sum_{SIDE}({INT})", "sum_{SIDE}({DECIMAL})", "avg_{SIDE}({BIGINT})",
    "max_{SIDE}({DECIMAL})", "min_{SIDE}({BIGINT})", "last_{SIDE}({INT})",
)  # fmt: skip
CHOICES: Mapping[str, Sequence[str]] = {
    "ANY_NUMBER": NUMBERS, "SIDE": ("ahead", "behind"), "COUNT": ("count_{SIDE}()", "count_{SIDE}({TEXT})"),
}  # fmt: skip


@dataclass(frozen=True)
class Label:
    """A label as it is declared, the days that are asked for, from the first of the era on, and how many lie before the
    frontier (None: nothing is loaded)."""

    declared: Mapping[str, Any]
    days: int
    frontier: int | None

    def __str__(self) -> str:
        return f"{dict(self.declared)}, {self.days} day(s), frontier {self.frontier}"


@st.composite
def labels(draw: st.DrawFn) -> Label:
    """A label by rule or by a condition."""
    times = {"horizon_days": draw(st.integers(1, MOST_DAYS)), "maturity_days": draw(st.integers(0, MOST_DAYS))}
    by_rule = {
        "measure": draw(st.sampled_from(["events", "flag", "value"])),
        "rule": draw(st.sampled_from(["any", "rise"])),
    }
    by_condition = {"label": draw(st.sampled_from(CONDITIONS).flatmap(lambda text: filled(text)))}
    chosen = draw(st.sampled_from([by_rule, by_condition, by_condition, by_condition]))
    return Label(
        chosen | times, draw(st.integers(1, EVENT_DAYS)), draw(st.none() | st.integers(0, EVENT_DAYS + AROUND))
    )


@st.composite
def filled(draw: st.DrawFn, text: str) -> str:
    """A text with something in place of each hole."""

    def one(name: str) -> str:
        return draw(filled(draw(st.sampled_from(CHOICES[name])))) if name in CHOICES else draw(expressions(name, 1))

    return HOLE.sub(lambda hole: one(hole[1]), text)


def table_of(label: Label) -> Table | list[str]:
    """The table that makes it; the names that Sail refuses, or none where Spark does not take it."""
    source = {"files": "*.csv", "format": "csv", "select": "seq", "payload": PAYLOAD}
    told = {"start_date": ERAS[1], "source": source, "labels": label.declared}
    try:
        made = LakeSettings.model_validate(told)
        given = tables(made)
    except SettingsError:
        return []
    refused = [name for names in differing_expressions(given, Sail()).values() for name in names]
    return refused or next(t for t in given if t.name == "labels")


def answers(session: "SparkSession", drawn: tuple[date, Any], label: Label, table: Table) -> list[str]:
    """Each row of the labels, as text, in one order: for entities with events and without any."""
    import pyarrow as pa

    era, rows = drawn
    asked = [(e, era + ONE_DAY * n) for e in ("A", "Ä", "nobody") for n in range(EVENT_DAYS)]
    known = pa.table([pa.array([e for e, _ in asked]), pa.array([d for _, d in asked])], ["entity", "feature_date"])
    frontier = None if label.frontier is None else datetime.combine(era, time(), UTC) + ONE_DAY * label.frontier
    chunk = Chunk(DayRange(era, era + ONE_DAY * label.days), frontier)
    frames = {"staging": session.createDataFrame(rows), "features_as_known": session.createDataFrame(known)}
    assert table.transform is not None
    frame = table.transform(frames, chunk)
    return rows_of(frame.selectExpr(*(f"CAST({c.name} AS {c.type}) AS {c.name}" for c in table.contract.columns)))


def compared(sessions: Sequence["SparkSession"], drawn: tuple[date, Any], label: Label, table: Table) -> list[Any]:
    """What differs, where one engine alone raises, too."""
    told: list[Any] = []
    for session in sessions:
        try:
            told.append(answers(session, drawn, label, table))
        except Exception as error:  # noqa: BLE001 - the engine's, whatever it is
            told.append(str(error).splitlines()[0][:200])
    raise_both = all(isinstance(t, str) for t in told)
    return [] if told[0] == told[1] or raise_both else [{str(label): told}]
