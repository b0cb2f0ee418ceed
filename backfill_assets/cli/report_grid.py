"""The grid of days and tables as small pictures: a row per month, a strip of days per table, coloured by state.

Lives here: drawing a month of one table as SVG. Does not live here: the states (`operations.status`), the page
(`report_page`), and the colours, which are classes of the page. Neighbouring days of one state are one rectangle, so
that three years of six tables are some hundred of them and not 6,576.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from backfill_assets.core.days import ONE_DAY
from backfill_assets.operations.status import DayStatus, StatusReport

DAY_PX, HEIGHT_PX, GAP_PX = 5, 14, 1
LONGEST_MONTH = 31
WILL_CHANGE = "will change"
CLASS = {WILL_CHANGE: "follows"}  # of others the state is the name
BECAUSE = "made from days that need making"


@dataclass(frozen=True)
class MonthRow:
    """One month (`YYYY-MM`) and a strip per table."""

    month: str
    strips: tuple[Markup, ...]


def grid(report: StatusReport) -> tuple[MonthRow, ...]:
    """The months of the report, oldest first; empty where the lake has no days."""
    by_table = {name: _months(days) for name, days in report.tables.items()}
    months = next(iter(by_table.values()), {})
    return tuple(MonthRow(month, tuple(strip(name, by_table[name][month]) for name in by_table)) for month in months)


def _months(days: Iterable[DayStatus]) -> dict[str, list[DayStatus]]:
    return {month: list(group) for month, group in groupby(days, lambda d: f"{d.day:%Y-%m}")}


def strip(table: str, days: Sequence[DayStatus]) -> Markup:
    """The days of one month of one table; in words for those who do not see it."""
    counted = Counter(map(_look, days))
    told = f"{table} {days[0].day:%Y-%m}: {', '.join(f'{n} {state}' for state, n in counted.items())}"
    drawn = Markup("").join(_stretch(list(group)) for _, group in groupby(days, _look))
    gaps = Markup('<rect class="gaps" width="{}" height="{}"/>').format(LONGEST_MONTH * DAY_PX, HEIGHT_PX)
    return Markup('<svg class="strip" viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}</svg>').format(
        LONGEST_MONTH * DAY_PX, HEIGHT_PX, told, drawn, gaps
    )


def _look(day: DayStatus) -> str:
    """Its state, or that it will change: then it is not what it seems, whatever its state."""
    return WILL_CHANGE if day.will_change else day.state.value


def _stretch(days: Sequence[DayStatus]) -> Markup:
    """Days of one state as one rectangle; its title names the days and their rows."""
    first, last, look = days[0].day, days[-1].day, _look(days[0])
    state = f"{days[0].state.value}, will change" if look == WILL_CHANGE else look
    span = f"{first}" if first == last else f"{first}..{last}"
    rows = f", {sum(d.rows or 0 for d in days):,} rows" if any(d.rows is not None for d in days) else ""
    width = ((last - first) // ONE_DAY + 1) * DAY_PX - GAP_PX
    return Markup('<rect class="{}" x="{}" width="{}" height="{}"><title>{}</title></rect>').format(
        CLASS.get(look, look), (first.day - 1) * DAY_PX, width, HEIGHT_PX, f"{span}: {state}{rows}"
    )


def needing(report: StatusReport, most: int) -> tuple[list[tuple[str, str, str, str]], int]:
    """What is neither fresh nor pending or will change, as (table, days, state, reason of the first), equal neighbours
    joined; and how many are left out. Of each table at most its share of `most`, so that none hides the others."""
    shown, left_out = [], 0
    for name, days in report.tables.items():
        found = []
        for look, group in groupby(days, _look):
            stretch = list(group)
            if look not in ("fresh", "pending"):
                first, last = stretch[0].day, stretch[-1].day
                reason = BECAUSE if look == WILL_CHANGE else stretch[0].reason
                found.append((name, f"{first}" if first == last else f"{first}..{last}", look, reason))
        share = most // len(report.tables)
        shown += found[:share]
        left_out += max(0, len(found) - share)
    return shown, left_out


def legend() -> tuple[tuple[str, Markup, str], ...]:
    """Each state with a sample of its look and what it means."""
    meanings = {
        "fresh": "holds what its inputs say",
        "stale": "its inputs changed since it was written",
        "missing": "was never written",
        "incomplete": "required input days are missing",
        "outdated": "same inputs, other code or settings",
        "pending": "waits until its cut has passed",
        "held": "put back by a rollback, left alone",
        WILL_CHANGE: "right today, made again after what needs making",
    }
    sample = Markup('<svg class="sample" viewBox="0 0 14 14" aria-hidden="true">{}</svg>')
    block = Markup('<rect class="{}" width="14" height="14"/>')
    return tuple(
        (state, sample.format(block.format(CLASS.get(state, state))), told) for state, told in meanings.items()
    )
