"""The plot of the report: how long writes take, per table, with the 95th percentile.

Lives here: one figure. Does not live here: making it inline (`lateness_plots`), the page (`report_page`).
"""

from typing import TYPE_CHECKING

from backfill_assets.cli.lateness_plots import ACCENT, MUTED, SECOND, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from backfill_assets.operations.report import LakeReport

INCHES_PER_TABLE = 0.42
NEWEST_WRITES = 500  # per table: more dots hide each other


def durations_figure(report: "LakeReport") -> dict[str, str]:
    """The figure by its name; empty where no write was measured."""
    if not report.durations:
        return {}
    height = 0.9 + INCHES_PER_TABLE * len(report.durations)
    return {"durations": svg("durations", _durations, report, height)}


def _durations(axes: "Axes", report: "LakeReport") -> None:
    for place, told in enumerate(reversed(report.durations)):
        seconds = [w.seconds for w in report.writes if w.table == told.table and w.seconds is not None]
        axes.plot(seconds[:NEWEST_WRITES], [place] * len(seconds[:NEWEST_WRITES]), "o", color=ACCENT, alpha=0.45, mew=0)
        axes.plot([told.p95], [place], "|", color=SECOND, ms=16, mew=2)
    axes.set_yticks(range(len(report.durations)), [d.table for d in reversed(report.durations)])
    axes.set_ylim(-0.6, len(report.durations) - 0.4)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("{x:g}")
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("seconds from being asked for to the commit")
    axes.set_title("a dot is a write, the bar the 95th percentile", loc="left", fontsize=9, color=MUTED)
