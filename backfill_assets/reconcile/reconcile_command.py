"""`backfill-assets reconcile`: a table held against another side by business key, in both
directions. No JVM.

Not here: matching the rows (`reconcile.reconcile`).
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from backfill_assets.cli.common import TEXT, Parsed, days_options, opened_lake, split_names
from backfill_assets.cli.drawing import (
    Page,
    PageSection,
    TextTable,
    number_text,
    remark,
    write_page,
)
from backfill_assets.cli.output import Output, reporting_command
from backfill_assets.kernel.core.texts import shortened_text
from backfill_assets.reading.matching import KINDS, MatchedRow
from backfill_assets.reconcile.reconcile import ReconcileReport, ReconcileRequest, keep_report
from backfill_assets.reconcile.reconcile import reconcile as reconcile_of

if TYPE_CHECKING:
    from backfill_assets.reconcile.reconcile_layers import Balance, LayersReport

NAME_CHARS = 60  # a side may be a long query
SIDES = "left", "right"


def _parse_tolerance(text: str) -> tuple[str, str]:
    column, is_pair, value = text.partition("=")
    if not (column and is_pair and value):
        raise ValueError(f"{text!r} is no COLUMN=VALUE")
    return column, value


@click.command()
@click.argument("left", type=TEXT, default="")
@click.option(
    "--with", "right", type=TEXT, metavar="RIGHT", help="The other side; paths of files start here."
)
@click.option(
    "--layers",
    is_flag=True,
    help="Balance landed rows, raw, staging, features and training per day instead.",
)
@click.option(
    "--key", help="Columns that identify a row, comma-separated. [default: the table's key and day]"
)
@click.option("--columns", help="Compare these columns only, comma-separated.")
@click.option("--ignore", help="Columns that are not compared, e.g. id,loaded_at.")
@click.option(
    "--tolerance",
    type=Parsed("COLUMN=VALUE", _parse_tolerance),
    multiple=True,
    help="total=0.01, total=1%, at=5s.",
)
@days_options(default="all")
@click.option("--day-column", help="The column that gives a row's day. [default: the table's]")
@click.option(
    "--sample",
    type=click.IntRange(min=0),
    default=0,
    help="Show this many keys side by side, equal ones too.",
)
@click.option("--seed", type=int, default=0, help="Which keys are drawn. [default: 0]")
@click.option(
    "--sha256",
    is_flag=True,
    help="Digest key and compared columns of both sides, whatever the order of rows.",
)
@click.option("--by-day", is_flag=True, help="Count and digest the rows of each day, too.")
@reporting_command("html")
def reconcile(layers: bool, **options: Any) -> Output:
    """Match the rows of LEFT and RIGHT by key: missing, doubled and differing rows, per day and
    column.

    A side is TABLE, TABLE@VERSION, TABLE@TIME, TABLE@write:ID, TABLE@snapshot:NAME, lake:DIR#TABLE,
    a Parquet, CSV or Delta location, "duckdb:SELECT …" over the lake's tables and files, or
    "postgresql://…#TABLE". The report and the SQL that ran are kept in the lake. Exit code 1 if
    anything differs beyond tolerance, or a balance does not hold.
    """
    has_sides = bool(options["left"]), bool(options["right"])
    if layers and any(has_sides):
        raise click.UsageError("--layers and LEFT --with RIGHT exclude each other.")
    if not layers and not all(has_sides):
        raise click.UsageError("name both sides: reconcile LEFT --with RIGHT.")
    by_day = options.pop("by_day")
    options["sha256"] = options["sha256"] or by_day
    lake, pipeline = opened_lake()
    report: LayersReport | ReconcileReport
    if layers:
        from backfill_assets.reconcile.reconcile_layers import reconcile_layers

        report = reconcile_layers(lake, pipeline, options["days"])
        title, lines, sections, failed = "Layers", [], _balance_sections(report), bool(report.wrong)
    else:
        report = reconcile_of(lake, pipeline, _reconcile_request(options))
        title = (
            f"{shortened_text(report.left, NAME_CHARS)} and "
            f"{shortened_text(report.right, NAME_CHARS)}"
        )
        lines = [_verdict_line(report)]
        sections = [*(_day_sections(report) if by_day else ()), *_report_sections(report)]
        failed = bool(report.mismatches)
        remark(f"kept {keep_report(lake, report)} and its .sql")
    page = Page("reconcile", title, lake.address, sections, lines)
    return Output(report, [*lines, *sections], failed, {"html": partial(write_page, page=page)})


def _verdict_line(report: "ReconcileReport") -> str:
    """What came out, as one line."""
    left, right = report.rows
    count = report.mismatches
    verdict = f"{number_text(count)} mismatch(es)" if count else "no mismatch"
    return (
        f"{report.left} against {report.right}: {verdict}; {number_text(left)} row(s) left, "
        f"{number_text(right)} right, by {', '.join(report.key)}"
    )


def _reconcile_request(options: dict[str, Any]) -> "ReconcileRequest":
    lists = {name: split_names(options[name]) or () for name in ("key", "columns", "ignore")}
    return ReconcileRequest(**{**options, **lists, "tolerance": dict(options["tolerance"])})


def _balance_sections(report: "LayersReport") -> list[PageSection]:
    """The sums of all balances, and the days of balances that do not hold."""
    lines = []
    for name in dict.fromkeys(b.name for b in report.balances):
        own = [b for b in report.balances if b.name == name]
        one, other = (" + ".join(_side_sums(own, side)) for side in ("one", "other"))
        lines.append(f"{name}: {one} = {other}, {len(own)} day(s)")
    sections = [PageSection("Balances", lines=lines)]
    for title, found in (
        ("does not balance", report.wrong),
        ("is to be made again", report.waiting),
    ):
        if found:
            sections.append(PageSection(title.capitalize(), [_balance_table(title, found)]))
    return sections


def _balance_table(title: str, balances: "Iterable[Balance]") -> TextTable:
    """A row for each balance, with both of its sides."""
    columns = ("balance", "day", "state", "one side", "other side")
    rows = [
        (b.name, b.day, b.state.value, _side_sums([b], "one"), _side_sums([b], "other"))
        for b in balances
    ]
    return TextTable(columns, rows, title)


def _side_sums(balances: "Iterable[Balance]", side: str) -> list[str]:
    """The sums of one side over all days, each with its name."""
    total: dict[str, int] = {}
    for balance in balances:
        for name, rows in getattr(balance, side).items():
            total[name] = total.get(name, 0) + rows
    return [f"{number_text(rows)} {name}" for name, rows in total.items()]


def _report_sections(report: "ReconcileReport") -> list[PageSection]:
    """The parts of the report that have content."""
    days, columns = _day_table(report), _column_table(report)
    cells = ("kind", "key", "left", "right")
    examples = TextTable(cells, _row_cells(report.examples), "rows that differ, drawn by --seed")
    drawn = TextTable(cells, _row_cells(report.spot_check), "keys drawn by --seed")
    sections = [
        PageSection("Days that differ", [days] if days.rows else [], _report_remarks(report)),
        PageSection("Columns", [columns] if columns.rows else []),
        PageSection("Rows that differ", [examples]),
        PageSection("Spot check", [drawn]),
    ]
    shown = [s for s in sections if s.lines or any(t.rows for t in s.tables)]
    return [*shown, PageSection("The SQL that ran", code=report.sql)]


def _day_table(report: "ReconcileReport") -> TextTable:
    """The days that differ, with their rows of each kind that the report has."""
    kinds = [k for k in KINDS if report.total(k)]
    off = [d for d in report.days if d.kinds]
    rows = [(d.day, d.left, d.right, *(d.kinds.get(k, 0) for k in kinds)) for d in off]
    return TextTable(("day", "rows left", "rows right", *kinds), rows)


def _column_table(report: "ReconcileReport") -> TextTable:
    """The columns that differ, also within tolerance or only in kind."""
    rows = []
    for c in report.columns:
        if c.differing or c.within or not c.same_kind:
            looks = [f"{n} {look}" for look, n in c.how.items()]
            rows.append((c.column, c.left_type, c.right_type, c.differing, c.within, looks))
    names = ("column", "left", "right", "differing", "within tolerance", "looks like")
    return TextTable(names, rows)


def _day_sections(report: "ReconcileReport") -> list[PageSection]:
    """Rows and SHA-256 of each day on both sides, also of days that do not differ."""
    rows_of = {d.day: (d.left, d.right) for d in report.days}
    rows = []
    for day, (left, right) in report.digests_by_day.items():
        shown = "the same" if left == right else right
        rows.append((day or "no day", *rows_of[day], left, shown))
    columns = ("day", "left", "right", "SHA-256 left", "SHA-256 right")
    return [PageSection("Each day", [TextTable(columns, rows)])]


def _report_remarks(report: "ReconcileReport") -> list[str]:
    """What tables do not show: keys that are no keys, columns that were not compared, digests."""
    remarks = []
    for title, (left, right) in (
        ("rows with a NULL in the key", report.null_keys),
        ("keys that repeat", report.doubled_keys),
    ):
        if left or right:
            remarks.append(f"{title}: {number_text(left)} left, {number_text(right)} right")
    for side, names in zip(SIDES, report.unmatched_columns, strict=True):
        if names:
            remarks.append(
                f"on the {side} only: {', '.join(names)} (--ignore or --columns leaves columns out)"
            )
    other_types = [c for c in report.columns if c.left_type != c.right_type]
    if types := ", ".join(f"{c.column} ({c.left_type}, {c.right_type})" for c in other_types):
        remarks.append(f"types differ: {types}")
    if report.digests:
        pairs = zip(SIDES, report.digests, strict=True)
        remarks += [f"SHA-256 {side}: {digest}" for side, digest in pairs]
    return remarks


def _row_cells(rows: "Iterable[MatchedRow]") -> list[tuple[object, ...]]:
    return [
        (row.kind, _cell_texts(row.key), _cell_texts(row.left), _cell_texts(row.right))
        for row in rows
    ]


def _cell_texts(values: "Mapping[str, str | None]") -> list[str]:
    """A text `COLUMN=VALUE` for each column."""
    return [f"{column}={_value_text(value)}" for column, value in values.items()]


def _value_text(value: str | None) -> str:
    return "NULL" if value is None else value
