"""`backfill-assets demo` and `example`: a sample lake, backfilled twice through Dagster, and lakes to learn from.

`demo` loads or replaces only lakes with its own marker. Not here: making the lakes (`operations.example_lakes`,
`operations.example_lakes`) and the run (`runner`).
"""

import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from backfill_assets.cli.backfill import work
from backfill_assets.cli.common import json_option, lake_option, lake_root, print_json
from backfill_assets.cli.drawing import aside, draw_table, number
from backfill_assets.cli.progress import BackfillRequest, RunOutcome
from backfill_assets.core.clock import utc_today
from backfill_assets.core.days import DayRange
from backfill_assets.core.ownership import refuse_foreign
from backfill_assets.operations.sample import FEWEST_DAYS

if TYPE_CHECKING:
    from backfill_assets.lake.home import Lake
    from backfill_assets.operations.status import StatusReport


@click.command()
@click.option("--new", is_flag=True, help="Replace the sample lake by a fresh one that ends yesterday.")
@click.option("--days", type=click.IntRange(FEWEST_DAYS, 366), default=30, show_default=True, help="Of a fresh sample.")
@click.option(
    "--engine", type=click.Choice(["embedded", "sail"]), help="Of a fresh sample; embedded (Spark) unless said."
)
@json_option
@lake_option
@click.pass_context
def demo(ctx: click.Context, new: bool, days: int, engine: str | None, as_json: bool) -> None:
    """Make a sample lake (unless there is one), load all of it through Dagster, twice."""
    from backfill_assets.lake.home import open_lake

    root = lake_root()
    span = prepare(root, days, new, engine)
    lake = open_lake(root)
    from backfill_assets.operations.status import status
    from backfill_assets.pipeline.chosen import chosen_pipeline

    pipeline = chosen_pipeline(lake)
    outcomes = []
    for told in ("Every table over every day", "The same again: nothing changes"):
        aside(f"{told}:")
        outcomes.append(work(lake, BackfillRequest(span, tuple(t.name for t in pipeline.tables), note="demo")))
        if not outcomes[-1].success:
            aside(f"Error: {outcomes[-1].cause}")
            ctx.exit(1)
    report = status(lake, pipeline, span)
    refused = quarantined(lake)
    if as_json:
        runs = [o.to_dict() for o in outcomes]
        print_json({"lake": str(root), "runs": runs, "quarantine": refused, "status": report.to_dict()})
    else:
        _draw(lake, report, refused, outcomes)


def prepare(root: Path, days: int, new: bool, engine: str | None = None) -> DayRange:
    """The days of the sample lake at `root`, made first if there is none; raises SettingsError for another's lake, and
    for one that was made with another engine than the one asked for."""
    from backfill_assets.operations.example_lakes import (
        days_until,
        make_sample,
        not_ours,
        refuse_other_engine,
        sample_days,
    )

    refuse_foreign(root)
    known = sample_days(root)
    if known is None and root.exists() and any(root.iterdir()):
        raise not_ours(root)
    if known is not None and not new and engine is not None:
        refuse_other_engine(root, engine)
    if known is not None and not new:
        aside(f"The sample lake {root} holds {known}; `--new` makes one that ends yesterday.")
        return known
    if known is not None:
        _remove(root)
    made = days_until(utc_today(), days)
    make_sample(root, made, engine or "embedded")
    aside(f"Made the sample lake {root}: {made}, {len(made)} days.")
    return made


def _remove(root: Path) -> None:
    """The old sample, its server first. The marker goes last, so that an interrupted removal can be done again."""
    from backfill_assets.engine.server import stop_server
    from backfill_assets.operations.example_lakes import MARKER

    stop_server(root)
    for path in sorted(root.iterdir()):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != MARKER:
            path.unlink()
    (root / MARKER).unlink()


def quarantined(lake: "Lake") -> dict[str, int]:
    """How many rows are in quarantine for which reason, the most frequent first."""
    from backfill_assets.lake.ledger import QUARANTINE

    rows = lake.store.rows(QUARANTINE.name, columns=("reason",))
    return dict(Counter(r["reason"] for r in rows).most_common())


def _draw(lake: "Lake", report: "StatusReport", refused: dict[str, int], outcomes: list[RunOutcome]) -> None:
    from backfill_assets.cli.dagster_home import lake_words, ui_command
    from backfill_assets.operations.unusable import kinds

    lines: list[Any] = list(zip(*report.tables.values(), strict=True))
    rows = [[str(line[0].day), *(_cell(d) for d in line)] for line in lines]
    rows.append(["all", *(number(sum(d.rows or 0 for d in column)) for column in report.tables.values())])
    draw_table(["rows of", *report.tables], rows)
    click.echo()
    draw_table(["lines", "in quarantine because"], [[number(n), reason] for reason, n in kinds(refused).shown])
    click.echo()
    names = [t.table for t in outcomes[0].tables]
    parts = {o.run_id: {t.table: t for t in o.tables} for o in outcomes}
    took = [
        [name, *(f"{p[name].seconds:.1f} s, {p[name].changed} of {p[name].days} changed" for p in parts.values())]
        for name in names
    ]
    took.append(["the whole run", *(f"{o.seconds:.1f} s" for o in outcomes)])
    draw_table(["table", "first run", "again"], took)
    click.echo()
    click.echo(f"See both runs in Dagster:  {ui_command(lake)}")
    table, day = [*report.tables][:2][-1], report.days.last if report.days else ""
    click.echo(f"Look at any day:           backfill-assets {lake_words(lake)}show {table} {day}")


def _cell(day: Any) -> str:
    """Rows, and the state where it is not fresh."""
    return number(day.rows) if day.state.value == "fresh" else f"{day.state.value} {number(day.rows)}"


@click.command()
@click.argument("name", required=False)
@json_option
@lake_option
def example(name: str | None, as_json: bool) -> None:
    """List the lakes to learn from, or make the one called NAME in the folder of --lake, which must be empty.

    Each tells in its STEPS.md what it shows, which commands to run, and what comes out.
    """
    from backfill_assets.operations.example_lakes import STEPS, examples, make_example

    known = examples()
    if name is None:
        if as_json:
            print_json(known)
            return
        draw_table(["example", "shows"], [[n, told] for n, told in known.items()])
        click.echo("`backfill-assets example NAME --lake DIR` makes one; its STEPS.md leads through it.")
        return
    root = lake_root()
    make_example(name, root)
    if as_json:
        print_json({"example": name, "lake": str(root), "steps": str(root / STEPS)})
        return
    click.echo(f"made {root}: {known[name]}")
    click.echo(f"Read {root / STEPS}, and follow it.")
