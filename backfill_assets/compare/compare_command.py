"""`backfill-assets compare` and `check-engine`: days at two versions, times or lakes, and days
computed on two engines.

Not here: finding the differences (`compare.compare_days`, `compare.prove`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from backfill_assets.cli.common import days_options, opened_lake, split_names, target_option
from backfill_assets.cli.drawing import Page, PageSection, TextTable, number_text, write_page
from backfill_assets.cli.output import Output, reporting_command
from backfill_assets.compare.compare import CompareForm, CompareReport, CompareRequest
from backfill_assets.compare.compare import compare_days as compare_of
from backfill_assets.compare.differences import DayDifference, SampleRow
from backfill_assets.kernel.core.days import DayRange
from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.reading.moments import Moment

if TYPE_CHECKING:
    from backfill_assets.compare.recompute import Recomputation


VERSION = click.IntRange(min=0)
# Per table that a plan wrote its name, the days, the version before and the version after.
PlanChanges = Callable[[Lake, str, int | None, str], Sequence[tuple[str, DayRange, int, int]]]
MOMENTS = ("from_version", "to_version", "other_lake")


# A list of a plan's tables; else one table.
CompareAnswer = CompareForm | list[CompareForm]


@click.command()
@click.option("--table", default="", help="Which table. [default with --plan: all that it wrote]")
@days_options()
@click.option(
    "--plan",
    "plan_id",
    metavar="ID",
    help="What this plan changed; needs no days, versions or times.",
)
@click.option("--chunk", type=click.IntRange(1), help="With --plan: what this chunk changed.")
@click.option("--from-version", type=VERSION, help="The table's version before.")
@click.option("--to-version", type=VERSION, help="The version after. [default: the newest]")
@click.option(
    "--other-lake", type=click.Path(path_type=Path), help="Before is this lake, after is that one."
)
@click.option(
    "--meant", help="Columns that were meant to change, comma-separated; others that did are named."
)
@target_option
@reporting_command("html")
def compare(**options: Any) -> Output:
    """Rows added, removed and changed, per day and by column, with samples and the drift of every
    column.

    Drift is the population stability index. Exit code 1 where a column changed, came or went that
    was not --meant to. No JVM.
    """
    lake, pipeline = opened_lake()
    reports = [
        compare_of(pipeline, *comparison) for comparison in _asked_comparisons(lake, options)
    ]
    plan = options["plan_id"]
    title = f"plan {plan}" if plan else f"{options['table']} {options['days']}"
    sections, parts, unmeant = list[PageSection](), list[str | PageSection](), list[str]()
    for report in reports:
        of_report = _report_sections(report)
        sections += of_report
        parts.append(report.headline)
        if report.differing or report.one_sided:
            parts += of_report
        if report.unmeant:
            columns = ", ".join(report.unmeant)
            unmeant.append(f"Not meant to change and changed all the same: {columns}")
    lines = [*(report.headline for report in reports), *unmeant]
    page = Page("compare", title, lake.address, sections, lines)
    pages = {"html": partial(write_page, page=page)}
    document = reports if plan else reports[0]
    return Output(document, [*parts, *unmeant], bool(unmeant), pages)


def _asked_comparisons(
    lake: Lake, options: dict[str, Any]
) -> list[tuple[CompareRequest, Moment, Moment]]:
    """Each comparison that the options ask for; raises click's errors for options that exclude each
    other."""
    table, days, meant = options["table"], options["days"], split_names(options["meant"])
    if options["plan_id"] is None:
        if not table or days is None or options["chunk"] is not None:
            raise click.UsageError(
                "say which --table and days (--from, --to), or which --plan (and perhaps --chunk)."
            )
        before, after = _compared_moments(lake, **options)
        return [(CompareRequest(table, days, meant), before, after)]
    if days is not None or any(options[name] is not None for name in MOMENTS):
        raise click.UsageError("--plan says days and versions already: leave these options away.")
    plan_changes: PlanChanges | None = offered_function("plan_changes")
    if plan_changes is None:
        raise click.UsageError("--plan: this installation lacks the room plans.")
    changes = plan_changes(lake, options["plan_id"], options["chunk"], table)
    if meant is not None and len(changes) > 1:
        tables = ", ".join(changed for changed, *_ in changes)
        raise click.UsageError(f"--meant is of one table: say --table with it, one of {tables}.")
    return [
        (CompareRequest(changed, span, meant), Moment(lake, before), Moment(lake, after))
        for changed, span, before, after in changes
    ]


def _compared_moments(lake: Lake, other_lake: Path | None, **options: Any) -> Iterator[Moment]:
    """Yield the moment before and the moment after: versions of this lake, or this lake and another
    one."""
    if other_lake is None and options["from_version"] is None:
        raise click.UsageError("say what to compare with: --from-version or --other-lake.")
    yield Moment(lake, options["from_version"])
    yield Moment(
        open_lake(other_lake, is_further=True) if other_lake else lake, options["to_version"]
    )


def _report_sections(report: CompareReport) -> list[PageSection]:
    """Return the sections of days, columns and sample rows that differ, without empty ones."""
    columns = []
    for c in report.columns:
        words = ["large"] if c.is_large else []
        if c.is_unmeant:
            words.append("not meant")
        nulls = _share_text(c.nulls_before), _share_text(c.nulls_after)
        columns.append((c.column, c.changed, *nulls, f"{c.drift:.3f}", words))
    names = ("day", "rows before", "rows after", "added", "removed", "changed", "columns")
    heads = ("column", "changed values", "NULL before", "NULL after", "drift", "")
    drift = (
        "each column, over all days compared (none: only one side has it); drift is the "
        "population stability index"
    )
    samples, drawn = ("day", "kind", "key", "before", "after"), "some of the rows that differ"
    tables = {
        "Days that differ": TextTable(names, [_difference_cells(d) for d in report.differing]),
        "Columns": TextTable(heads, columns, drift),
        "Rows that differ": TextTable(samples, _sample_rows(report.samples), drawn),
    }
    return [PageSection(title, [table]) for title, table in tables.items() if table.rows]


def _share_text(share: float | None) -> str:
    return "none" if share is None else f"{share:.1%}"


def _difference_cells(d: DayDifference) -> tuple[object, ...]:
    columns = ", ".join(f"{c} {number_text(n)}" for c, n in d.columns.items())
    return d.day, d.rows_before, d.rows_after, d.added, d.removed, d.changed, columns


def _sample_rows(samples: Iterable[SampleRow]) -> list[tuple[object, ...]]:
    """Return the cells of each sample row; its values as `column=value`."""
    rows: list[tuple[object, ...]] = []
    for sample in samples:
        before = [f"{column}={value}" for column, value in sample.before.items()]
        after = [f"{column}={value}" for column, value in sample.after.items()]
        rows.append((sample.day, sample.kind, sample.key, before, after))
    return rows


@click.command("check-engine")
@days_options(default="all that were made")
@click.option("--tables", help="Which tables, comma-separated. [default: all]")
@reporting_command()
def check_engine(days: DayRange | None, tables: str | None) -> Output:
    """Compute days again on the other engine, from the inputs that their receipts name, and compare
    fingerprints.

    Nothing is committed; the other engine has a server of its own, which stops afterwards. Exit
    code 1 where a day differs, or a table could not be computed.
    """
    from backfill_assets.compare.prove import check_engine as compute_again
    from backfill_assets.compare.prove import other_engine

    lake, pipeline = opened_lake()
    report = compute_again(lake, pipeline, days, split_names(tables), other_engine(lake))
    return Output(
        report,
        recomputation_parts(report.engine, report),
        failed=bool(report.differing or report.refused),
    )


def recomputation_parts(engine: str, report: "Recomputation") -> Iterator[str | PageSection]:
    """Yield what differs by day, column and key, the days passed over and the tables not
    computed."""
    counted = [
        f"{number_text(number)} {unit}(s)" for unit, number in report.compared_by_unit.items()
    ]
    compared = ", ".join(counted) or "0 day(s)"
    yield f"{engine}: {compared} of tables computed again, {report.differing} differ"
    for verdict in report.verdicts:
        passed = [d for d in verdict.days if d.passed_over]
        for reason in dict.fromkeys(d.passed_over for d in passed):
            alike = [d for d in passed if d.passed_over == reason]
            over = f"{len(alike)} {verdict.unit}(s) from {alike[0].day} passed over"
            yield f"{verdict.table}: {over}: {reason}"
    rows = [(v.table, *_difference_cells(d)) for v in report.verdicts for d in v.differing]
    if rows:
        columns = (
            "table",
            "day",
            "rows before",
            "rows again",
            "added",
            "removed",
            "changed",
            "columns",
        )
        samples = [row for v in report.verdicts for row in _sample_rows(v.samples)]
        differing = TextTable(
            ("day", "kind", "key", "written", "computed again"), samples, "rows that differ"
        )
        why = (
            "A day of landed rows differs where an engine reads a value otherwise: `quarantine` "
            "says why. Any other "
            "day reads more than its own inputs, or days of a chunk outside its window: see "
            "`guide own-tables`."
        )
        yield PageSection("Days that differ", [TextTable(columns, rows), differing], [why])
    yield from (f"{table} was not computed: {reason}" for table, reason in report.refused)
