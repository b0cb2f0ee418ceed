"""The grid of days and tables as small pictures: a row per month, a strip of days per table, coloured by state.

Not here: the states (`operations.status`) and the colours (`templates/grid.html.j2`). Neighbouring days of one state
are one rectangle, so that three years of six tables stay some hundred of them.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from markupsafe import Markup

from backfill_assets.core.days import ONE_DAY, from_inclusive
from backfill_assets.operations.status import DayStatus, StatusReport

DAY_PX, HEIGHT_PX, GAP_PX = 5, 14, 1
MONTH_PX = 31 * DAY_PX
WILL_CHANGE = "will change"
MEANINGS = {
    "fresh": "holds what its inputs say",
    "stale": "its inputs changed since it was written",
    "missing": "was never written",
    "incomplete": "required input days are missing",
    "outdated": "same inputs, other code or settings",
    "pending": "waits until its cut has passed",
    "held": "put back by a rollback, left alone",
    WILL_CHANGE: "right today, made again after what needs making",
}


def grid(report: StatusReport) -> str:
    """Return the grid as HTML, with a legend that counts each state; empty where the lake has no days."""
    from backfill_assets.cli.pages import environment

    by_table = {
        name: {month: list(days) for month, days in groupby(all_days, lambda d: f"{d.day:%Y-%m}")}
        for name, all_days in report.tables.items()
    }
    first = next(iter(by_table.values()), {})
    if not first:
        return ""
    months = [(month, [strip(name, of[month]) for name, of in by_table.items()]) for month in first]
    counts = Counter(day.state.value for day in report) | {WILL_CHANGE: sum(report.following().values())}
    sample = Markup('<svg class="sample" viewBox="0 0 14 14" aria-hidden="true">{}</svg>')
    square = Markup('<rect class="{}" width="14" height="14"/>')
    legend = [
        (state, sample.format(square.format(_class(state))), f"{meaning} ({counts.get(state, 0):,})")
        for state, meaning in MEANINGS.items()
    ]
    return environment().get_template("grid.html.j2").render(tables=report.tables, months=months, legend=legend)


def strip(table: str, days: Sequence[DayStatus]) -> Markup:
    """Return the days of one month of one table as SVG; its label says the same in words."""
    counted = Counter(map(look, days))
    told = f"{table} {days[0].day:%Y-%m}: {', '.join(f'{n} {state}' for state, n in counted.items())}"
    drawn = Markup("").join(_stretch(list(group)) for _, group in groupby(days, look))
    return Markup(
        '<svg class="strip" viewBox="0 0 {w} {h}" role="img" aria-label="{}">{}'
        '<rect class="gaps" width="{w}" height="{h}"/></svg>'
    ).format(told, drawn, w=MONTH_PX, h=HEIGHT_PX)


def look(day: DayStatus) -> str:
    """Return the state of a day, or that it will change, whatever its state."""
    return WILL_CHANGE if day.will_change else day.state.value


def _class(look: str) -> str:
    return "follows" if look == WILL_CHANGE else look


def _stretch(days: Sequence[DayStatus]) -> Markup:
    """Days of one state as one rectangle; its title names the days and their rows."""
    first, last = days[0], days[-1]
    state = f"{first.state.value}, will change" if first.will_change else first.state.value
    rows = f", {sum(d.rows or 0 for d in days):,} rows" if any(d.rows is not None for d in days) else ""
    width = ((last.day - first.day) // ONE_DAY + 1) * DAY_PX - GAP_PX
    return Markup('<rect class="{}" x="{}" width="{}" height="{}"><title>{}</title></rect>').format(
        _class(look(first)),
        (first.day.day - 1) * DAY_PX,
        width,
        HEIGHT_PX,
        f"{from_inclusive(first.day, last.day)}: {state}{rows}",
    )
