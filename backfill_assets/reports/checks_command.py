"""Commands that look for what is wrong in a lake: `controls`, `drift` and `prove`. None of them
commits anything.

Not here: judging, measuring and computing (`reports.check_history`, `compare`), drawing what
differs (`compare`), and `doctor`.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from backfill_assets.cli.common import days_options, opened
from backfill_assets.cli.drawing import Page, PageSection, TextTable, number, write_page
from backfill_assets.cli.output import Output, reporting
from backfill_assets.compare.compare_command import names_of, recomputed
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.days import DayRange, contiguous
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reconcile.reconcile import judge_controls
from backfill_assets.reconcile.standing import unproven
from backfill_assets.reports.check_history import ColumnDrift, DriftReport, measure_drift
from backfill_assets.reports.plots import drift_figures


@click.command()
@click.argument("names", nargs=-1)
@reporting()
def controls(names: tuple[str, ...]) -> Output:
    """Judge the controls NAMES of `[controls]` in lake.toml; without names all of them.

    Exit code 1 if one is broken, or cannot be judged because its query fails or what it expects is
    gone.
    """
    lake, pipeline = opened()
    outcomes = judge_controls(lake, pipeline, names)
    none = (
        "This lake has no controls: see [controls] in the file that `backfill-assets init` writes."
    )
    return Output(
        outcomes, [*map(str, outcomes)] or [none], failed=not all(o.holds for o in outcomes)
    )


SHOWN = 20


@click.command()
@click.option("--table", help="Which table. [default: all]")
@click.option("--column", help="Which column. [default: all that receipts count]")
@days_options(default="all that were made")
@reporting("html")
def drift(table: str | None, column: str | None, days: "DayRange | None") -> Output:
    """Rank the days whose values differ from the 28 days before, the same weekday, or what the day
    held before.

    By the histograms that receipts keep of numbers, yes or no, texts with few values, and NULL. The
    measure is the population stability index; a day is off where the first two, or the third,
    exceed 0.25 plus chance. Exit code 0, whatever was found.
    """
    lake, pipeline = opened()
    report = measure_drift(lake, pipeline, [table] if table else (), column, days)

    def write_drifts(file: Path) -> None:
        write_page(file, Page("drift", "Drift", lake.address, drift_sections(report)))

    return Output(report, [drift_section(report, SHOWN)], files={"html": write_drifts})


def drift_section(report: "DriftReport", count: int | None = None) -> PageSection:
    """Return how many columns of days are off, and the `count` (None: all) that are off most."""
    off = report.off
    headline = f"{number(len(off))} of {number(len(report.found))} column(s) of days are off"
    if report.unjudged:
        headline += (
            f"; {number(report.unjudged)} could not be judged: too few earlier days, or too few "
            "rows"
        )
    if count is not None and len(off) > count:
        headline += f"; the {count} that are off most are shown, --json has all"
    names = ("table", "column", "day", "rows", "28 days", "weekday", "before", "moved most")
    cells = [
        (d.table, d.column, d.day, d.rows, *map(_index, (d.trailing, d.weekday, d.before)), d.moved)
        for d in off[:count]
    ]
    title = (
        "population stability index against the 28 days before, four same weekdays, what the day "
        "held before"
    )
    return PageSection("Drift", [TextTable(names, cells, title)] if cells else [], [headline])


def drift_sections(report: "DriftReport") -> list[PageSection]:
    """Return the sections of a page: plots of the columns that are off most, then all that are off,
    neighbouring days of a column in one row; every day by itself is folded."""
    every = drift_section(report)
    plots = PageSection("Drift", about=every.lines, figures=drift_figures(report))
    if not every.tables:
        return [plots]
    spans = {
        (t, c): contiguous(d.day for d in report.off if (d.table, d.column) == (t, c))
        for t, c in dict.fromkeys((d.table, d.column) for d in report.off)
    }
    rows = []
    for (table, column), found in spans.items():
        for span in found:
            off = [
                d for d in report.off if (d.table, d.column) == (table, column) and d.day in span
            ]
            least, most = (_index(pick(map(_greatest, off))) for pick in (min, max))
            index = most if least == most else f"{least}..{most}"
            rows.append((index, f"{table}.{column}", f"{span} ({len(span)})", off[0].moved))
    title = (
        "population stability index: the greatest of those against the 28 days before, same "
        "weekdays, and before"
    )
    grouped = TextTable(("index", "column", "days", "moved most"), rows, title)
    folded = [replace(table, title=f"Every day by itself: {table.title}") for table in every.tables]
    return [plots, PageSection("Columns that are off", [grouped], folded=folded)]


def _greatest(drift: "ColumnDrift") -> float:
    return max(v for v in (drift.trailing, drift.weekday, drift.before) if v is not None)


def _index(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


@click.command()
@days_options(default="all that were made")
@click.option(
    "--random",
    type=click.IntRange(min=1),
    default=None,
    help="Prove this many days, drawn by --seed.",
)
@click.option("--seed", default="0", help="Which days are drawn. [default: 0]")
@click.option("--tables", help="Which tables, comma-separated. [default: all]")
@click.option(
    "--chunk",
    type=click.IntRange(min=1),
    default=1,
    help="Compute this many days at once. [default: 1]",
)
@click.option(
    "--due",
    is_flag=True,
    help="Prove what `[proof]` of lake.toml asks for today, if it is due; for cron.",
)
@reporting()
def prove(tables: str | None, due: bool, **options: Any) -> Output:
    """Compute days again from the inputs that their receipts pin, in another order, and compare
    fingerprints.

    Inputs come in another physical order, rows are grouped in another number of partitions, days
    are computed alone. Nothing is committed. Exit code 1 where a day differs or a table could not
    be computed.
    """
    from backfill_assets.compare.prove import ProofRequest, keep_proof
    from backfill_assets.compare.prove import prove as prove_days

    lake, pipeline = opened()
    if due:
        return _prove_due(lake, pipeline)
    options["random"] = options["random"] or 0
    proof = prove_days(lake, pipeline, ProofRequest(tables=names_of(tables) or (), **options))
    keep_proof(lake, pipeline, proof)
    return Output(proof, recomputed("proof", proof), failed=bool(proof.differing or proof.refused))


def _prove_due(lake: "Lake", pipeline: "Pipeline") -> Output:
    """Prove the days of today, unless none is due; exit code 1 where one fails."""
    from backfill_assets.compare.prove import prove_days, waits

    why = waits(lake, pipeline)
    proofs = [] if why else prove_days(lake, pipeline, utc_today())
    lines = [f"No proof is due: {why}"] if why else map(str, proofs)
    return Output({"waits": why, "proofs": proofs}, lines, failed=bool(unproven(lake, pipeline)))
