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
    days_options,
    opened,
    say_why_readers_wait,
    statuses_of_candidates,
    target_option,
    usage,
)
from backfill_assets.cli.drawing import draw_table, number, say, text_of
from backfill_assets.cli.output import Output, Part, reporting
from backfill_assets.kernel.core.clock import utc_today
from backfill_assets.kernel.core.days import DayRange, contiguous, from_inclusive
from backfill_assets.kernel.core.ledgers import ARRIVALS
from backfill_assets.kernel.core.ownership import BY
from backfill_assets.kernel.core.receipts import SPREAD, Built
from backfill_assets.kernel.core.states import State
from backfill_assets.reading.attention import left_for_a_person
from backfill_assets.reading.claims import held_back
from backfill_assets.reading.readable import without_tables
from backfill_assets.reading.rejected import kinds, unusable
from backfill_assets.reports.show import DayReport, InputDay, find
from backfill_assets.reports.show import show as day_report
from backfill_assets.reports.status import STUCK, DayStatus, StatusReport, in_cells
from backfill_assets.reports.status import status as report_of

GRID_DAYS = 45  # more rows than a screen has: days of equal states share a row
FOLLOWS = "*"  # behind the state of a day that will change
SHOW_HANG = 12  # characters: where the facts of a day begin
MOST_FILES = 10


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
@reporting()
def status(days: DayRange | None, **flags: bool) -> Output:
    """States, rows and versions of all days and tables. Reads receipts only: no JVM starts."""
    lake, pipeline = opened()
    if days and days.start < lake.settings.start_date:
        raise click.UsageError(
            f"{days.start} lies before the lake's first day, {lake.settings.start_date}."
        )
    report, unused = report_of(lake, pipeline, days, flags["why"]), unusable(lake, read_rows=False)
    of_lake = (*report.wrong, *unused.contradicted, *(held.line for held in held_back(lake)))
    known = without_tables(pipeline, report.unread)
    needs_a_person = sorted({*of_lake, *left_for_a_person(lake, known)})
    candidates, declared = statuses_of_candidates(lake), unused.as_declared
    waiting = {"readers_wait": say_why_readers_wait(lake)}

    def document() -> dict[str, Any]:
        """The report as JSON values, which take as long as all the rest."""
        found = report.to_dict() | {
            "needs_a_person": needs_a_person,
            "unusable": unused,
            "candidates": candidates,
        }
        found |= waiting
        if flags["stale"]:
            found["days"] = [d for d in found["days"] if d["state"] == State.STALE]
        return found

    totals = (
        f"declared totals: {number(declared)} file(s) are as their manifests declare"
        if declared
        else ""
    )
    is_wanting = bool(report.unread) or any(map(report.is_wanting, report))
    lines = [
        totals,
        *(f"needs a person: {line}" for line in needs_a_person),
        *map(str, [unused, *candidates]),
    ]
    parts: list[Part] = [
        partial(_draw, report, flags["stale"] or flags["why"]),
        *filter(None, lines),
    ]
    return Output(document, parts, flags["check"] and is_wanting)


def _draw(report: StatusReport, stale: bool) -> None:
    if report.days is None:
        say(
            "Nothing has landed or been written yet. `backfill-assets scan` looks at the landing "
            "folder."
        )
        return
    if stale:
        _draw_stale(report)
    else:
        _draw_grid(report, len(report.days) <= GRID_DAYS)
        _draw_totals(report)
    for hold in report.holds:  # no backfill rebuilds these days
        held = "; ".join(f"{name} {text_of(contiguous(days))}" for name, days in hold.days.items())
        say(f"held by {hold.rollback}: {held}", 2)
        if hold.plan:
            click.echo(f"look:  backfill-assets plan show {hold.plan}")
        click.echo(f"release: {hold.release}")


def _draw_grid(report: StatusReport, every_day: bool) -> None:
    def key(line: "tuple[DayStatus, ...]") -> object:
        return line[0].day if every_day else [(d.state, d.will_change) for d in line]

    rows = []
    for _, group in groupby(zip(*report.tables.values(), strict=True), key):
        lines = list(group)
        first, last = lines[0][0].day, lines[-1][0].day
        span = f"{first}..{last} ({len(lines)} days)" if len(lines) > 1 else first
        rows.append([span, *map(_cell, zip(*lines, strict=True))])
    draw_table(["day", *report.tables], rows)
    *titles, last = ["the state", *(shown.title for shown in in_cells().values())]
    say(f"A cell is {', '.join(titles)} and {last}.")


