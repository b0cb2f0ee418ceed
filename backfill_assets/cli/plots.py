"""The plots of lateness, as SVG in the page's own colours, drawn by matplotlib without pyplot and its state.

Not here: the pages around them (`lateness`, `report_page`) and the numbers (`operations.lateness`).
"""

import io
import re
from collections.abc import Callable, Collection, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from backfill_assets.cli.pages import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from backfill_assets.operations.lateness import LatenessReport

# matplotlib wants fixed colours, the page has its own in light and dark: these stand for the page's variables.
INK, MUTED, GRID, ACCENT, SECOND = (f"#00000{n}" for n in range(1, 6))
VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--grid", ACCENT: "--accent", SECOND: "--second"}
WIDTH_INCHES, HEIGHT_INCHES = 4.6, 2.8  # letters as large as the page's on a wide screen, and legible on a phone
LATENESS = ("distribution", "late-share", "completeness", "look-back")
TICKS_DAYS = (0, 1, 2, 3, 7, 14, 30, 90, 180, 365, 730)
ROLLING_DAYS = 7  # a week: weekends deliver otherwise than workdays
DOTS_UP_TO = 400  # more days than that, and the dots hide the line
TYPE_POINTS = 11.0  # one size for all texts
STYLE = {
    "svg.fonttype": "none", "font.size": TYPE_POINTS, "font.family": "DejaVu Sans", "text.color": INK,
    "axes.titlesize": TYPE_POINTS, "xtick.labelsize": TYPE_POINTS, "ytick.labelsize": TYPE_POINTS,
    "axes.edgecolor": MUTED, "axes.labelcolor": MUTED, "xtick.color": MUTED, "ytick.color": MUTED,
    "grid.color": GRID, "axes.grid": True, "axes.axisbelow": True, "axes.spines.top": False,
    "axes.spines.right": False, "lines.linewidth": 1.8,
}  # fmt: skip


def lateness_figures(report: "LatenessReport", asked: Collection[str] = LATENESS) -> dict[str, Figure]:
    """Return the `asked` figures of a lateness report by name; a figure without numbers is left out."""
    late = "Dots are arrival days; the line is the mean of seven arrival days, weighted by rows."
    drawn: list[tuple[str, str, str, Callable[[Axes], None], object]] = [
        ("distribution", "Share of all loaded rows, by age at arrival",
         "Ages are whole days (UTC); the axis is logarithmic from one day on.",
         lambda axes: _distribution(axes, report), report.ages),
        ("late-share", "Late rows, by arrival day", late, lambda axes: _late_share(axes, report), report.by_arrival),
        ("completeness", "How complete an event day is, by age",
         "Each step from one age to the next counts only event days that are old enough to have been watched that "
         "long. Dashed: the wanted share.",
         lambda axes: _completeness(axes, report), report.completeness),
        ("look-back", "Rows missed, by look-back",
         "The band is Wilson’s 95 % interval of the share. Dashed: the share that may be missed.",
         lambda axes: _look_back(axes, report), report.ages),
    ]  # fmt: skip
    return {
        name: Figure(name, title, caption, svg(name, draw))
        for name, title, caption, draw, numbers in drawn
        if numbers and name in asked
    }


