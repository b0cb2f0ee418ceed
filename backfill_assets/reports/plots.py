"""The plots of pages (lateness, drift, checks), as SVG in the page's own colours, drawn by
matplotlib without pyplot.

Not here: the pages around them (`lateness`, `checks`, `report_page`) and the numbers
(`reports.lateness`).
"""

import io
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any

from backfill_assets.cli.drawing import Figure
from backfill_assets.kernel.core.days import DayRange, contiguous_ranges
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.profiles import LARGE_DRIFT
from backfill_assets.reading.check_history import CheckHistory, ColumnDrift, DriftReport
from backfill_assets.reports.lateness import LatenessReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# matplotlib wants fixed colours, the page has its own in light and dark: these stand for the page's
# variables.
INK, MUTED, GRID, ACCENT, SECOND = (f"#00000{n}" for n in range(1, 6))
VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--grid", ACCENT: "--accent", SECOND: "--second"}
WIDTH_INCHES, HEIGHT_INCHES = (
    4.6,
    2.8,
)  # letters as large as the page's on a wide screen, and legible on a phone
TICKS_DAYS = (0, 1, 2, 3, 7, 14, 30, 90, 180, 365, 730)
MOST_COLUMNS = 6
YEAR_DAYS, WEEK_DAYS = 366, 7
TYPE_POINTS = 11.0  # one size for all texts
STYLE = {
    "svg.fonttype": "none",
    "font.size": TYPE_POINTS,
    "font.family": "DejaVu Sans",
    "text.color": INK,
    "axes.titlesize": TYPE_POINTS,
    "xtick.labelsize": TYPE_POINTS,
    "ytick.labelsize": TYPE_POINTS,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "grid.color": GRID,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.8,
}


def lateness_figures(report: LatenessReport) -> list[Figure]:
    """Return the figure of completeness by age; none where too few days were watched."""
    if not report.completeness:
        return []
    drawn = svg_figure("completeness", partial(_draw_completeness, report=report))
    caption = (
        "Each step from one age to the next counts only event days that are old enough to have "
        "been watched that long."
    )
    return [
        Figure(
            name="completeness",
            title="How complete an event day is, by age",
            caption=caption,
            svg=drawn,
        )
    ]


def drift_figures(report: "DriftReport") -> list[Figure]:
    """Return a figure for each of the columns that are off most, at most `MOST_COLUMNS`."""
    off_most = [*dict.fromkeys((d.table, d.column) for d in report.off)][:MOST_COLUMNS]
    figures = list[Figure]()
    for table, column in off_most:
        found = [d for d in report.found if (d.table, d.column) == (table, column)]
        found.sort(key=lambda d: d.day)
        name = f"drift-{len(figures)}"
        caption = (
            f"Against the 28 days before; dotted: the bound of {LARGE_DRIFT:g}; dots: days that "
            "are off. A day of few rows may lie above the bound by chance."
        )
        drawn = svg_figure(name, partial(_draw_drift, found=found))
        figures.append(Figure(name, f"Drift of {column} in {table}", caption, drawn))
    return figures


def check_figure(histories: Sequence["CheckHistory"]) -> Figure | None:
    """Return the figure of the days on which checks do not pass; None where all pass. Beyond a year
    a mark is a week, so that years of many tables stay some thousand marks."""
    shown = [h for h in histories if h.found]
    if not shown:
        return None
    days = [f.day for h in shown for f in h.found]
    step = 1 if (max(days) - min(days)).days <= YEAR_DAYS else WEEK_DAYS
    mark = "week with such a day" if step > 1 else "day"
    caption = f"A mark is a {mark}: thin where a check warns, full where the gates of today refuse."
    height = 0.8 + 0.24 * len(shown)
    drawn = svg_figure("checks", partial(_draw_checks, shown=shown, step=step), height)
    return Figure(
        name="checks", title="Days on which a check does not pass", caption=caption, svg=drawn
    )


