"""`backfill-assets show TABLE DAY`: everything about one day of one table.

Not here: collecting it (`operations.show`).
"""

from collections import defaultdict
from datetime import date
from typing import TYPE_CHECKING

import click

from backfill_assets.cli.common import DAY, json_option, lake_option, opened, print_json, usage
from backfill_assets.cli.drawing import draw_table, number, say, text_of
from backfill_assets.core.days import contiguous
from backfill_assets.core.ownership import BY

if TYPE_CHECKING:
    from backfill_assets.operations.show import DayReport, DayWrite, InputDay

HANG = 12  # characters: where the facts begin
MOST_FILES = 10


@click.command()
@click.argument("table")
@click.argument("day", type=DAY)
@json_option
@lake_option
def show(table: str, day: date, as_json: bool) -> None:
    """Receipt, inputs, landed files, quarantine and history of DAY (YYYY-MM-DD) of TABLE."""
    from backfill_assets.operations.show import find
    from backfill_assets.operations.show import show as report_of

    lake, pipeline = opened()
    with usage():
        find(lake, pipeline, table, day)
    report = report_of(lake, pipeline, table, day)
    if as_json:
        print_json(report)
        return
    click.echo(f"{table} {day}: {report.state.value}")
    for reason in report.reasons:
        say(f"  because   {reason}", HANG)
    if report.will_change:
        say("  but       it will change: it is made from days that need making", HANG)
    if report.history:
        _draw_receipt(report.history[0], day)
    _draw_inputs(report)
    _draw_landed(report)
    if len(report.history) > 1:
        rows = [_history_row(w, day) for w in report.history]
        draw_table(["version", "at", "rows", "fingerprint", "reason", "run", "note"], rows, "history, newest first")


def _draw_receipt(written: "DayWrite", day: date) -> None:
    said, entry = written.receipt, written.receipt.days[day]
    # Below version 0 an input did not exist yet.
    read = ", ".join(f"{name} v{v}" if v >= 0 else f"{name} (not there yet)" for name, v in said.inputs.items())
    facts = {
        "rows": f"{number(entry.rows)}, built {entry.built.value}",
        "content": f"fingerprint {entry.fingerprint}",
        "written": f"{written.at:%Y-%m-%d %H:%M:%SZ} as version {written.version}, with {len(said.days)} day(s)",
        "reason": said.reason + (f": {said.note}" if said.note else ""),
        "run": said.run_id,
        "by": said.tags.get(BY, ""),
        "inputs": f"{read or 'landed files'}; digest {entry.input_digest}",
        "code": f"{said.code_digest}, settings {said.settings_digest}",
        "frontier": f"{said.frontier:%Y-%m-%dT%H:%M:%SZ}" if said.frontier else "none",
    }
    for name, text in facts.items():
        if text:
            say(f"  {name:9s} {text}", HANG)


def _draw_inputs(report: "DayReport") -> None:
    """Draw one line per table and state: the days and the sum of their rows."""
    grouped: dict[tuple[str, str, bool], list[InputDay]] = defaultdict(list)
    for found in report.inputs:
        grouped[found.table, found.state.value, found.required].append(found)
    for (table, state, required), days in sorted(grouped.items()):
        rows = number(sum(d.rows or 0 for d in days))
        spans = text_of(contiguous(d.day for d in days))
        say(f"  from      {table} {spans}: {state}, {rows} rows{'' if required else ', not required'}", HANG)


def _draw_landed(report: "DayReport") -> None:
    from backfill_assets.operations.rejected import kinds

    for part in report.files[:MOST_FILES]:
        bad = f", {number(part.bad_rows)} of them unusable" if part.bad_rows else ""
        gone = " (withdrawn)" if part.withdrawn else ""
        say(f"  file      {part.path}{gone}: {number(part.rows)} rows of the day{bad}", HANG)
    if len(report.files) > MOST_FILES:
        rows = sum(part.rows for part in report.files[MOST_FILES:])
        say(f"  file      and {number(len(report.files) - MOST_FILES)} more with {number(rows)} rows: see --json", HANG)
    found = kinds(dict(report.quarantine))
    for reason, count in found.shown:
        say(f"  refused   {number(count)} x {reason}", HANG)
    if found.more_kinds:
        say(f"  refused   {number(found.more_rows)} for {found.more_kinds} other reasons: see --json", HANG)


def _history_row(written: "DayWrite", day: date) -> tuple[object, ...]:
    said, entry, version = written.receipt, written.receipt.days[day], str(written.version)
    return version, written.at, entry.rows, entry.fingerprint, said.reason, said.run_id[:8], said.note
