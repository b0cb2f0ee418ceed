"""The plot of the report: how long writes take, per table, with the 95th percentile.

Lives here: one figure. Does not live here: making it inline (`lateness_plots`), the page (`report_page`).
"""

from collections.abc import Sequence
from math import floor, log10
from typing import TYPE_CHECKING

from backfill_assets.cli.lateness_plots import ACCENT, SECOND, no_ticks, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from backfill_assets.operations.report import LakeReport

INCHES_PER_TABLE = 0.36
MOST_TICKS = 6  # more would touch each other
LEAST_SECONDS = 0.01  # a logarithm has no zero
MARGIN = 1.15  # so that a dot on the edge is whole
NEWEST_WRITES = 500  # per table: more dots hide each other


def durations_figure(report: "LakeReport") -> dict[str, str]:
    """The figure by its name; empty where no write was measured."""
    if not report.durations:
        return {}
    height = 0.9 + INCHES_PER_TABLE * len(report.durations)
    return {"durations": svg("durations", _durations, report, height)}


def steps(seconds: Sequence[float]) -> list[float]:
    """Ticks of a logarithmic axis around these values: 1, 2 and 5 of each decade, fewer where these are too many.

    The first is at most the least value, the last at least the greatest: no dot without a number on both sides.
    """
    least = max(min(seconds), LEAST_SECONDS)
    greatest = max(*seconds, least)
    decades = range(floor(log10(least)) - 1, floor(log10(greatest)) + 2)
    told: list[float] = []
    for of_decade in ((1, 2, 5), (1,)):
        every = [round(digit * 10.0**power, 6) for power in decades for digit in of_decade]
        first = max(t for t in every if t <= least)
        last = min(t for t in every if t >= greatest and t > first)
        told = [t for t in every if first <= t <= last]
        if len(told) <= MOST_TICKS:
            break
    return told


def _durations(axes: "Axes", report: "LakeReport") -> None:
    for place, told in enumerate(reversed(report.durations)):
        seconds = [w.seconds for w in report.writes if w.table == told.table and w.seconds is not None]
        axes.plot(seconds[:NEWEST_WRITES], [place] * len(seconds[:NEWEST_WRITES]), "o", color=ACCENT, alpha=0.45, mew=0)
        axes.plot([told.p95], [place], "|", color=SECOND, ms=16, mew=2)
    axes.set_yticks(range(len(report.durations)), [d.table for d in reversed(report.durations)])
    axes.set_ylim(-0.6, len(report.durations) - 0.4)
    axes.set_xscale("log")
    ticks = steps([s for w in report.writes if (s := w.seconds) is not None])
    axes.set_xlim(ticks[0] / MARGIN, ticks[-1] * MARGIN)
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.xaxis.set_minor_locator(no_ticks())
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("seconds from the request to the commit")
