"""`backfill-assets compare`: days of a table at two versions, two times, or in two lakes.

Not here: finding the differences (`operations.compare`).
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from backfill_assets.cli.common import SPAN, json_option, lake_option, opened, print_json
from backfill_assets.cli.drawing import TextTable, number, say
from backfill_assets.cli.pages import Page, PageSection, write_page

if TYPE_CHECKING:
    from backfill_assets.lake.differences import SampleRow
    from backfill_assets.lake.home import Lake
    from backfill_assets.operations.compare import CompareReport, Moment

INSTANT = click.DateTime(["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%MZ", "%Y-%m-%d"])
VERSION = click.IntRange(min=0)
FILE = click.Path(dir_okay=False, path_type=Path)
DAYS = ("day", "rows before", "rows after", "added", "removed", "changed", "columns")
COLUMNS = ("column", "changed values", "drift", "")
SAMPLES = ("day", "kind", "key", "before", "after")


@click.command()
@click.option("--table", required=True, help="Which table.")
@click.option("--days", type=SPAN, required=True, help="Which days: A..B, both included, or one.")
@click.option("--from-version", type=VERSION, help="The table's version before.")
@click.option("--to-version", type=VERSION, help="The version after. [default: the newest]")
@click.option("--from-time", type=INSTANT, help="As it was then (UTC), instead of a version.")
@click.option("--to-time", type=INSTANT, help="As it was then (UTC).")
@click.option("--other-lake", type=click.Path(path_type=Path), help="Before is this lake, after is that one.")
@click.option("--meant", help="Columns that were meant to change, comma-separated; others that did are named.")
@click.option("--seed", type=int, default=0, help="Which rows are drawn as samples. [default: 0]")
@click.option("--html", type=FILE, help="Write a page: one file, no network.")
@json_option
@lake_option
def compare(html: Path | None, as_json: bool, **asked: Any) -> None:
    """Rows added, removed and changed, per day and by column, with samples and the drift of every column.

    Drift is the population stability index. Exit code 1 where a column changed that was not --meant to. No JVM.
    """
    from backfill_assets.operations.compare import CompareRequest
    from backfill_assets.operations.compare import compare as compare_of

    lake, pipeline = opened()
    meant = None if asked["meant"] is None else [c.strip() for c in asked["meant"].split(",") if c.strip()]
    wanted = CompareRequest(asked["table"], asked["days"], meant, asked["seed"])
    report = compare_of(pipeline, wanted, *_moments(lake, **asked))
    if html:
        lines = [_headline(report), *_unmeant(report)]
        write_page(html, Page("compare", f"{report.table} {report.days}", str(lake.root), _sections(report), lines))
    if as_json:
        print_json(report.to_dict())
    elif not html:
        _draw(report)
    if report.unmeant:
        click.get_current_context().exit(1)


def _moments(lake: "Lake", **asked: Any) -> "tuple[Moment, Moment]":
    from backfill_assets.lake.home import open_lake
    from backfill_assets.operations.compare import Moment

    for side in ("from", "to"):
        if asked[f"{side}_version"] is not None and asked[f"{side}_time"] is not None:
            raise click.UsageError(f"--{side}-version and --{side}-time say the same: give one of them.")
    other = asked["other_lake"]
    if other is None and asked["from_version"] is None and asked["from_time"] is None:
        raise click.UsageError("say what to compare with: --from-version, --from-time or --other-lake.")
    after = lake if other is None else open_lake(other)
    return (
        Moment(lake, asked["from_version"], _utc(asked["from_time"])),
        Moment(after, asked["to_version"], _utc(asked["to_time"])),
    )


def _utc(typed: datetime | None) -> datetime | None:
    return typed.replace(tzinfo=UTC) if typed is not None else None


def _headline(report: "CompareReport") -> str:
    added, removed, changed = (number(report.total(n)) for n in ("added", "removed", "changed"))
    return (
        f"{report.table} {report.days}, version {report.before} to {report.after}: {len(report.differing)} of "
        f"{len(report.days)} day(s) differ: {added} row(s) added, {removed} removed, {changed} changed"
    )


def _days(report: "CompareReport") -> list[list[str]]:
    return [
        [
            str(d.day), number(d.rows_before), number(d.rows_after), number(d.added), number(d.removed),
            number(d.changed), ", ".join(f"{c} {number(n)}" for c, n in d.columns.items()),
        ]
        for d in report.differing
    ]  # fmt: skip


def _columns(report: "CompareReport") -> list[list[str]]:
    said = [(c, [w for w, holds in (("large", c.is_large), ("not meant", bool(c.changed and not c.is_meant))) if holds])
            for c in report.columns]  # fmt: skip
    return [[c.column, number(c.changed), f"{c.drift:.3f}", ", ".join(words)] for c, words in said]


def _sample(row: "SampleRow") -> list[str]:
    before, after = (", ".join(f"{c}={v}" for c, v in side.items()) for side in (row.before, row.after))
    return [str(row.day), row.kind, row.key, before, after]


def _sections(report: "CompareReport") -> list[PageSection]:
    drift = "columns over all days; drift is the population stability index"
    samples = [_sample(s) for s in report.samples]
    return [
        PageSection("Days that differ", [TextTable(DAYS, _days(report))]),
        PageSection("Columns", [TextTable(COLUMNS, _columns(report), drift)]),
        PageSection("Rows that differ", [TextTable(SAMPLES, samples, "rows that differ, drawn by --seed")]),
    ]


def _unmeant(report: "CompareReport") -> list[str]:
    return [f"Not meant to change and changed all the same: {', '.join(report.unmeant)}"] if report.unmeant else []


def _draw(report: "CompareReport") -> None:
    say(_headline(report))
    for section in _sections(report) if report.differing else ():
        section.draw()
    for line in _unmeant(report):
        say(line)
