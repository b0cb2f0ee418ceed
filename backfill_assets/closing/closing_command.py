"""`backfill-assets close`, `reopen` and `closed`: the commands, their options, and their output.

Not here: closing itself (`closing.closing`), and what came late (`closing.late_changes`). None of
them needs a JVM or Dagster.
"""

from collections.abc import Sequence
from datetime import date
from typing import TypedDict

import click

from backfill_assets.cli.common import (
    DAY,
    TEXT,
    command_provenance,
    json_and_lake,
    opened_lake,
    split_names,
)
from backfill_assets.cli.drawing import TextTable
from backfill_assets.cli.output import Part, write_answer
from backfill_assets.closing.closing import (
    ClosingRequest,
    MovedClosure,
    MovedForm,
    close_tables,
    reopen_tables,
)
from backfill_assets.closing.late_changes import LateForm, LateIntoClosed, late_changes
from backfill_assets.kernel.core.answers import DayText
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.tables.view import read_view

TABLES_HELP = "Their names, comma-separated. [default: all that are made from other tables]"


class MovesAnswer(TypedDict):
    """Up to which day tables were closed before, and are now."""

    tables: Sequence[MovedForm]


class ClosureForm(TypedDict):
    """Up to which day a table is closed, by whom and why."""

    table: str
    until: DayText
    by: str
    note: str


class ClosedAnswer(TypedDict):
    """The closures in force, and the closed days that a rebuild would change."""

    closed: Sequence[ClosureForm]
    late: Sequence[LateForm]


@click.command()
@click.option("--until", type=DAY, required=True, help="The last day that is closed.")
@click.option("--tables", help=TABLES_HELP)
@click.option("--note", type=TEXT, required=True, help="Why; it is kept in the receipts.")
@click.option("--as-they-are", is_flag=True, help="Also days that do not hold what inputs say.")
@json_and_lake
def close(until: date, tables: str | None, note: str, as_they_are: bool) -> None:
    """Close all days up to one: no run, sensor, plan, rollback or erasure writes them any more.

    What comes late for them still lands, and `closed` lists it. Exit code 1 where it is refused;
    then nothing was closed.
    """
    lake, pipeline = opened_lake()
    by = command_provenance().tags
    asked = ClosingRequest(split_names(tables) or (), note, by, as_they_are)
    _write_moves(close_tables(lake, pipeline, until, asked))


@click.command()
@click.option("--from", "first", type=DAY, help="The first day that opens. [default: all days]")
@click.option("--tables", help="Their names, comma-separated. [default: all that are closed]")
@click.option("--note", type=TEXT, required=True, help="Why; it is kept in the receipts.")
@json_and_lake
def reopen(first: date | None, tables: str | None, note: str) -> None:
    """Allow writes of closed days again: all, or those from one day on. What came late for them
    makes them stale, so that sensors and `catch-up` make them again."""
    lake, pipeline = opened_lake()
    asked = ClosingRequest(split_names(tables) or (), note, command_provenance().tags)
    _write_moves(reopen_tables(lake, pipeline, first, asked))


@click.command()
@json_and_lake
def closed() -> None:
    """Show up to which day each table is closed, by whom and why, and the closed days that a
    rebuild would change, with the rows that came late."""
    lake, pipeline = opened_lake()
    states = pipeline.states(read_view(lake, pipeline.contracts))
    closures, late = _closures(states), [*late_changes(lake, states)]
    document: ClosedAnswer = {
        "closed": closures,
        "late": [change.to_dict() for change in late],
    }
    write_answer(document, _closed_parts(closures, late), nothing="No table is closed.")


def _write_moves(moved: list[MovedClosure]) -> None:
    """Write what was closed or opened."""
    document: MovesAnswer = {"tables": [move.to_dict() for move in moved]}
    write_answer(document, [str(move) for move in moved])


def _closures(states: States) -> list[ClosureForm]:
    """The closures in force, as JSON values."""
    found = list[ClosureForm]()
    for name in states.contracts:
        closure = states.view.table(name).closure
        if closure is not None:
            found.append(
                {
                    "table": name,
                    "until": str(closure.until),
                    "by": closure.by,
                    "note": closure.note,
                }
            )
    return found


def _closed_parts(closures: list[ClosureForm], late: list[LateIntoClosed]) -> list[Part]:
    """The tables of `closed`; none where no table is closed."""
    if not closures:
        return []
    parts: list[Part] = [
        TextTable(
            columns=("table", "closed up to", "by", "why"),
            rows=[[c["table"], c["until"], c["by"], c["note"]] for c in closures],
        )
    ]
    if not late:
        return [*parts, "Nothing came late into a closed period."]
    rows = [[c.table, c.day, c.rows, c.last_arrival] for c in late]
    columns = ("table", "day", "rows", "last arrival")
    return [*parts, TextTable(columns, rows, title="Late into a closed period")]
