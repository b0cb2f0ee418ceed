"""The report of a lake as one page: HTML with its pictures inside, no script, nothing fetched from anywhere.

Lives here: filling the template. Does not live here: the template itself (`templates/report.html.j2`), the grid
(`report_grid`), the plots, and the numbers (`operations.report`, `orchestration.history`).
"""

from collections import Counter
from typing import TYPE_CHECKING

from backfill_assets.cli.pages import drawn, environment

if TYPE_CHECKING:
    from backfill_assets.operations.report import LakeReport
    from backfill_assets.orchestration.history import History

MOST_NEEDING, MOST_WRITES, MOST_RUNS, MOST_WRONG = 60, 40, 30, 5
FIGURES = ("late-share", "completeness")


def page(report: "LakeReport", history: "History") -> str:
    """The page as one self-contained HTML document, for screens light and dark and for paper."""
    from backfill_assets.cli.lateness_plots import figures
    from backfill_assets.cli.report_grid import grid, legend, needing
    from backfill_assets.cli.report_plots import durations_figure
    from backfill_assets.core.lateness import told
    from backfill_assets.core.states import State
    from backfill_assets.operations.reasons import kinds

    late = report.lateness
    stretches, left_out = needing(report.status, MOST_NEEDING)
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            report=report,
            history=history,
            counts=Counter(day.state.value for day in report.status),
            months=grid(report.status),
            legend=legend(),
            needing=stretches,
            left_out=left_out,
            deliveries=[
                (name, told.account, kinds(told.quarantine), list(told.account.wrong.items())[:MOST_WRONG])
                for name, told in (report.delivered.sources or {"": report.delivered}).items()
            ],
            stale={name: sum(d.state is State.STALE for d in days) for name, days in report.status.tables.items()},
            plots=drawn({**(figures(late, FIGURES) if late else {}), **durations_figure(report)}),
            completeness=told(late.completeness) if late else (),
            checks=_checks(history),
            writes=report.writes[:MOST_WRITES],
            runs=history.runs[:MOST_RUNS],
        )
    )


def _checks(history: "History") -> dict[str, dict[str, tuple[int, int] | None]]:
    """Per table and check (passed, found), or None where Dagster remembers no verdict; the same checks for each."""
    known = {(c.table, c.check): (c.passed, c.found) for c in history.checks}
    tables, names = dict.fromkeys(c.table for c in history.checks), dict.fromkeys(c.check for c in history.checks)
    return {table: {name: known.get((table, name)) for name in names} for table in tables}
