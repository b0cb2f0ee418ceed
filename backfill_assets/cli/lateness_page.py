"""The lateness report as one page: HTML with its plots inside, no script, nothing fetched from anywhere.

Lives here: filling the template. Does not live here: the template itself (`templates/lateness.html.j2`), the plots
(`lateness_plots`), and the numbers (`operations.lateness`). Whatever text comes from a lake is escaped, and the page's
own policy forbids what an escape that was forgotten could do.
"""

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backfill_assets.operations.lateness import LatenessReport

TEMPLATE = "templates/lateness.html.j2"
TOLD_LOOK_BACKS = (1, 2, 3, 5, 7, 10, 14, 21, 30, 45, 60, 75, 90)


def page(report: "LatenessReport") -> str:
    """The page as one self-contained HTML document, for screens light and dark and for paper."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    from backfill_assets.cli.lateness import percent, span, wanted
    from backfill_assets.cli.lateness_plots import figures
    from backfill_assets.core.lateness import told
    from backfill_assets.operations.lateness import DAY_S, in_days

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(
        percent=percent, wanted=wanted, span=span, number="{:,}".format, days=in_days, seconds=lambda s: span(s / DAY_S)
    )
    template = environment.from_string((files("backfill_assets.cli") / TEMPLATE).read_text(encoding="utf-8"))
    return template.render(
        report=report,
        # The only text that is not escaped: drawn by us from numbers and days.
        plots={name: Markup(svg) for name, svg in figures(report).items()},  # noqa: S704
        completeness=told(report.completeness),
        look_backs=[a for a in report.advice if a.days in (*TOLD_LOOK_BACKS, report.look_back_days)],
        distribution=_distribution(report),
    )


def _distribution(report: "LatenessReport") -> list[tuple[int, int, float]]:
    """(age in days, rows of that age or less, their share) for the ages that people are told, up to the greatest."""
    from backfill_assets.cli.lateness_plots import TICKS_DAYS

    greatest = report.ages[-1][0] if report.ages else 0
    shown = sorted({*(t for t in TICKS_DAYS if t < greatest), greatest})
    within = [(age, sum(n for a, n in report.ages if a <= age)) for age in shown]
    return [(age, rows, rows / report.rows) for age, rows in within if report.rows]