def svg_figure(
    name: str, draw: "Callable[[Axes], None]", height_inches: float = HEIGHT_INCHES
) -> str:
    """Return the SVG element (see `inline_svg`) of the figure that `draw` draws. Raises
    BackfillError where the package matplotlib is missing."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        raise BackfillError(
            "the pictures of this page",
            "the package matplotlib is not installed",
            "No page was written",
            "Run `pip install 'backfill-assets[pictures]'`",
        ) from None
    style: Any = {**STYLE, "svg.hashsalt": name}
    with rc_context(style):
        figure = Canvas(figsize=(WIDTH_INCHES, height_inches), layout="constrained")
        draw(figure.add_subplot())
        drawn = io.StringIO()
        figure.savefig(
            drawn, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
    return inline_svg(name, drawn.getvalue())


def inline_svg(name: str, svg: str) -> str:
    """Return an SVG document as an element of a page: without prolog, namespaces and metadata; ids
    begin with `name`.

    Stand-in colours become variables of the page.
    """
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    head, body = svg.split(">", 1)
    view = re.search(r'viewBox="[^"]*"', head)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", body)
    for colour, variable in VARIABLES.items():
        body = body.replace(colour, f"var({variable})")
    return (
        f'<svg {view.group() if view else ""} role="img" '
        f'aria-labelledby="{name}-caption">{body.strip()}'
    )


def _draw_completeness(axes: "Axes", report: LatenessReport) -> None:
    """Draw shares of rows over ages in days; a dot, a line down and a text at the age with the
    wanted share."""
    from matplotlib.ticker import NullLocator, PercentFormatter

    ages = [aged.age_days for aged in report.completeness]
    shares = [aged.share for aged in report.completeness]
    last_age = max(ages[-1], 1)
    # A step is drawn from its age to the next, so that the last one needs an end.
    ages.append(last_age)
    shares.append(shares[-1])
    axes.step(ages, shares, where="post", color=ACCENT)
    axes.fill_between(ages, shares, step="post", color=ACCENT, alpha=0.12, lw=0)
    # Linear up to a day, logarithmic from there.
    axes.set_xscale("symlog", linthresh=1, linscale=0.6)
    axes.set_xticks([t for t in TICKS_DAYS if t <= last_age], minor=False)
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(0, last_age)
    axes.set_xlabel("days after the event day")
    axes.set_ylim(0, 1.03)
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=None))
    axes.grid(visible=False, axis="x")
    axes.set_title("of the rows", loc="left", color=MUTED)
    if report.age_days is not None:
        _mark_age(axes, report.age_days, report.scope.share, last_age)


def _mark_age(axes: "Axes", age: int, share: float, last_age: int) -> None:
    """Draw a dot, a line down and a text at the age by which the wanted share has arrived."""
    axes.plot([age, age], [0, share], color=SECOND, lw=0.9, ls=":")
    axes.plot([age], [share], "o", color=SECOND, ms=5, clip_on=False)
    is_in_right_half = age**2 >= last_age  # the axis is logarithmic: this is about its middle
    beside: Any = {"textcoords": "offset points", "va": "center", "ha": "left", "xytext": (5, 0)}
    if is_in_right_half:
        beside |= {"ha": "right", "xytext": (-5, 0)}
    when = f"by {age} d" if age else "the same day"
    axes.annotate(f"{share * 100:g}% {when}", (age, 0.27), **beside).set_in_layout(False)


def _draw_drift(axes: "Axes", found: Sequence["ColumnDrift"]) -> None:
    """Draw the index of each day against the days before as a line, the bound, and a dot for each
    day that is off."""
    compared = [drift for drift in found if drift.trailing is not None]
    days: list[Any] = [drift.day for drift in compared]
    indexes: list[Any] = [drift.trailing for drift in compared]
    axes.plot(days, indexes, color=ACCENT, lw=1.0)
    axes.axhline(LARGE_DRIFT, color=SECOND, lw=0.9, ls=":")
    off = [drift for drift in found if drift.excess]
    heights = [max(d.trailing or 0.0, d.before or 0.0) for d in off]
    off_days: list[Any] = [drift.day for drift in off]
    axes.plot(off_days, heights, "o", color=SECOND, ms=4, clip_on=False)
    axes.set_title("population stability index", loc="left", color=MUTED)
    _label_months(axes)


def _draw_checks(axes: "Axes", shown: Sequence["CheckHistory"], step: int) -> None:
    """Draw a line of marks per check, the first on top: refusals tall and in ink, warnings low.
    `step`: the days that one mark stands for, 1 or 7."""
    from matplotlib.dates import date2num

    looks = ((False, 0.35, SECOND), (True, 0.8, INK))  # refuses, height of a mark, its colour
    for place, h in enumerate(reversed(shown)):
        for refuses, height, colour in looks:
            days = [f.day for f in h.found if f.refuses == refuses]
            spans = _stretches_of_marks(days, step)
            marks = [(float(date2num(s.start)), float(len(s))) for s in spans]  # type: ignore[no-untyped-call]
            axes.broken_barh(marks, (place - height / 2, height), color=colour, lw=0)
    axes.set_yticks(range(len(shown)), [f"{h.table} {h.check}" for h in reversed(shown)])
    axes.grid(visible=False, axis="y")
    _label_months(axes)


def _stretches_of_marks(days: Iterable[date], step: int) -> list[DayRange]:
    """Return the stretches of days that marks cover: each of `days` with all days of its mark,
    which is `step` days long."""
    covered = set[date]()
    for day in days:
        first = day.toordinal() // step * step
        covered.update(date.fromordinal(first + i) for i in range(step))
    return contiguous_ranges(covered)


def _label_months(axes: "Axes") -> None:
    """Label the axis of days by months or years, whichever leaves at most six labels."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator: Any = AutoDateLocator(minticks=2, maxticks=6)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
