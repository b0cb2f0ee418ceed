"""The lateness report as one page: HTML with its plots inside, no script, nothing fetched from anywhere.

Lives here: filling the template. Does not live here: the template itself (`templates/lateness.html.j2`), the plots
(`lateness_plots`), and the numbers (`operations.lateness`).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backfill_assets.operations.lateness import LatenessReport

TOLD_LOOK_BACKS = (1, 2, 3, 5, 7, 10, 14, 21, 30, 45, 60, 75, 90)


def page(report: "LatenessReport") -> str:
    """The page as one self-contained HTML document, for screens light and dark and for paper."""
    from backfill_assets.cli.lateness_plots import figures
    from backfill_assets.cli.pages import drawn, environment
    from backfill_assets.core.lateness import told

    return (
        environment()
        .get_template("lateness.html.j2")
        .render(
            report=report,
            plots=drawn(figures(report)),
            completeness=told(report.completeness),
            look_backs=[a for a in report.advice if a.days in (*TOLD_LOOK_BACKS, report.look_back_days)],
            distribution=_distribution(report),
        )
    )


def _distribution(report: "LatenessReport") -> list[tuple[int, int, float]]:
    """(age in days, rows of that age or less, their share) for the ages that people are told, up to the greatest."""
    from backfill_assets.cli.lateness_plots import TICKS_DAYS

    greatest = report.ages[-1][0] if report.ages else 0
    shown = sorted({*(t for t in TICKS_DAYS if t < greatest), greatest})
    within = [(age, sum(n for a, n in report.ages if a <= age)) for age in shown]
    return [(age, rows, rows / report.rows) for age, rows in within if report.rows]
