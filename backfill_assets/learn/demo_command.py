"""`backfill-assets demo` and `example`: a sample lake loaded twice, lakes to learn from.

Not here: making them (`learn.example_lakes`), and a lake of one's own (`init`).
"""

import shutil
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import TypedDict

import click

from backfill_assets.cli.backfill import require_partitions, run_work
from backfill_assets.cli.common import DAY, json_and_lake, lake_root, opened_lake
from backfill_assets.cli.drawing import TextTable, draw_table, number_text, remark
from backfill_assets.cli.output import write_answer
from backfill_assets.cli.progress import RunForm, RunOutcome
from backfill_assets.engines.server import stop_server
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.engines import OWN_SERVERS
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.ownership import refuse_foreign_lake
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.core.texts import scrub_secrets
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.settings import load_settings
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.learn import example_lakes as samples
from backfill_assets.learn.example_lakes import (
    FEWEST_DAYS,
    MARKER,
    STEPS,
    example_titles,
    make_example,
)
from backfill_assets.reading.rejected import reason_kinds, refused_rows
from backfill_assets.reports.status import DayStatus, StatusForm, StatusReport, lake_status


class DemoAnswer(TypedDict):
    """A sample lake and its two loads; rows in quarantine by reason."""

    lake: str
    runs: Sequence[RunForm]
    quarantine: Mapping[str, int]
    status: StatusForm


class MadeExample(TypedDict):
    """A lake to learn from, and the file that leads through it."""

    example: str
    lake: str
    steps: str


# What each example shows, by its name; or the one that was made.
ExampleAnswer = dict[str, str] | MadeExample


@click.command()
@click.option("--new", is_flag=True, help="Replace the sample lake by a fresh one.")
@click.option(
    "--days",
    type=click.IntRange(FEWEST_DAYS, 366),
    default=30,
    show_default=True,
    help="Of a fresh sample.",
)
@click.option("--to", "last", type=DAY, help="Last day of a fresh sample. [default: yesterday]")
@click.option(
    "--engine",
    type=click.Choice(OWN_SERVERS),
    help="Of a fresh sample; embedded (Spark) unless said.",
)
@json_and_lake
@click.pass_context
def demo(ctx: click.Context, new: bool, days: int, last: date | None, engine: str | None) -> None:
    """Make a sample lake (unless there is one), load all of it through Dagster, twice."""
    stop = last + ONE_DAY if last else utc_today()
    span = prepare_sample(
        lake_root(), require_partitions(samples.days_until(stop, days), date.min), new, engine
    )
    lake, pipeline = opened_lake()
    tables = tuple(t.name for t in pipeline.tables)
    outcomes = []
    for title in ("Every table over every day:", "The same again: nothing changes:"):
        remark(title)
        outcome = run_work(KnownStates(lake, pipeline), Work(span, tables, note="demo"))
        outcomes.append(outcome)
        if not outcome.success:
            remark(f"Error: {outcome.cause}")
            ctx.exit(1)
    report = lake_status(lake, pipeline, span)
    refused = refused_rows(lake, "")
    document = {"lake": lake.address, "runs": outcomes, "quarantine": refused, "status": report}
    write_answer(document, [partial(_draw_outcomes, lake, report, refused, outcomes)])


def prepare_sample(root: Path, days: DayRange, new: bool, engine: str | None = None) -> DayRange:
    """Return the days of the sample lake at `root`, first made over `days` if there is none; a lake
    without the sample's marker is left alone. Raises SettingsError for another's lake, and for one
    that was made with another engine than `engine`."""
    refuse_foreign_lake(root)
    known = samples.sample_days(root)
    if known is None and root.exists() and any(root.iterdir()):
        raise samples.not_a_sample_error(root)
    if known is not None and not new:
        _refuse_other_engine(root, engine)
        remark(f"The sample lake {root} holds {known}; `--new` makes a fresh one.")
        return known
    if known is not None:
        _remove_sample(root)
    samples.make_sample(root, days, engine or "embedded")
    remark(f"Made the sample lake {root}: {days}, {len(days)} days.")
    return days