def _cell(days: Sequence[DayStatus]) -> str:
    """Return the state of the days of one cell, with a star where they will change, and the texts
    of columns."""
    texts = [days[0].state.value + (FOLLOWS if days[0].will_change else "")]
    for name, shown in in_cells().items():
        if values := [value for day in days if (value := getattr(day, name)) is not None]:
            texts.append(shown.text(values))
    return " ".join(texts)


def _draw_totals(report: StatusReport) -> None:
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
        more = f" ({following[name]} will change)" if name in following else ""
        say(f"{name}: {', '.join(f'{n} {state.value}' for state, n in found.items())}{more}", 2)


def _draw_frontiers(report: StatusReport) -> None:
    """Draw up to when each source of `report` is loaded; nothing for a lake that loads no
    files."""
    shown = "; ".join(
        f"{n} {f:%Y-%m-%dT%H:%M:%SZ}" if f else f"{n} none, nothing is loaded"
        for n, f in report.frontiers.items()
    )
    if shown:
        as_of = f", as_of {report.as_of:%Y-%m-%dT%H:%M:%SZ}" if report.as_of else ""
        say(f"frontier: {shown.strip()}{as_of}", 2)


def _draw_remedies(report: StatusReport) -> None:
    """Draw the commands that make the days of `report` right, in the order in which to run
    them."""
    drawn = 0
    if stuck := _stuck_tables(report):
        say(
            "Give these columns the types they have, and the new types to columns of other names; "
            "or move these "
            f"folders of {report.lake}/tables away: {', '.join(stuck)} (with landed rows also the "
            f"`{ARRIVALS}` of "
            "their source), then run `backfill-assets catch-up`: all other tables keep their "
            "history."
        )
    else:
        changed = [
            d for name in report.columns for d in report.tables[name] if d.state is State.OUTDATED
        ]
        drawn += _draw_commands("load again", report, changed)
    others = [d for d in report if d.state is State.OUTDATED and d.table not in report.columns]
    drawn += _draw_commands("make by today's code", report, others, all_tables=True, command="plan")
    wanting = [d for d in report if d.day in report.needed.get(d.table, ()) or d.will_change]
    drawn += _draw_commands("rebuild", report, wanting, all_tables=True)
    if drawn > 1:
        say(
            "Run them from top to bottom, and look at `status` after each: one may make days that "
            "another names."
        )


def _stuck_tables(report: StatusReport) -> list[str]:
    """The tables of `report` with a change of columns that no command can carry out."""
    return [
        name
        for name, changes in report.columns.items()
        if any(c.startswith(STUCK) for c in changes)
    ]


def _draw_stale(report: StatusReport) -> None:
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
        say(f"{table} {text_of(contiguous(found))}: {reason}", 2)


def _draw_commands(
    word: str,
    report: StatusReport,
    wanting: Iterable[DayStatus],
    all_tables: bool = False,
    command: str = "backfill",
) -> bool:
    """Draw the commands, each on one line to be copied, for days that are over, as few ranges
    without held days; return whether there are any."""
    over = [d for d in wanting if d.day < utc_today()]
    named = [*report.tables] if all_tables else list(dict.fromkeys(d.table for d in over))
    held = {d.day for name in named for d in report.tables[name] if d.state is State.HELD}
    days = {d.day for d in over} - held
    tables = "" if all_tables else f" --tables {','.join(named)}"
    for span in contiguous({*from_inclusive(min(days), max(days))} - held) if days else ():
        if inside := [d for d in span if d in days]:
            click.echo(
                f"{word}:  backfill-assets {command} --from {inside[0]} --to {inside[-1]}{tables}"
            )
    return bool(days)


