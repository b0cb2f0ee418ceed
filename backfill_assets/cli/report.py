"""`backfill-assets report`: the whole lake, as JSON or as a page.

Not here: gathering (`operations.report`, `orchestration.history`) and the page (`report_page`).
"""

from pathlib import Path

import click

from backfill_assets.cli.common import FILE, json_option, lake_option, opened, print_json
from backfill_assets.cli.pages import write_page
from backfill_assets.core.clock import utc_now


@click.command()
@click.option("--html", type=FILE, help="Write a page: one file, no network.")
@json_option
@lake_option
def report(html: Path | None, as_json: bool) -> None:
    """States of all days, what landed, lateness, durations, checks, runs and writes. No JVM starts."""
    from backfill_assets.operations.report import report as report_of

    if html is None and not as_json:
        raise click.UsageError("say where to: --html FILE, --json, or both")
    lake, pipeline = opened()
    gathered = report_of(lake, pipeline, utc_now())

    from backfill_assets.cli.dagster_home import instance_of, silenced
    from backfill_assets.lake.gates import ALL_CHECKS
    from backfill_assets.orchestration.history import history as history_of

    with silenced(), instance_of(lake) as instance:
        history = history_of(instance, str(lake.root), [t.name for t in pipeline.tables], tuple(ALL_CHECKS))
    if as_json:
        print_json({**gathered.to_dict(), "dagster": history.to_dict()})
    if html:
        from backfill_assets.cli.report_page import page

        write_page(html, page(gathered, history))
