"""What a write changed, in a few lines of Markdown: rows and columns of the days that had rows before.

Lives here: the text, and where it is not worth the reading. Does not live here: comparing (`compare`), and where it is
shown (`orchestration.metadata`). It is told after the commit, so that it never fails one.
"""

from collections.abc import Collection
from datetime import date

from backfill_assets.core.days import from_inclusive
from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.operations.compare import CompareReport, CompareRequest, Moment, compare

LISTED_DAYS = 14
MOST_BYTES = 128 * 2**20  # of what stands there now: both sides are read once, some hundred MB a second


def short_compare(lake: Lake, pipeline: Pipeline, table: str, days: Collection[date], version: int, size: int) -> str:
    """The days (not empty) of a table at a version (> 0) against the version before; `size` are their bytes now.

    Above 128 MiB only the command that compares is told.
    """
    span = from_inclusive(min(days), max(days))
    command = (
        f"`backfill-assets compare --table {table} --days {span.start}..{span.last} --from-version {version - 1} "
        f"--to-version {version}`"
    )
    if size > MOST_BYTES:
        return f"Not compared here, for its size ({size / 2**20:.0f} MiB): {command}"
    try:
        request = CompareRequest(table, span, samples=0)
        report = compare(pipeline, request, Moment(lake, version - 1), Moment(lake, version))
    except BackfillError as error:
        return f"Not compared: {error}"
    return "\n".join([*_lines(report), "", f"With samples: {command}"])


def _lines(report: CompareReport) -> list[str]:
    added, removed, changed = (f"{report.total(n):,}" for n in ("added", "removed", "changed"))
    differing = report.differing
    head = (
        f"Version {report.before} to {report.after}: {len(differing)} of {len(report.days)} day(s) differ: "
        f"{added} row(s) added, {removed} removed, {changed} changed."
    )
    if not differing:
        return [head]
    lines = [head, "", "| day | added | removed | changed | columns |", "|---|---:|---:|---:|---|"]
    for d in differing[:LISTED_DAYS]:
        columns = ", ".join(f"{c} {n:,}" for c, n in d.columns.items())
        lines.append(f"| {d.day} | {d.added:,} | {d.removed:,} | {d.changed:,} | {columns or '–'} |")
    if len(differing) > LISTED_DAYS:
        lines.append(f"| … {len(differing) - LISTED_DAYS} more | | | | |")
    drifted = [f"{c.column} ({c.drift:.2f})" for c in report.columns if c.is_large]
    return [*lines, *(["", f"Drifted (population stability index): {', '.join(drifted)}."] if drifted else [])]
