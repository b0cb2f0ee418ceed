"""The plots of the lateness page, as SVG that follows the page's colours.

Lives here: four figures and what makes them inline: no fixed colours, no references to elsewhere, ids of their own.
Does not live here: the page around them (`lateness_page`). They draw with matplotlib's objects, never with pyplot,
which keeps state and looks for a screen.
"""

import io
import re
from collections.abc import Callable, Collection, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from backfill_assets.operations.lateness import LatenessReport

# Stand-ins: matplotlib wants fixed colours, the page wants its own in light and dark. Black to the eye of nobody.
INK, MUTED, GRID, ACCENT, SECOND = (f"#00000{n}" for n in range(1, 6))
VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--grid", ACCENT: "--accent", SECOND: "--second"}
SIZE_INCHES = (4.6, 2.8)  # letters as large as the page's on a wide screen, and still legible on a phone
TICKS_DAYS = (0, 1, 2, 3, 7, 14, 30, 90, 180, 365, 730)
ROLLING_DAYS = 7  # a week: weekends deliver otherwise than workdays
DOT_SIZES = 5
DOTS_UP_TO = 400  # more days than that, and the dots hide the line
ROOM_FOR_TEXT = 0.85  # of the width: a name to the right of a dot beyond would leave the figure
TYPE_POINTS = 11.0  # one size for all that is written
MOST_DATES = 5  # along an axis: more would touch each other
STYLE = {
    "svg.fonttype": "none", "font.size": TYPE_POINTS, "font.family": "DejaVu Sans", "text.color": INK,
    "axes.titlesize": TYPE_POINTS, "xtick.labelsize": TYPE_POINTS, "ytick.labelsize": TYPE_POINTS,
    "axes.edgecolor": MUTED, "axes.labelcolor": MUTED, "xtick.color": MUTED, "ytick.color": MUTED,
    "grid.color": GRID, "axes.grid": True, "grid.linewidth": 0.8, "axes.axisbelow": True, "axes.spines.top": False,
    "axes.spines.right": False, "axes.spines.left": False, "xtick.major.size": 3, "xtick.major.pad": 6,
    "ytick.major.size": 0, "lines.linewidth": 1.8,
}  # fmt: skip

T = TypeVar("T")
Draw = Callable[["Axes", "LatenessReport"], None]
ALL = ("distribution", "late-share", "completeness", "look-back")


def figures(report: "LatenessReport", asked: Collection[str] = ALL) -> dict[str, str]:
    """The SVG of each figure asked for that the report has numbers for, by name."""
    wanted: dict[str, tuple[Draw, object]] = {
        "distribution": (_distribution, report.ages),
        "late-share": (_late_share, report.by_arrival),
        "completeness": (_completeness, report.completeness),
        "look-back": (_look_back, report.ages),
    }
    return {name: svg(name, draw, report) for name, (draw, numbers) in wanted.items() if numbers and name in asked}


def svg(name: str, draw: "Callable[[Axes, T], None]", report: T, height_inches: float = SIZE_INCHES[1]) -> str:
    """One figure that `draw` draws of a report, as an element of a page (see `inline`)."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    style: Any = {**STYLE, "svg.hashsalt": name}
    with rc_context(style):
        figure = Figure(figsize=(SIZE_INCHES[0], height_inches), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        draw(axes, report)
        if layout := figure.get_layout_engine():  # else it draws all of it twice, the first time for the layout alone
            layout.execute(figure)
            figure.set_layout_engine(None)
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return inline(name, drawn.getvalue())


def inline(name: str, svg: str) -> str:
    """An SVG document as an element of a page: without prolog, namespaces and metadata; ids begin with `name`.

    Colours that stand in for the page's become its variables.
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
    ages, shares = [a for a, _ in report.ages], _running([n for _, n in report.ages])
    end = max(ages[-1], 1)
    _step(axes, [*ages, end], [*shares, shares[-1]], fill=True)
    _days_axis(axes, end, "age of a row when it arrived, days")
    _percent_axis(axes, "of all rows")
    reached = {next(a for a, s in zip(ages, shares, strict=True) if s >= wanted): wanted for wanted in (0.5, 0.9, 0.99)}
    for place, (age, wanted) in enumerate(reached.items()):  # of shares reached together, the greatest is told
        _drop(axes, age, wanted, _by(wanted, age), 0.27 - 0.1 * place)


def _late_share(axes: "Axes", report: "LatenessReport") -> None:
    from matplotlib import dates

    ticks: Any = dates  # these two have no types
    days: Sequence[Any] = [d.day for d in report.by_arrival]
    late, rows = [d.late for d in report.by_arrival], [d.spread.rows for d in report.by_arrival]
    if len(days) <= DOTS_UP_TO:
        _dots(axes, days, late, rows)
    first = [max(i - ROLLING_DAYS + 1, 0) for i in range(len(days))]
    rolling = [sum(late[f : i + 1]) / sum(rows[f : i + 1]) for i, f in enumerate(first)]
    axes.plot(days, rolling, color=ACCENT)
    locator = ticks.AutoDateLocator(minticks=2, maxticks=MOST_DATES)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ticks.ConciseDateFormatter(locator))
    _percent_axis(axes, "of the day's rows")


