"""`backfill-assets check-engine`: an independent opinion on days that were made, by the other engine.

Lives here: the command and how the opinion is drawn. Does not live here: forming it (`operations.check_engine`).
"""

from typing import TYPE_CHECKING

import click

from backfill_assets.cli.common import SPAN, json_option, lake_option, opened, print_json
from backfill_assets.cli.drawing import draw_table, number, say

if TYPE_CHECKING:
    from backfill_assets.core.days import DayRange
    from backfill_assets.lake.differences import SampleRow
    from backfill_assets.operations.check_engine import EngineReport

DAYS = ("table", "day", "rows before", "rows again", "added", "removed", "changed", "columns")
SAMPLES = ("day", "kind", "key", "written", "computed again")


@click.command("check-engine")
@click.option("--days", type=SPAN, help="Which days: A..B, both included, or one. [default: all that were made]")
@click.option("--tables", help="Which tables, comma-separated. [default: all]")
@click.option(
    "--engine", type=click.Choice(["sail", "embedded"]), help="Which engine. [default: the one the lake has not]"
)
@json_option
@lake_option
def check_engine(days: "DayRange | None", tables: str | None, engine: str | None, as_json: bool) -> None:
    """Compute days again on the other engine, from the inputs that their receipts name, and compare fingerprints.

    Nothing is committed; the other engine has a server of its own, which stops afterwards. Exit code 1 where a day
    differs, or a table could not be computed.
    """
    from backfill_assets.operations.check_engine import check_engine as opinion
    from backfill_assets.operations.check_engine import other_engine

    lake, pipeline = opened()
    wanted = None if tables is None else [t.strip() for t in tables.split(",") if t.strip()]
    report = opinion(lake, pipeline, days, wanted, engine or other_engine(lake))
    if as_json:
        print_json(report.to_dict())
    else:
        _draw(report)
    if report.differing or report.refused:
        click.get_current_context().exit(1)


def _sample(row: "SampleRow") -> list[str]:
    sides = (", ".join(f"{c}={v}" for c, v in side.items()) for side in (row.before, row.after))
    return [str(row.day), row.kind, row.key, *sides]


def _draw(report: "EngineReport") -> None:
    say(f"{report.engine}: {number(report.compared)} day(s) of tables computed again, {report.differing} differ")
    for verdict in report.verdicts:
        passed = [d for d in verdict.days if d.passed_over]
        for reason in dict.fromkeys(d.passed_over for d in passed):
            few = [d for d in passed if d.passed_over == reason]
            say(f"{verdict.table}: {len(few)} day(s) from {few[0].day} passed over: {reason}")
    rows = [
        [
            v.table, str(d.day), number(d.rows_before), number(d.rows_after), number(d.added), number(d.removed),
            number(d.changed), ", ".join(f"{c} {number(n)}" for c, n in d.columns.items()),
        ]
        for v in report.verdicts
        for d in v.differing
    ]  # fmt: skip
    if rows:
        draw_table(DAYS, rows)
        samples = [_sample(s) for v in report.verdicts for s in v.samples]
        draw_table(SAMPLES, samples, "rows that differ")
    for table, reason in report.refused:
        say(f"{table} was not computed: {reason}")
