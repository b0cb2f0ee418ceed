"""The report of a lake as one page: sections from the report and Dagster's history, and a grid of days and tables.

Neighbouring days of one state are one rectangle of the grid, so that three years of six tables stay some hundred. Not
here: the numbers (`operations.report`) and the colours (templates).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING

from markupsafe import Markup

from backfill_assets.cli.drawing import TextTable, number, percent
from backfill_assets.cli.lateness import completeness, watermarks
from backfill_assets.cli.pages import Page, PageSection, environment
from backfill_assets.cli.plots import lateness_figures
from backfill_assets.core.days import ONE_DAY, from_inclusive
from backfill_assets.core.states import State
from backfill_assets.operations.account import Account
from backfill_assets.operations.rejected import kinds
from backfill_assets.operations.status import DayStatus, StatusReport

if TYPE_CHECKING:
    from backfill_assets.operations.report import Delivered, LakeReport
    from backfill_assets.orchestration.history import History

MOST_NEEDING, MOST_WRITES, MOST_RUNS, MOST_WRONG = 60, 40, 30, 5
BECAUSE = "made from days that need making"
NEEDING = ("table", "days", "state", "because")
RUNS = ("began, UTC", "days", "tables", "why", "ended", "took", "cause", "run")
WRITES = ("committed, UTC", "table", "days", "rows", "why", "note", "took", "run")
DURATIONS = ("table", "writes", "median", "95 %", "greatest", "per day written")
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


def page(report: "LakeReport", history: "History") -> Page:
    """Return the page of a lake."""
    status, landed = report.status, report.delivered.account
    counts, following = Counter(day.state for day in status), sum(status.following().values())
    wrong = counts[State.STALE] + counts[State.MISSING]
    duplicates = "nothing is loaded"
    if landed.duplicates_per_1000 is not None:
        duplicates = f"{landed.duplicates_per_1000:.1f} per 1,000 loaded rows"
    tiles = [
        ("Days of tables, fresh", number(counts[State.FRESH]), f"of {number(counts.total())}; {following} will change"),
        ("Stale or missing", number(wrong), f"{counts[State.PENDING]} pending, {counts[State.OUTDATED]} outdated"),
        ("Rows landed", number(landed.rows), f"{number(landed.files)} files"),
        ("In quarantine", number(landed.quarantine), f"{len(report.delivered.quarantine)} reasons"),
        ("Duplicates", "–", f"not counted on {len(landed.uncounted)} days") if landed.uncounted
        else ("Duplicates", number(landed.duplicates), duplicates),
    ]  # fmt: skip
    sections = [
        _days(status), *_landed(report.delivered), *_lateness(report), _durations(report), _checks(report, history),
        _runs(report, history), _writes(report),
    ]  # fmt: skip
    title = "What the lake holds, and how sure that is"
    return Page("report", title, status.lake, sections, [_head(report)], tiles, _not_loaded(landed))


def _head(report: "LakeReport") -> str:
    status, landed = report.status, report.delivered.account
    frontier = f"The frontier is {status.frontier:%Y-%m-%d %H:%M} UTC." if status.frontier else "Nothing is loaded yet."
    loaded = " All that landed is loaded." if status.frontier and not (landed.waiting or landed.surplus) else ""
    as_of = f" The lake's world stops at {status.as_of:%Y-%m-%d %H:%M} UTC (as_of)." if status.as_of else ""
    return f"Made {report.made_at:%Y-%m-%d %H:%M} UTC. {frontier}{loaded}{as_of}"


def _not_loaded(landed: Account) -> str:
    waiting, surplus = sum(landed.waiting.values()), sum(landed.surplus.values())
    left = [f"{number(waiting)} rows wait on {len(landed.waiting)} arrival day(s)"] if waiting else []
    left += [f"{number(surplus)} loaded rows are to be taken back"] if surplus else []
    return f"Not all that landed is loaded: {', and '.join(left)}." if left else ""


def _days(status: StatusReport) -> PageSection:
    drawn = grid(status)
    if not drawn:
        return PageSection("Days", about=["Nothing has landed or been written yet."])
    found, left_out = needing(status, MOST_NEEDING)
    if not found:
        return PageSection("Days", html=drawn, lines=["Every day that can be is up to date."])
    more = [f"And {number(left_out)} more: `backfill-assets status` has them all."] if left_out else []
    return PageSection("Days", [TextTable(NEEDING, found, "What needs a look")], more, html=drawn)


def needing(report: StatusReport, most: int) -> tuple[list[tuple[str, str, str, str]], int]:
    """Return days that are neither fresh nor pending or will change as (table, days, state, reason of the first),
    equal neighbours joined, and the number left out. Each table has its share of `most`, so that none hides others."""
    shown, left_out = [], 0
    for name, days in report.tables.items():
        found = []
        for state, group in groupby(days, look):
            stretch = list(group)
            if state not in (State.FRESH, State.PENDING):
                reason = BECAUSE if state == WILL_CHANGE else stretch[0].reason
                found.append((name, str(from_inclusive(stretch[0].day, stretch[-1].day)), state, reason))
        share = most // len(report.tables)
        shown += found[:share]
        left_out += max(0, len(found) - share)
    return shown, left_out


def _landed(delivered: "Delivered") -> Iterator[PageSection]:
    """Yield the account of all rows, per source where a lake has several."""
    for name, came in (delivered.sources or {"": delivered}).items():
        account, found = came.account, kinds(came.quarantine)
        parts = ", ".join(f"{number(rows)} {what}" for rows, what in account.parts())
        lines = []
        if found.more_kinds:
            command = "`backfill-assets report --json` has them all."
            lines = [f"And {number(found.more_rows)} rows for {found.more_kinds} other reasons: {command}"]
        rows = [(count, reason) for reason, count in found.shown]
        yield PageSection(
            f"What landed from {name}" if name else "What landed",
            [TextTable(("rows", "in quarantine because"), rows)] if rows else [], lines,
            [f"{number(account.rows)} rows in {number(account.files)} files: {parts}."], _wrong(account),
        )  # fmt: skip


def _wrong(account: Account) -> str:
    if not account.wrong:
        return ""
    shown = ", ".join(f"{day} {-rows:+d} rows" for day, rows in [*account.wrong.items()][:MOST_WRONG])
    more = ", …" if len(account.wrong) > MOST_WRONG else ""
    return (
        f"The account does not add up on {len(account.wrong)} loaded days: {shown}{more}. `backfill-assets doctor` "
        "says what to do."
    )


def _lateness(report: "LakeReport") -> list[PageSection]:
    late = report.lateness
    if late is None or late.overall is None:
        return [PageSection("Lateness", about=["No upsert is loaded, so there is nothing to measure."])]
    figures = lateness_figures(late, ("late-share", "completeness"))
    source = f" from {late.asked.source}" if late.asked.source else ""
    share = percent(late.late / late.rows)
    about = f"{share} of {number(late.rows)} upserts{source} arrived on a later day than their event's."
    marks, complete = watermarks(late), completeness(late, {})
    return [
        PageSection(
            "Lateness", marks.tables, [*marks.lines, "`backfill-assets lateness --html` has more of this."], [about],
            figures=list(figures.values()), folded=complete.tables if late.completeness else (),
        )
    ]  # fmt: skip


def _section(title: str, table: TextTable, nothing: str, lines: Sequence[str] = (), about: str = "") -> PageSection:
    """Return the section of a table, or one that says `nothing` where it has no rows."""
    if not table.rows:
        return PageSection(title, about=[nothing])
    return PageSection(title, [table], lines, [about] if about else [])


def _durations(report: "LakeReport") -> PageSection:
    rows = [
        (d.table, d.writes, *(_seconds(s, 1) for s in (d.median, d.p95, d.greatest)), _seconds(d.per_day, 2))
        for d in report.durations
    ]
    about = "A write is one commit of one table, whatever number of days it holds."
    return _section("Durations", TextTable(DURATIONS, rows), "No write of this lake was measured.", about=about)


def _checks(report: "LakeReport", history: "History") -> PageSection:
    """Return per table and check the days by their newest verdict, and the newest findings."""
    if not history.checks:
        return PageSection("Checks", about=["Dagster remembers no check of these tables."])
    known = {(c.table, c.check): (c.passed, c.found) for c in history.checks}
    names = list(dict.fromkeys(c.check for c in history.checks))
    stale = Counter(day.table for day in report.status if day.state is State.STALE)
    rows = [
        (table, *(_verdict(known.get((table, name))) for name in names), stale[table])
        for table in dict.fromkeys(c.table for c in history.checks)
    ]
    found = [
        (f.table, f.check, f.day or "all", f.severity or "–", f.what or f"see run {f.run_id[:8]}")
        for f in history.findings
    ]
    newest = [TextTable(("table", "check", "day", "severity", "what"), found, "the newest findings")] if found else []
    line = "Days by their newest verdict, as this lake's runs gave it; stale days by the receipts."
    return PageSection("Checks", [TextTable(("table", *names, "stale days now"), rows)], [line], folded=newest)


def _verdict(counted: tuple[int, int] | None) -> str:
    if counted is None:
        return "–"
    passed, found = counted
    return f"{number(found)} found, {number(passed)} good" if found else f"{number(passed)} good"


def _runs(report: "LakeReport", history: "History") -> PageSection:
    def tables(names: Sequence[str]) -> str:
        return "all" if len(names) == len(report.status.tables) else ", ".join(names) or "–"

    rows = [
        (
            _minute(r.began),
            r.days or "",
            tables(r.tables),
            r.reason,
            r.status,
            _seconds(r.seconds, 0),
            r.cause or "–",
            r.run_id[:8],
        )
        for r in history.runs[:MOST_RUNS]
    ]
    return _section("Runs", TextTable(RUNS, rows, "the newest runs"), "Dagster remembers no run on this lake.")


def _writes(report: "LakeReport") -> PageSection:
    rows = []
    for w in report.writes[:MOST_WRITES]:
        days = f"{from_inclusive(w.days[0], w.days[-1])} ({len(w.days)})"
        took = _seconds(w.seconds, 1)
        rows.append((_minute(w.at), f"{w.table} v{w.version}", days, w.rows, w.reason, w.note, took, w.run_id[:8]))
    more = f"The newest {len(rows)} of {number(len(report.writes))}; `backfill-assets report --json` has them all."
    lines = [more] if len(report.writes) > len(rows) else []
    return _section("Writes", TextTable(WRITES, rows, "the newest writes"), "Nothing was written yet.", lines)


def _minute(instant: datetime | None) -> str:
    return f"{instant:%Y-%m-%d %H:%M}" if instant else "–"


def _seconds(seconds: float | None, digits: int) -> str:
    return "-" if seconds is None else f"{seconds:.{digits}f} s"


def grid(report: StatusReport) -> str:
    """Return the grid as HTML, with a legend that counts each state; empty where the lake has no days."""
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
    """Draw days of one state as one rectangle; its title names the days and their rows."""
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
