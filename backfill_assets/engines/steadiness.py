"""Checks before rows are computed: a user's transform, and expressions that an engine computes
otherwise than Spark.

Of a transform: the functions in its plan, its changes of session settings, and its mistakes by
file and line. Its Python is not searched: what the clock or chance gave it shows when a day is
computed again, at the first write by its code (`computing.refuse_dependent_days`) or later, by
fingerprint (`kernel.core.engines.rebuild_disagreement`, `compare.prove`). Not here: the names of
functions (`kernel.core.unsteady`).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from backfill_assets.engines.abilities import Engine, differences_advice, differences_culprit
from backfill_assets.engines.frames import undecided_names
from backfill_assets.engines.server import engine_named
from backfill_assets.engines.session import changed_settings, explained_error, session_engine
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import (
    NOT_RUN,
    BackfillError,
    ContractBroken,
    SettingsError,
    place_of_error,
)
from backfill_assets.kernel.core.texts import shortened_text
from backfill_assets.kernel.tables.settings import LakeSettings
from backfill_assets.kernel.write.model import Chunk, Table, source_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHOWN, SHOWN_CHARS = 3, 300


def transformed_frame(
    session: "SparkSession",
    table: Table,
    frames: Mapping[str, "DataFrame"],
    chunk: Chunk,
    contracts: Mapping[str, Contract],
) -> "DataFrame":
    """Return the frame that a table's transform plans for the `chunk` over the `frames` of its
    inputs, by their names; Spark has not run it.

    Of a user's transform raises ContractBroken as `refuse_unsteady` and `refuse_changed_settings`
    do, and BackfillError for its mistakes; for a table without one BackfillError.
    """
    table.refuse_given()
    if table.transform is None:
        raise ValueError(f"the table {table.name} has no transform")
    with explaining_mistakes(table), _restoring_settings(session, table):
        frame = table.transform(frames, chunk)
        refuse_unsteady(session, table, frame, frames, contracts)
    return frame


def refuse_unsteady(
    session: "SparkSession",
    table: Table,
    frame: "DataFrame",
    inputs: Mapping[str, "DataFrame"],
    contracts: Mapping[str, Contract],
) -> None:
    """Raise ContractBroken, naming the function, if a user's frame over `inputs` asks for the
    clock, chance or Python, or for what the engine computes otherwise than Spark. Raises Spark's
    own error for a frame that it cannot analyse. Computes nothing."""
    if not table.brings_code:
        return
    engine, named = session_engine(session), f"the transform of {table.name}"
    if found := undecided_names(frame, inputs):
        reason = f"the same inputs may give other rows: {_joined_texts(found)}"
        fix = next(iter(found.values()))
        raise ContractBroken(named, reason, NOT_RUN, fix[:1].upper() + fix[1:])
    of_inputs = [contracts[name] for name in inputs]
    if differing := engine.plan_differences(frame, inputs, of_inputs):
        raise ContractBroken(
            named, differences_culprit(differing, engine), NOT_RUN, differences_advice(differing)
        )
    _ = frame.schema


def refuse_changed_settings(session: "SparkSession", named: str) -> None:
    """Raise ContractBroken about `named` if code outside this package changed the session's
    settings, which reach every later table; restore them."""
    if not (changed := changed_settings(session)):
        return
    changes = [
        f"{name} from {_setting_text(before)} to {_setting_text(now)}"
        for name, (before, now) in changed.items()
    ]
    raise ContractBroken(
        named,
        "settings of the Spark session that all tables share were changed: "
        f"{_joined_texts(changes)}",
        "Nothing was written, and they were put back",
        "Name the zone or the format in the expressions themselves, or set it for the whole lake: "
        "`[spark.confs]` in lake.toml",
    )


def _joined_texts(texts: Collection[str]) -> str:
    """The first texts, and the number of further ones."""
    shown = [*texts][:SHOWN]
    if len(texts) > SHOWN:
        shown.append(f"and {len(texts) - SHOWN} more")
    return "; ".join(shown)


def _setting_text(setting: str | None) -> str:
    return "not set" if setting is None else shortened_text(repr(setting), SHOWN_CHARS)


@contextmanager
def _restoring_settings(session: "SparkSession", table: Table) -> Iterator[None]:
    """Around a user's transform: restore the session's settings that it changed, and raise
    ContractBroken."""
    try:
        yield
    except BaseException:
        with suppress(Exception):
            changed_settings(session)
        raise
    if table.brings_code:
        refuse_changed_settings(session, f"the transform of {table.name}")


@contextmanager
def explaining_mistakes(table: Table) -> Iterator[None]:
    """Turn an error of a user's transform into a BackfillError of one line, with file and line."""
    try:
        yield
    except BackfillError:
        raise
    except Exception as error:
        if not table.brings_code or explained_error(error) is not None:
            raise
        files = source_files(table)
        place = place_of_error(error, files)
        sql = next((f"{path.name}: " for path in files if path.suffix == ".sql"), "")
        where = f"{place[0].name}, line {place[1]}: " if place else sql
        text = (str(error) or repr(error)).splitlines()[0]
        raise BackfillError(
            f"the transform of {table.name}",
            f"{where}{type(error).__name__}: {shortened_text(text, SHOWN_CHARS)}",
            "Nothing was written",
            "Correct the transform",
        ) from error


def refuse_expressions(settings: LakeSettings, tables: Iterable[Table]) -> None:
    """Raise SettingsError if an expression of `lake.toml`, by which one of these tables is
    computed, differs on the lake's engine."""
    engine = engine_named(settings.spark.engine)
    for where, names in differing_expressions(tables, engine).items():
        raise SettingsError(
            where, differences_culprit(names, engine), "Nothing was done", differences_advice(names)
        )


def differing_expressions(tables: Iterable[Table], engine: Engine) -> dict[str, dict[str, str]]:
    """Return, by the place in `lake.toml` with the tables computed by it, the names in expressions
    that are known to differ on an engine, each with what to write instead ("": nothing)."""
    computed = defaultdict[str, dict[str, None]](dict)
    found = defaultdict[str, dict[str, str]](dict)
    for table in tables:
        for one in table.expressions:
            if names := engine.differences(one.text, one.types, agg=one.agg):
                computed[one.where][table.name] = None
                found[one.where].update(names)
    return {
        f"{where} in lake.toml (for {' and '.join(computed[where])})": names
        for where, names in found.items()
    }