def svg(name: str, draw: "Callable[[Axes], None]") -> str:
    """Return the SVG element (see `inline`) of the figure that `draw` draws."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure as Canvas

    style: Any = {**STYLE, "svg.hashsalt": name}
    with rc_context(style):
        figure = Canvas(figsize=(WIDTH_INCHES, HEIGHT_INCHES), layout="constrained")
        draw(figure.add_subplot())
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return inline(name, drawn.getvalue())


def inline(name: str, svg: str) -> str:
    """Return an SVG document as an element of a page: without prolog, namespaces and metadata; ids begin with `name`.

    Stand-in colours become variables of the page.
    """
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    head, body = svg.split(">", 1)
    view = re.search(r'viewBox="[^"]*"', head)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", body)
    for colour, variable in VARIABLES.items():
        body = body.replace(colour, f"var({variable})")
    return f'<svg {view.group() if view else ""} role="img" aria-labelledby="{name}-caption">{body.strip()}'


def _distribution(axes: "Axes", report: "LatenessReport") -> None:
    ages, end = [a for a, _ in report.ages], max(report.ages[-1][0], 1)
    shares = [n / report.rows for n in accumulate(n for _, n in report.ages)]
    _steps(axes, [*ages, end], [*shares, shares[-1]])
    _days_axis(axes, end, "age of a row when it arrived, days")
    _percent_axis(axes, "of all rows")
    reached = {next(a for a, s in zip(ages, shares, strict=True) if s >= wanted): wanted for wanted in (0.5, 0.9, 0.99)}
    for place, (age, wanted) in enumerate(reached.items()):
        _mark(axes, age, wanted, 0.27 - 0.1 * place)


def _late_share(axes: "Axes", report: "LatenessReport") -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    days: list[Any] = [d.day for d in report.by_arrival]
    late, rows = [d.late for d in report.by_arrival], [d.spread.rows for d in report.by_arrival]
    if len(days) <= DOTS_UP_TO:
        axes.plot(days, [a / b for a, b in zip(late, rows, strict=True)], "o", ms=3.5, color=SECOND, alpha=0.45, mew=0)
    first = [max(i - ROLLING_DAYS + 1, 0) for i in range(len(days))]
    axes.plot(days, [sum(late[f : i + 1]) / sum(rows[f : i + 1]) for i, f in enumerate(first)], color=ACCENT)
    make_locator: Any = AutoDateLocator  # these two have no types
    make_formatter: Any = ConciseDateFormatter
    locator = make_locator(minticks=2, maxticks=5)  # more dates would touch each other
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(make_formatter(locator))
    _percent_axis(axes, "of the day's rows")


def _completeness(axes: "Axes", report: "LatenessReport") -> None:
    ages, shares = [a.age_days for a in report.completeness], [a.share for a in report.completeness]
    _steps(axes, ages, shares)
    _days_axis(axes, max(ages[-1], 1), "days after the event day")
    _percent_axis(axes, "of an event day's rows")
    axes.axhline(report.asked.share, color=SECOND, lw=1, ls="--")
    if report.age_days is not None:
        _mark(axes, report.age_days, report.asked.share)


def _look_back(axes: "Axes", report: "LatenessReport") -> None:
    days = [a.days for a in report.advice]
    low, high = [a.interval.low for a in report.advice], [a.interval.high for a in report.advice]
    axes.fill_between(days, low, high, step="mid", color=ACCENT, alpha=0.22, lw=0)
    axes.step(days, [a.share for a in report.advice], where="mid", color=ACCENT)
    axes.set_xlim(1, days[-1])
    axes.set_xticks([1, *(d for d in (14, 30, 45, 60, 75, 90) if d <= days[-1])])
    axes.set_xlabel("look-back, days reprocessed every night")
    _percent_axis(axes, "of all rows missed", top=None)
    axes.axhline(1 - report.asked.share, color=SECOND, lw=1, ls="--")


def _steps(axes: "Axes", x: Sequence[int], y: Sequence[float]) -> None:
    axes.step(x, y, where="post", color=ACCENT)
    axes.fill_between(x, y, step="post", color=ACCENT, alpha=0.12, lw=0)


def _mark(axes: "Axes", age_days: int, share: float, height: float = 0.07) -> None:
    """Mark the age by which a share has arrived: a dot, a line down to the axis, and a text beside it at `height`."""
    axes.plot([age_days, age_days], [0, share], color=ACCENT, lw=0.9, ls=":")
    axes.plot([age_days], [share], "o", color=ACCENT, ms=5, clip_on=False)
    by = f"by {age_days} d" if age_days else "the same day"
    is_right = age_days**2 >= axes.get_xlim()[1]  # the axis is logarithmic: this is about its middle
    text, side = f"{share * 100:g}% {by}", ("right" if is_right else "left")
    beside: Any = {"xytext": (-5 if is_right else 5, 0), "textcoords": "offset points", "ha": side, "va": "center"}
    axes.annotate(text, (age_days, height), **beside).set_in_layout(False)


def _days_axis(axes: "Axes", end: int, label: str) -> None:
    """Ages: linear up to a day, logarithmic from there, with the steps people plan in."""
    from matplotlib.ticker import NullLocator

    axes.set_xscale("symlog", linthresh=1, linscale=0.6)
    axes.set_xticks([t for t in TICKS_DAYS if t <= end], minor=False)
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(0, end)
    axes.set_xlabel(label)


def _percent_axis(axes: "Axes", label: str, top: float | None = 1.03) -> None:
    from matplotlib.ticker import PercentFormatter

    axes.set_ylim(0, top)
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=None))
    axes.grid(visible=False, axis="x")
    axes.set_title(label, loc="left", color=MUTED)