def _dots(axes: "Axes", days: Sequence[Any], late: Sequence[int], rows: Sequence[int]) -> None:
    """A dot per day. Of few sizes only: one size is one shape of the SVG, which is drawn again for each dot."""
    sized = [round((DOT_SIZES - 1) * (n / max(rows)) ** 0.5) for n in rows]
    for size in sorted(set(sized)):
        of_size = [(day, a / b) for day, a, b, s in zip(days, late, rows, sized, strict=True) if s == size]
        x, y = zip(*of_size, strict=True)
        axes.plot(x, y, "o", ms=2.5 + 1.5 * size, color=SECOND, alpha=0.45, mew=0)


def _completeness(axes: "Axes", report: "LatenessReport") -> None:
    ages, shares = [a.age_days for a in report.completeness], [a.share for a in report.completeness]
    _step(axes, ages, shares, fill=True)
    _days_axis(axes, max(ages[-1], 1), "days after the event day")
    _percent_axis(axes, "of an event day's rows")
    axes.axhline(report.asked.share, color=SECOND, lw=1, ls=(0, (4, 3)))
    if report.age_days is not None:
        _drop(axes, report.age_days, report.asked.share, _by(report.asked.share, report.age_days))


def _look_back(axes: "Axes", report: "LatenessReport") -> None:
    days = [a.days for a in report.advice]
    low, high = [a.interval.low for a in report.advice], [a.interval.high for a in report.advice]
    axes.fill_between(days, low, high, step="mid", color=ACCENT, alpha=0.22, lw=0)
    axes.step(days, [a.share for a in report.advice], where="mid", color=ACCENT)
    axes.set_xlim(1, days[-1])
    axes.set_xticks([1, *(d for d in (14, 30, 45, 60, 75, 90) if d <= days[-1])])
    axes.set_xlabel("look-back, days reprocessed every night")
    _percent_axis(axes, "of all rows missed", top=None)
    axes.axhline(1 - report.asked.share, color=SECOND, lw=1, ls=(0, (4, 3)))
    if report.look_back_days is not None:
        share = report.advice[report.look_back_days - 1].share
        axes.plot([report.look_back_days], [share], "o", color=ACCENT, ms=5, clip_on=False)
        place = (report.look_back_days, share)
        axes.annotate(f"{report.look_back_days} d", place, (5, 6), textcoords="offset points")


def _by(share: float, age_days: int) -> str:
    return f"{share * 100:g}% " + (f"by {age_days} d" if age_days else "the same day")


def _running(rows: Sequence[int]) -> list[float]:
    total = sum(rows)
    return [n / total for n in accumulate(rows)]


def _step(axes: "Axes", x: Sequence[int], y: Sequence[float], fill: bool) -> None:
    axes.step(x, y, where="post", color=ACCENT)
    if fill:
        axes.fill_between(x, y, step="post", color=ACCENT, alpha=0.12, lw=0)


def _drop(axes: "Axes", x: float, y: float, text: str, height: float = 0.07) -> None:
    """A dot, a line down to the axis, and its name beside the line: low, where no curve of shares passes."""
    axes.plot([x, x], [0, y], color=ACCENT, lw=0.9, ls=(0, (1, 2)))
    axes.plot([x], [y], "o", color=ACCENT, ms=5, clip_on=False)
    left = axes.transAxes.inverted().transform(axes.transData.transform((x, y)))[0] > ROOM_FOR_TEXT
    side = "right" if left else "left"
    beside = (-5 if left else 5, 0)
    named = axes.annotate(text, (x, height), beside, textcoords="offset points", ha=side, va="center")
    named.set_in_layout(False)


def _days_axis(axes: "Axes", end: int, label: str) -> None:
    """Ages: linear up to a day, logarithmic from there, with the steps people plan in."""
    axes.set_xscale("symlog", linthresh=1, linscale=0.6)
    axes.set_xticks([t for t in TICKS_DAYS if t <= end], minor=False)
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.xaxis.set_minor_locator(no_ticks())
    axes.set_xlim(0, end)
    axes.set_xlabel(label)


def no_ticks() -> Any:
    """What puts no small ticks between the others."""
    from matplotlib.ticker import NullLocator

    return NullLocator()


def _percent_axis(axes: "Axes", label: str, top: float | None = 1.03) -> None:
    from matplotlib.ticker import PercentFormatter

    axes.set_ylim(0, top)
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=None))
    axes.grid(visible=False, axis="x")
    axes.set_title(label, loc="left", color=MUTED)