def _refuse_other_engine(root: Path, engine: str | None) -> None:
    """Raise SettingsError for a sample lake that was made with another engine than this one (None:
    any will do)."""
    found = load_settings(root).spark.engine
    if engine not in (None, found):
        raise SettingsError(
            f"the sample lake {root}",
            f"its engine is {scrub_secrets(found)}, not {engine}",
            "Nothing was done",
            f'Add --new for a fresh one, or set engine = "{engine}" in its lake.toml: its '
            "days stay as they are",
        )


def _remove_sample(root: Path) -> None:
    """Remove the old sample, its server first and its marker last: an interrupted removal can be
    done again."""
    stop_server(root)
    for path in sorted(root.iterdir()):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != MARKER:
            path.unlink()
    (root / MARKER).unlink()


def _draw_outcomes(
    lake: Lake, report: StatusReport, refused: dict[str, int], outcomes: list[RunOutcome]
) -> None:
    """Draw the rows of each day by table, the reasons of quarantine, how long both runs took, and
    the commands to go on with."""
    from backfill_assets.cli.dagster_home import lake_option_text

    lines: list[tuple[DayStatus, ...]] = list(zip(*report.tables.values(), strict=True))
    rows: list[list[object]] = [[line[0].day, *map(_state_cell, line)] for line in lines]
    rows.append(["all", *(sum(d.rows or 0 for d in column) for column in report.tables.values())])
    draw_table(["rows of", *report.tables], rows)
    click.echo()
    reasons = [[count, reason] for reason, count in reason_kinds(refused).shown]
    draw_table(["lines", "in quarantine because"], reasons)
    click.echo()
    draw_table(["table", "first run", "again"], _run_times(outcomes))
    click.echo()
    lake_option = lake_option_text(lake)
    table = [*report.tables][:2][-1]  # the second table, which is made from the first
    first_day, last_day = lines[0][0].day, lines[-1][0].day
    week = f"--from {max(first_day, last_day - timedelta(days=6))} --to {last_day}"
    plan = f"{lake_option}plan {week} --tables {table} --force"
    click.echo(f"See both runs in Dagster:  backfill-assets {lake_option}ui")
    click.echo(f"Look at any day:           backfill-assets {lake_option}show {table} {last_day}")
    click.echo(f"Correct a week:            backfill-assets {plan}")


def _run_times(outcomes: list[RunOutcome]) -> list[list[str]]:
    """A row for each table, and one for all: how long each run took, and what it changed."""
    rows = []
    for table in outcomes[0].tables:
        row = [table.table]
        for outcome in outcomes:
            (part,) = (t for t in outcome.tables if t.table == table.table)
            row.append(f"{part.seconds:.1f} s, {part.changed} of {part.days} changed")
        rows.append(row)
    rows.append(["the whole run", *(f"{outcome.seconds:.1f} s" for outcome in outcomes)])
    return rows


def _state_cell(day: DayStatus) -> str:
    """Return the rows, and the state where it is not fresh."""
    rows = number_text(day.rows)
    return rows if day.state.value == "fresh" else f"{day.state.value} {rows}"


@click.command()
@click.argument("name", required=False)
@json_and_lake
def example(name: str | None) -> None:
    """List the lakes to learn from, or make the one called NAME in the folder of --lake, which must
    be empty.

    Each tells in its STEPS.md what it shows, which commands to run, and what comes out.
    """
    known = example_titles()
    if name is None:
        hint = "`backfill-assets example NAME --lake DIR` makes one; its STEPS.md leads through it."
        write_answer(known, [TextTable(("example", "shows"), [*known.items()]), hint])
        return
    root = lake_root()
    make_example(name, root)
    read = (
        f"Read {root / STEPS}: it begins in an empty folder, by making this lake under a name of "
        "its own."
    )
    document: MadeExample = {"example": name, "lake": str(root), "steps": str(root / STEPS)}
    write_answer(document, [f"made {root}: {known[name]}", read])
