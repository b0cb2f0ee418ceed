"""`backfill-assets status` and `show`: days and tables with the commands that rebuild them, and one
day in full.

Not here: the states (`reports.status`) and the facts of a day (`reports.show`).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import partial
from itertools import groupby
from typing import Any

import click

from backfill_assets.cli.common import (
    DAY,
    CandidateForm,
    days_options,
    errors_as_usage,
    keep_garbage,
    opened_lake,
    say_why_readers_wait,
    statuses_of_candidates,
    target_option,
)
from backfill_assets.cli.drawing import cell_text, draw_table, number_text, say
from backfill_assets.cli.output import Output, Part, reporting_command
from backfill_assets.kernel.core.calendars import Unit, parse_calendar
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.days import DayRange, contiguous_ranges, inclusive_range
from backfill_assets.kernel.core.ledgers import ARRIVALS
from backfill_assets.kernel.core.ownership import BY
from backfill_assets.kernel.core.receipts import SPREAD, Built, DayEntry, Receipt
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.core.view import exists_at
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.attention import lines_for_a_person
from backfill_assets.reading.claims import Hold, holding_plans
from backfill_assets.reading.readable import without_tables
from backfill_assets.reading.rejected import (
    Unusable,
    UnusableForm,
    reason_kinds,
    unusable_rows,
)
from backfill_assets.reports.show import DayReport, DayWrite, InputDay, LandedPart, find_contract
from backfill_assets.reports.show import report_of_day as day_report
from backfill_assets.reports.status import (
    STUCK,
    DayStatus,
    StatusForm,
    StatusReport,
    cell_columns,
)
from backfill_assets.reports.status import lake_status as report_of

GRID_DAYS = 45  # more rows than a screen has: days of equal states share a row
FOLLOWS = "*"  # behind the state of a day that will change
SHOW_HANG = 12  # characters: where the facts of a day begin
MOST_FILES = 10


class StatusAnswer(StatusForm):
    """States of days and tables, and what waits for a person."""

    needs_a_person: Sequence[str]
    unusable: UnusableForm
    candidates: Sequence[CandidateForm]
    readers_wait: str  # for which runs; "": for none


@click.command()
@days_options(default="all")
@click.option(
    "--stale",
    is_flag=True,
    help="Only what is stale, with the reason and the command that rebuilds it.",
)
@click.option(
    "--why", is_flag=True, help="As --stale, and per day the input days that were written since."
)
@click.option(
    "--check",
    is_flag=True,
    help="Exit code 1 if a day is stale, incomplete or unpinned, or missing and to be made, or a "
    "table is unreadable.",
)
@target_option
@reporting_command()
def status(days: DayRange | None, **flags: bool) -> Output:
    """States, rows and versions of all days and tables. Reads receipts only: no JVM starts."""
    keep_garbage()
    lake, pipeline = opened_lake()
    if days and days.start < lake.settings.start_date:
        raise click.UsageError(
            f"{days.start} lies before the lake's first day, {lake.settings.start_date}."
        )
    report = report_of(lake, pipeline, days, flags["why"])
    unused = unusable_rows(lake, read_rows=False)
    needs_a_person = _lines_for_a_person(lake, pipeline, report, unused)
    candidates = statuses_of_candidates(lake)
    readers_wait = say_why_readers_wait(lake)

    def document() -> dict[str, Any]:
        """What is written as a `StatusAnswer`: a million days become JSON values one by one."""
        found: dict[str, Any] = {
            **report.values(),
            "needs_a_person": needs_a_person,
            "unusable": unused,
            "candidates": candidates,
            "readers_wait": readers_wait,
        }
        if flags["stale"]:
            found["days"] = [day for day in report if day.state is State.STALE]
        return found

    lines = [_declared_totals(unused)]
    lines += [f"needs a person: {line}" for line in needs_a_person]
    lines += map(str, [unused, *candidates])
    drawn: Part = partial(_draw_report, report, flags["stale"] or flags["why"])
    is_wanting = bool(report.unread) or any(report.is_wanting(day) for day in report)
    return Output(document, [drawn, *filter(None, lines)], flags["check"] and is_wanting)


def _lines_for_a_person(
    lake: Lake, pipeline: Pipeline, report: StatusReport, unused: Unusable
) -> list[str]:
    """Return what waits for a person, a line each: damage, files that contradict their manifests,
    idle plans, alarms of sensors."""
    lines = {*report.wrong, *unused.contradicted}
    lines.update(holding.line for holding in holding_plans(lake))
    lines.update(lines_for_a_person(lake, without_tables(pipeline, report.unread)))
    return sorted(lines)


def _declared_totals(unused: Unusable) -> str:
    """Return how many files are what their manifests declare; empty where no manifest does."""
    if not unused.as_declared:
        return ""
    count = number_text(unused.as_declared)
    return f"declared totals: {count} file(s) are as their manifests declare"


def _draw_report(report: StatusReport, only_stale: bool) -> None:
    """Draw the days of all tables with their totals, or (`only_stale`) the stale ones with their
    reasons; then the days that rollbacks hold."""
    if report.days is None:
        say(
            "Nothing has landed or been written yet. `backfill-assets scan` looks at the landing "
            "folder."
        )
        return
    if only_stale:
        _draw_stale(report)
    else:
        _draw_grid(report, every_day=len(report.days) <= GRID_DAYS)
        _draw_totals(report)
    for hold in report.holds:  # no backfill rebuilds these days
        _draw_hold(hold)


def _draw_hold(hold: Hold) -> None:
    """Draw the days that a rollback put back, and the command that releases them."""
    held = "; ".join(
        f"{name} {cell_text(contiguous_ranges(days))}" for name, days in hold.days.items()
    )
    say(f"held by {hold.rollback}: {held}", 2)
    if hold.plan:
        click.echo(f"look:  backfill-assets plan show {hold.plan}")
    click.echo(f"release: {hold.release}")


def _draw_grid(report: StatusReport, every_day: bool) -> None:
    """Draw a line per day, or (not `every_day`) per stretch of days of equal states, and a column
    per table."""

    def what_a_line_shares(of_day: "tuple[date, list[DayStatus | None]]") -> object:
        day, cells = of_day
        if every_day:
            return day
        return [cell and (cell.state, cell.will_change) for cell in cells]

    units = {parse_calendar(report.every.get(name, Unit.DAY)).unit for name in report.tables}
    unit = units.pop() if len(units) == 1 else Unit.DAY
    rows = []
    for _, group in groupby(_days_with_cells(report), what_a_line_shares):
        days, lines = zip(*group, strict=True)
        span = f"{days[0]}..{days[-1]} ({len(days)} {unit}s)" if len(days) > 1 else days[0]
        by_table = zip(*lines, strict=True)
        rows.append([span, *map(_cell_text, by_table)])
    draw_table(["day", *report.tables], rows)
    *titles, last_title = ["the state", *(shown.title for shown in cell_columns().values())]
    say(f"A cell is {', '.join(titles)} and {last_title}.")


def _days_with_cells(report: StatusReport) -> "Iterator[tuple[date, list[DayStatus | None]]]":
    """Yield each day of the report, ascending, with its cell of every table; None where it is no
    partition of the table."""
    by_table = [{status.day: status for status in column} for column in report.tables.values()]
    for day in sorted(set[date]().union(*by_table)):
        yield day, [cells.get(day) for cells in by_table]


def _cell_text(cells: "Sequence[DayStatus | None]") -> str:
    """Return the state of the days of one cell, with a star where they will change, and the texts
    of columns; empty of days that are no partitions of its table."""
    days = [cell for cell in cells if cell is not None]
    if not days:
        return ""
    first = days[0]
    texts = [f"{first.state.value}{FOLLOWS}" if first.will_change else first.state.value]
    for name, shown in cell_columns().items():
        values = [getattr(day, name) for day in days]
        known = [value for value in values if value is not None]
        if known:
            texts.append(shown.text(known))
    return " ".join(texts)


def _draw_totals(report: StatusReport) -> None:
    """Draw below the grid: counts by state, frontiers, changed columns, and the commands that
    make the days right."""
    _draw_counts(report)
    _draw_frontiers(report)
    for name, changes in report.columns.items():
        say(f"{name} {', '.join(changes)}", 2)
    _draw_remedies(report)


def _draw_counts(report: StatusReport) -> None:
    """Draw how many days of each table of `report` are in which state."""
    following = report.following()
    if following:
        say(
            f"{FOLLOWS} will change: right today, but made from days that need making, and made "
            "again after them.",
            2,
        )
    for name, found in report.totals().items():
        counts = ", ".join(f"{n} {state.value}" for state, n in found.items())
        more = f" ({following[name]} will change)" if name in following else ""
        every = f" (every {report.every[name]})" if name in report.every else ""
        say(f"{name}{every}: {counts}{more}", 2)


def _draw_frontiers(report: StatusReport) -> None:
    """Draw up to when each source of `report` is loaded; nothing for a lake that loads no
    files."""
    loaded = []
    for name, frontier in report.frontiers.items():
        until = f"{frontier:%Y-%m-%dT%H:%M:%SZ}" if frontier else "none, nothing is loaded"
        loaded.append(f"{name} {until}")
    if loaded:
        as_of = f", as_of {report.as_of:%Y-%m-%dT%H:%M:%SZ}" if report.as_of else ""
        say(f"frontier: {'; '.join(loaded).strip()}{as_of}", 2)


def _draw_remedies(report: StatusReport) -> None:
    """Draw the commands that make the days of `report` right, in the order in which to run
    them."""
    outdated = [d for d in report if d.state is State.OUTDATED]
    with_other_columns = [d for d in outdated if d.table in report.columns]
    by_other_code = [d for d in outdated if d.table not in report.columns]
    drawn = []  # whether each of them had any day
    if stuck := _stuck_tables(report):
        _say_how_to_move(report, stuck)
    else:
        drawn.append(_draw_commands("load again", report, with_other_columns))
    drawn.append(
        _draw_commands(
            "make by today's code", report, by_other_code, all_tables=True, command="plan"
        )
    )
    drawn.append(_draw_commands("rebuild", report, _wanting_days(report), all_tables=True))
    if sum(drawn) > 1:
        say(
            "Run them from top to bottom, and look at `status` after each: one may make days that "
            "another names."
        )


def _wanting_days(report: StatusReport) -> list[DayStatus]:
    """Return the days that need making, and those that will change after them."""
    return [d for d in report if d.will_change or d.day in report.needed.get(d.table, ())]


def _say_how_to_move(report: StatusReport, stuck: Sequence[str]) -> None:
    """Say what a person does with tables whose columns changed so that no command can follow."""
    say(
        "Give these columns the types they have, and the new types to columns of other names; "
        "or move these "
        f"folders of {report.lake}/tables away: {', '.join(stuck)} (with landed rows also the "
        f"`{ARRIVALS}` of "
        "their source), then run `backfill-assets catch-up`: all other tables keep their "
        "history."
    )


def _stuck_tables(report: StatusReport) -> list[str]:
    """Return the tables of `report` with a change of columns that no command can carry out."""
    stuck = []
    for name, changes in report.columns.items():
        if any(change.startswith(STUCK) for change in changes):
            stuck.append(name)
    return stuck


def _draw_stale(report: StatusReport) -> None:
    """Draw why days are stale, how to see the landed files of the first, the commands that rebuild
    them, and (with `--why`) the input days that were written since."""
    stale_days = [d for d in report if d.state is State.STALE]
    if not stale_days:
        say(f"No day of {report.days} is stale.")
        return
    following = [d for d in report if d.will_change]
    reasons = [(d.table, d.reason, d.day) for d in stale_days]
    reasons += [(d.table, "will change after these", d.day) for d in following]
    _say_reasons(reasons)
    if landed := [d for d in stale_days if "file(s) name it now" in d.reason]:
        click.echo(f"its files:  backfill-assets show {landed[0].table} {landed[0].day}")
    _draw_commands("rebuild", report, [*stale_days, *following])
    _say_reasons((d.table, culprit, d.day) for d in stale_days for culprit in d.culprits)


def _say_reasons(lines: Iterable[tuple[str, str, date]]) -> None:
    """Say, once for all days of a table, why they are stale."""
    days: dict[tuple[str, str], list[date]] = defaultdict(list)
    for table, reason, day in lines:
        days[table, reason].append(day)
    for (table, reason), found in days.items():
        say(f"{table} {cell_text(contiguous_ranges(found))}: {reason}", 2)


def _draw_commands(
    word: str,
    report: StatusReport,
    wanting: Iterable[DayStatus],
    all_tables: bool = False,
    command: str = "backfill",
) -> bool:
    """Draw the commands, each on one line to be copied, for days that are over, as few ranges
    without held days; return whether there are any."""
    today = utc_today()
    over = [d for d in wanting if d.day < today]
    if not over:
        return False
    named = [*report.tables] if all_tables else list(dict.fromkeys(d.table for d in over))
    held = {d.day for name in named for d in report.tables[name] if d.state.is_left_alone}
    days = {d.day for d in over} - held
    if not days:
        return False
    tables = "" if all_tables else f" --tables {','.join(named)}"
    # A range may hold days that are right already, but none that is held.
    without_held = contiguous_ranges({*inclusive_range(min(days), max(days))} - held)
    for span in without_held:
        inside = [day for day in span if day in days]
        if inside:
            first, last = inside[0], inside[-1]
            click.echo(f"{word}:  backfill-assets {command} --from {first} --to {last}{tables}")
    return True


@click.command()
@click.argument("table")
@click.argument("day", type=DAY)
@target_option
@reporting_command()
def show(table: str, day: date) -> Output:
    """Receipt, inputs, landed files, quarantine and history of DAY (YYYY-MM-DD) of TABLE."""
    lake, pipeline = opened_lake()
    with errors_as_usage():
        find_contract(lake, pipeline, table, day)
    report = day_report(lake, pipeline, table, day)
    return Output(report, [partial(_draw_day, report)])


def _draw_day(report: DayReport) -> None:
    """Draw the state of a day, its facts by name, and its history where it was written twice."""
    what = f"the {report.period} {report.day}" if report.period else report.day
    click.echo(f"{report.table} {what}: {report.state.value}")
    for name, text in (*_receipt_facts(report), *_input_facts(report), *_landed_facts(report)):
        if text:
            say(f"  {name:9s} {text}", SHOW_HANG)
    if len(report.history) > 1:
        columns = ["version", "at", "rows", "fingerprint", "reason", "run", "note"]
        rows = [_write_cells(write, report.day) for write in report.history]
        draw_table(columns, rows, "history, newest first")


def _write_cells(write: DayWrite, day: date) -> tuple[object, ...]:
    """Return the cells of one write in the history of a day."""
    receipt, entry = write.receipt, write.receipt.days[day]
    made = (str(write.version), write.at, entry.rows, entry.fingerprint)
    return *made, receipt.reason, receipt.run_id[:8], receipt.note


def _receipt_facts(report: DayReport) -> Iterator[tuple[str, str]]:
    """Yield why the day is in its state, and the facts of its newest receipt, by name."""
    yield from (("because", reason) for reason in report.reasons)
    if report.will_change:
        after = report.changes_after or "days"
        yield "but", f"it will change: it is made from {after}, made again before it"
    if report.history:
        yield from _facts_of_write(report.history[0], report)


def _facts_of_write(write: DayWrite, report: DayReport) -> Iterator[tuple[str, str]]:
    """Yield the facts of the receipt of a write of the day, by name; empty ones are not shown."""
    receipt, entry = write.receipt, write.receipt.days[report.day]
    when = f"{cell_text(write.at)} as version {write.version}"
    yield "rows", f"{number_text(entry.rows)}, built {entry.built.value}"
    yield "content", f"fingerprint {entry.fingerprint}"
    yield "written", f"{when}, with {len(receipt.days)} {report.period or 'day'}(s)"
    yield "reason", f"{receipt.reason}: {receipt.note}" if receipt.note else receipt.reason
    yield "run", receipt.run_id
    yield "by", receipt.tags.get(BY, "")
    yield "inputs", f"{_inputs_read(receipt, entry)}; digest {entry.input_digest}"
    yield "code", f"{receipt.code_digest}, settings {receipt.settings_digest}"
    yield "spread", receipt.tags.get(SPREAD, "")
    yield "frontier", f"{receipt.frontier:%Y-%m-%dT%H:%M:%SZ}" if receipt.frontier else "none"


def _inputs_read(receipt: Receipt, entry: DayEntry) -> str:
    """Return the versions of the inputs that a day was made from, in words."""
    versions = []
    for name, version in receipt.inputs.items():
        versions.append(f"{name} v{version}" if exists_at(version) else f"{name} (not there yet)")
    if versions:
        return ", ".join(versions)
    if entry.built is Built.HELD:
        return "those of the version that was put back"
    return "landed files"


def _input_facts(report: DayReport) -> Iterator[tuple[str, str]]:
    """Yield one line per table and state: the days and the sum of their rows."""
    grouped: dict[tuple[str, str, bool], list[InputDay]] = defaultdict(list)
    for input_day in report.inputs:
        grouped[input_day.table, input_day.state.value, input_day.required].append(input_day)
    for (table, state, required), days in sorted(grouped.items()):
        rows = number_text(sum(d.rows or 0 for d in days))
        spans = cell_text(contiguous_ranges(d.day for d in days))
        yield "from", f"{table} {spans}: {state}, {rows} rows{'' if required else ', not required'}"


def _landed_facts(report: DayReport) -> Iterator[tuple[str, str]]:
    """Yield the first landed files, and the most frequent reasons of quarantine."""
    for part in report.files[:MOST_FILES]:
        yield "file", _landed_part(part)
    if rest := report.files[MOST_FILES:]:
        rows = number_text(sum(part.rows for part in rest))
        yield "file", f"and {number_text(len(rest))} more with {rows} rows: see --json"
    found = reason_kinds(report.quarantine)
    yield from (("refused", f"{number_text(count)} x {reason}") for reason, count in found.shown)
    if found.more_kinds:
        more_rows = number_text(found.more_rows)
        yield "refused", f"{more_rows} for {found.more_kinds} other reasons: see --json"


def _landed_part(part: LandedPart) -> str:
    """Return what a landed file holds of the day, in words."""
    withdrawn = " (withdrawn)" if part.withdrawn else ""
    text = f"{part.path}{withdrawn}: {number_text(part.rows)} rows of the day"
    if part.bad_rows:
        text += f", {number_text(part.bad_rows)} of them unusable"
    if part.as_declared:
        text += ", as its manifest declares"
    return text