@click.command()
@click.argument("table")
@click.argument("day", type=DAY)
@target_option
@reporting()
def show(table: str, day: date) -> Output:
    """Receipt, inputs, landed files, quarantine and history of DAY (YYYY-MM-DD) of TABLE."""
    lake, pipeline = opened()
    with usage():
        find(lake, pipeline, table, day)
    report = day_report(lake, pipeline, table, day)
    return Output(report, [partial(_draw_day, report)])


def _draw_day(report: DayReport) -> None:
    click.echo(f"{report.table} {(day := report.day)}: {report.state.value}")
    for name, text in (*_receipt(report), *_inputs(report), *_landed(report)):
        if text:
            say(f"  {name:9s} {text}", SHOW_HANG)
    if len(report.history) > 1:
        rows = [
            (
                str(w.version),
                w.at,
                w.receipt.days[day].rows,
                w.receipt.days[day].fingerprint,
                w.receipt.reason,
                w.receipt.run_id[:8],
                w.receipt.note,
            )
            for w in report.history
        ]
        draw_table(
            ["version", "at", "rows", "fingerprint", "reason", "run", "note"],
            rows,
            "history, newest first",
        )


def _receipt(report: DayReport) -> Iterator[tuple[str, str]]:
    """Yield why the day is in its state, and the facts of its newest receipt, by name."""
    yield from (("because", reason) for reason in report.reasons)
    if report.will_change:
        yield (
            "but",
            f"it will change: it is made from {report.changes_after or 'days'}, made again before "
            "it",
        )
    for write in report.history[:1]:
        receipt, entry = write.receipt, write.receipt.days[report.day]
        # Below version 0 an input did not exist yet.
        read = ", ".join(
            f"{name} v{v}" if v >= 0 else f"{name} (not there yet)"
            for name, v in receipt.inputs.items()
        )
        yield "rows", f"{number(entry.rows)}, built {entry.built.value}"
        yield "content", f"fingerprint {entry.fingerprint}"
        yield (
            "written",
            f"{text_of(write.at)} as version {write.version}, with {len(receipt.days)} day(s)",
        )
        yield "reason", receipt.reason + (f": {receipt.note}" if receipt.note else "")
        yield "run", receipt.run_id
        yield "by", receipt.tags.get(BY, "")
        nothing = (
            "those of the version that was put back"
            if entry.built is Built.HELD
            else "landed files"
        )
        yield "inputs", f"{read or nothing}; digest {entry.input_digest}"
        yield "code", f"{receipt.code_digest}, settings {receipt.settings_digest}"
        if SPREAD in receipt.tags:
            yield "spread", receipt.tags[SPREAD]
        yield "frontier", f"{receipt.frontier:%Y-%m-%dT%H:%M:%SZ}" if receipt.frontier else "none"


def _inputs(report: DayReport) -> Iterator[tuple[str, str]]:
    """Yield one line per table and state: the days and the sum of their rows."""
    grouped: dict[tuple[str, str, bool], list[InputDay]] = defaultdict(list)
    for input_day in report.inputs:
        grouped[input_day.table, input_day.state.value, input_day.required].append(input_day)
    for (table, state, required), days in sorted(grouped.items()):
        rows, spans = (
            number(sum(d.rows or 0 for d in days)),
            text_of(contiguous(d.day for d in days)),
        )
        yield "from", f"{table} {spans}: {state}, {rows} rows{'' if required else ', not required'}"


def _landed(report: DayReport) -> Iterator[tuple[str, str]]:
    """Yield the first landed files, and the most frequent reasons of quarantine."""
    for part in report.files[:MOST_FILES]:
        bad = f", {number(part.bad_rows)} of them unusable" if part.bad_rows else ""
        bad += ", as its manifest declares" if part.as_declared else ""
        yield (
            "file",
            f"{part.path}{' (withdrawn)' if part.withdrawn else ''}: {number(part.rows)} rows of "
            f"the day{bad}",
        )
    if rest := report.files[MOST_FILES:]:
        rows = number(sum(part.rows for part in rest))
        yield "file", f"and {number(len(rest))} more with {rows} rows: see --json"
    found = kinds(report.quarantine)
    yield from (("refused", f"{number(count)} x {reason}") for reason, count in found.shown)
    if found.more_kinds:
        yield (
            "refused",
            f"{number(found.more_rows)} for {found.more_kinds} other reasons: see --json",
        )
