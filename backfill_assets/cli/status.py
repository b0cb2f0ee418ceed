"""`backfill-assets status`: a grid of days and tables.

Lives here: how a status report is drawn, and what `--check` calls found. Does not live here: the states
(`operations.status`).
"""

from collections.abc import Sequence
from datetime import date
from itertools import groupby
from typing import TYPE_CHECKING

import click

from backfill_assets.cli.common import days_options, inclusive, json_option, lake_option, opened, print_json, usage
from backfill_assets.cli.drawing import draw_table, number
from backfill_assets.core.days import contiguous
from backfill_assets.core.states import State

if TYPE_CHECKING:
    from backfill_assets.operations.status import DayStatus, StatusReport

GRID_DAYS = 45  # more rows than a screen has: days of equal states share a row
WANTING = (State.MISSING, State.STALE, State.INCOMPLETE)


@click.command()
@days_options(required=False)
@click.option("--stale", is_flag=True, help="Only what is stale, with the reason and the command that rebuilds it.")
@click.option("--why", is_flag=True, help="With --stale: the input days that were written since, per day.")
@click.option("--check", is_flag=True, help="Exit code 1 if a day is missing, stale or incomplete.")
@click.option("--every-day", is_flag=True, help="One row per day, however many.")
@json_option
@lake_option
def status(first: date | None, last: date | None, as_json: bool, **flags: bool) -> None:
    """States, rows and versions of all days and tables. Reads receipts only: no JVM starts."""
    from backfill_assets.operations.attention import attention
    from backfill_assets.operations.status import status as report_of

    lake, pipeline = opened()
    if (first is None) != (last is None):
        raise click.UsageError("--from and --to belong together")
    days = inclusive(first, last) if first and last else None
    with usage():
        report = report_of(lake, pipeline, days, flags["why"])
    if as_json:
        kept = report.to_dict()
        kept["days"] = [d for d in kept["days"] if not flags["stale"] or d["state"] == State.STALE]
        kept["needs_a_person"] = attention(lake.root)
        print_json(kept)
    elif report.days is None:
        click.echo("Nothing has landed or been written yet. `backfill-assets scan` looks at the landing folder.")
    elif flags["stale"]:
        _draw_stale(report)
        _draw_culprits(report)
    else:
        _draw_grid(report, flags["every_day"] or len(report.days) <= GRID_DAYS)
        _draw_totals(report)
    for line in () if as_json else attention(lake.root):
        click.echo(f"needs a person: {line}")
    if flags["check"] and any(d.state in WANTING for d in report):
        click.get_current_context().exit(1)


def _draw_culprits(report: "StatusReport") -> None:
    for day in report:
        for culprit in day.culprits:
            click.echo(f"{day.table} {day.day}: {culprit}")


def _draw_grid(report: "StatusReport", every_day: bool) -> None:
    columns = list(report.tables.values())
    lines = list(zip(*columns, strict=True))
    rows = []
    for _, group in groupby(enumerate(lines), lambda numbered: _key(numbered, every_day)):
        days = [line for _, line in group]
        span = f"{days[0][0].day}" if len(days) == 1 else f"{days[0][0].day}..{days[-1][0].day} ({len(days)} days)"
        rows.append([span, *(_cell([line[i] for line in days]) for i in range(len(columns)))])
    draw_table(["day", *report.tables], rows)


def _key(numbered: "tuple[int, tuple[DayStatus, ...]]", every_day: bool) -> tuple[object, ...]:
    place, line = numbered
    return (place,) if every_day else tuple(d.state for d in line)


def _cell(days: "Sequence[DayStatus]") -> str:
    """State, rows and version of the days of one cell."""
    versions = sorted({d.version for d in days if d.version is not None})
    if not versions:
        return days[0].state.value
    rows = sum(d.rows or 0 for d in days)
    span = f"v{versions[0]}" if len(versions) == 1 else f"v{versions[0]}..{versions[-1]}"
    return f"{days[0].state.value} {number(rows)} {span}"


def _draw_totals(report: "StatusReport") -> None:
    for name, found in report.totals().items():
        click.echo(f"{name}: {', '.join(f'{n} {state.value}' for state, n in found.items())}")
    frontier = f"{report.frontier:%Y-%m-%dT%H:%M:%SZ}" if report.frontier else "none, nothing is loaded"
    click.echo(f"frontier: {frontier}" + (f", as_of {report.as_of:%Y-%m-%dT%H:%M:%SZ}" if report.as_of else ""))
    wanting = sorted({d.day for d in report if d.state in (State.STALE, State.MISSING)})
    if wanting:
        click.echo(f"rebuild:  backfill-assets backfill --from {wanting[0]} --to {wanting[-1]}")


def _draw_stale(report: "StatusReport") -> None:
    found = [d for d in report if d.state is State.STALE]
    if not found:
        click.echo(f"No day of {report.days} is stale.")
        return
    for (table, reason), group in groupby(found, lambda d: (d.table, d.reason)):
        days = [d.day for d in group]
        told = ", ".join(map(str, contiguous(days)))
        click.echo(f"{table} {told}: {reason}")
    days = sorted(d.day for d in found)
    tables = ",".join(dict.fromkeys(d.table for d in found))
    click.echo(f"rebuild:  backfill-assets backfill --from {days[0]} --to {days[-1]} --tables {tables}")
