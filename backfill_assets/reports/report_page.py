"""The report of a lake as one page: sections from the report and Dagster's runs, and a grid of days
and tables.

Neighbouring days of one state are one rectangle of the grid, so that three years of six tables stay
some hundred. Not here: the numbers (`reports.report`) and the colours (templates).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from markupsafe import Markup

from backfill_assets.cli.drawing import (
    Page,
    PageSection,
    TextTable,
    number_text,
    page_templates,
    percent_text,
)
from backfill_assets.dagster.adapter.history import PastRun
from backfill_assets.kernel.core.days import ONE_DAY, inclusive_range, ranges_text
from backfill_assets.kernel.core.states import State
from backfill_assets.reading.rejected import NEWEST_DAYS, reason_kinds
from backfill_assets.reports.lateness_command import completeness_section, watermark_section
from backfill_assets.reports.plots import check_figure, lateness_figures
from backfill_assets.reports.report import Delivered, LakeReport
from backfill_assets.reports.status import DayStatus, StatusReport

# The most that a section shows: rows of days, writes and runs, days of a wrong account, ranges.
MOST_NEEDING, MOST_WRITES, MOST_RUNS, MOST_PROOFS, MOST_WRONG, MOST_RANGES = 60, 40, 30, 30, 5, 10
WHY_IT_WILL_CHANGE = "made from days that need making"
DAY_PX, HEIGHT_PX, GAP_PX = 5, 14, 1
MONTH_PX = 31 * DAY_PX
WILL_CHANGE = "will change"
SETTLED = (State.FRESH, State.PROVISIONAL, State.PENDING)
MEANINGS_OF_STATES = {
    "fresh": "holds what its inputs say",
    "provisional": "holds what its inputs say, of a period that is not over",
    "stale": "its inputs changed since it was written",
    "missing": "was never written",
    "incomplete": "input days are missing, or were made without a column that is read",
    "unpinned": "its step also read from a lake what its receipt cannot name",
    "outdated": "same inputs, other code or settings",
    "pending": "waits until its cut has passed",
    "held": "put back by a rollback, left alone",
    "closed": "of closed books, left alone",
    WILL_CHANGE: "right today, made again after what needs making",
}


def lake_page(report: LakeReport, runs: Sequence[PastRun], *more: PageSection) -> Page:
    """Return the page of a lake, with `more` sections at its end."""
    sections = [
        _days_section(report.status),
        *_landed_sections(report.delivered),
        _lateness_section(report),
        _durations_section(report),
        _checks_section(report),
        *_control_sections(report),
        *_proof_sections(report),
        _runs_section(report, runs),
        _writes_section(report),
        *more,
    ]
    title = "What the lake holds, and how sure that is"
    return Page("report", title, report.status.lake, sections, [" ".join(_head_lines(report))])


def _head_lines(report: LakeReport) -> list[str]:
    """Return whether the lake is right, and of which moment the report is, as sentences."""
    status, landed = report.status, report.delivered.account
    lines = [standing_sentence(report), f"Made {report.made_at:%Y-%m-%d %H:%M} UTC."]
    if status.frontier:
        lines.append(f"The frontier is {status.frontier:%Y-%m-%d %H:%M} UTC.")
        is_all_loaded = not landed.waiting and not landed.surplus
        if is_all_loaded:
            lines.append("All that landed is loaded.")
    if status.as_of:
        lines.append(f"The lake's world stops at {status.as_of:%Y-%m-%d %H:%M} UTC (as_of).")
    return lines


def standing_sentence(report: LakeReport) -> str:
    """Return whether the lake is right, as one sentence: its days by state, of all tables, and
    broken controls."""
    if not any(report.status.tables.values()):
        return "Nothing has landed or been written yet."
    counts = Counter(map(shown_state, report.status))
    states = [state for state in MEANINGS_OF_STATES if state not in SETTLED]
    wrong = [f"{number_text(counts[state])} {state}" for state in states if counts[state]]
    broken = sum(not outcome.holds for outcome in report.controls)
    sentences = []
    if wrong:
        sentences.append(f"Days of tables that need a look: {', '.join(wrong)}.")
    if broken:
        sentences.append(f"{broken} control(s) broken.")
    return " ".join(sentences) or "Every day that can be is up to date."


def _table_section(
    title: str, table: TextTable, nothing: str, lines: Sequence[str] = (), html: str = ""
) -> PageSection:
    """Return the section of a table, or one that says `nothing` where it has no rows."""
    if not table.rows:
        return PageSection(title, about=[nothing], html=html)
    return PageSection(title, [table], lines, html=html)


def _days_section(status: StatusReport) -> PageSection:
    """Return the grid of all days, and the days that need a look."""
    grid = day_grid(status)
    found, left_out = wanting_days(status, MOST_NEEDING)
    table = TextTable(("table", "days", "state", "because"), found, "What needs a look")
    nothing = "Nothing has landed or been written yet."
    if grid:
        nothing = "Every day that can be is up to date."
    lines = []
    if left_out:
        lines.append(f"And {number_text(left_out)} more: `backfill-assets status` has them all.")
    return _table_section("Days", table, nothing, lines, grid)


def wanting_days(report: StatusReport, limit: int) -> tuple[list[tuple[str, str, str, str]], int]:
    """Return days that are neither fresh nor pending or will change as (table, days, state, reason
    of the first), equal neighbours joined, and the number left out. Each table has its share of
    `limit`, so that none hides others."""
    shown, left_out = [], 0
    for name, days in report.tables.items():
        found = _wanting_stretches(name, days)
        share = limit // len(report.tables)
        shown += found[:share]
        left_out += max(0, len(found) - share)
    return shown, left_out


def _wanting_stretches(table: str, days: Iterable[DayStatus]) -> list[tuple[str, str, str, str]]:
    """Return (table, days, state, reason of the first) of each stretch of equal days of a table
    that need a look."""
    found = []
    for state, group in groupby(days, shown_state):
        if state in SETTLED:
            continue
        same = list(group)
        first, last = same[0], same[-1]
        reason = WHY_IT_WILL_CHANGE if state == WILL_CHANGE else first.reason
        found.append((table, str(inclusive_range(first.day, last.day)), state, reason))
    return found


def _landed_sections(delivered: Delivered) -> Iterator[PageSection]:
    """Yield the account of all rows, per source where a lake has several."""
    for name, landed in (delivered.sources or {"": delivered}).items():
        found = reason_kinds(landed.quarantine)
        rows = [(count, reason) for reason, count in found.shown]
        tables = [TextTable(("rows", "in quarantine because"), rows)] if rows else []
        lines = []
        if found.more_kinds:
            lines.append(
                f"And {number_text(found.more_rows)} rows for {found.more_kinds} other reasons: "
                "see `report --json`."
            )
        title = f"What landed from {name}" if name else "What landed"
        yield PageSection(title, tables, lines, _account_lines(landed))


def _account_lines(landed: Delivered) -> list[str]:
    """Return where the landed rows are, and whether the account adds up, as sentences."""
    account = landed.account
    parts = ", ".join(f"{number_text(rows)} {what}" for rows, what in account.parts())
    lines = [f"{number_text(account.rows)} rows in {number_text(account.files)} files: {parts}."]
    if landed.repeats.rows:
        lines.append(f"Of the newest {NEWEST_DAYS} days {landed.repeats}.")
    if account.wrong:
        first = [*account.wrong.items()][:MOST_WRONG]
        # `wrong` holds the rows that are lacking: a table with too few is shown with a minus.
        shown = ", ".join(f"{day} {-rows:+d} rows" for day, rows in first)
        lines.append(
            f"The account does not add up on {len(account.wrong)} loaded days, first {shown}. "
            "`backfill-assets doctor` says what to do."
        )
    return lines


def _control_sections(report: LakeReport) -> Iterator[PageSection]:
    """Yield the newest outcome of every control that was judged; nothing where a lake has none."""
    rows = [(o.name, "holds" if o.holds else "broken", o.at, o.message) for o in report.controls]
    if rows:
        yield PageSection("Known totals", [TextTable(("control", "", "judged", "outcome"), rows)])


def _lateness_section(report: LakeReport) -> PageSection:
    """Return the share of late rows, the watermarks, and how complete days are by age (folded)."""
    late = report.lateness
    if late is None or late.overall is None:
        nothing = "No upsert is loaded, so there is nothing to measure."
        return PageSection("Lateness", about=[nothing])
    source = f" from {late.scope.source}" if late.scope.source else ""
    share = percent_text(late.late / late.rows)
    about = (
        f"{share} of {number_text(late.rows)} upserts{source} arrived on a later day than their "
        "event's."
    )
    marks = watermark_section(late)
    folded = completeness_section(late).tables if late.completeness else ()
    lines = [*marks.lines, "`backfill-assets lateness --html` has more of this."]
    return PageSection(
        "Lateness", marks.tables, lines, [about], lateness_figures(late), folded=folded
    )


def _durations_section(report: LakeReport) -> PageSection:
    """Return how long the measured writes of each table took."""
    columns = ("table", "writes", "median", "95 %", "greatest", "per day written")
    rows = []
    for d in report.durations:
        seconds = (d.median_s, d.p95_s, d.greatest_s, d.seconds_per_day)
        rows.append((d.table, d.writes, *(f"{s:.2f} s" for s in seconds)))
    line = "A write is one commit of one table, whatever number of days it holds."
    return _table_section(
        "Durations", TextTable(columns, rows), "No write of this lake was measured.", [line]
    )


def _checks_section(report: LakeReport) -> PageSection:
    """Return per table and check how many written days pass, and the days that do not."""
    rows = []
    for history in report.checks:
        if history.days:
            passed = history.days - len(history.found)
            days = ranges_text([finding.day for finding in history.found], MOST_RANGES)
            counts = (passed, history.warned, history.failed)
            rows.append((history.table, history.check, *counts, days))
    columns = ("table", "check", "pass", "warn", "fail", "days that do not pass")
    table = TextTable(
        columns, rows, "written days, judged again by their receipts under the gates of today"
    )
    figure = check_figure(report.checks)
    section = _table_section("Checks", table, "No day is written that a check could judge.")
    return replace(section, figures=[figure] if figure else [])


def _proof_sections(report: LakeReport) -> Iterator[PageSection]:
    """Yield the days that were computed again, per table and newest first, where there are any."""
    if not report.proofs:
        return
    # Both in the order of their first proof.
    tables = dict.fromkeys(p.table for p in report.proofs)
    outcomes = dict.fromkeys(p.outcome for p in report.proofs)
    counts = Counter((p.table, p.outcome) for p in report.proofs)
    rows = []
    for table in tables:
        rows.append((table, *(counts[table, outcome] for outcome in outcomes)))
    newest = []
    for p in report.proofs[-MOST_PROOFS:][::-1]:  # the newest was recorded last
        at_second = p.at[: len("2024-03-01T12:00:00")]
        newest.append((at_second, p.table, p.day, p.outcome, p.words))
    last = TextTable(("at", "table", "day", "outcome", "what"), newest, "the newest proofs")
    yield PageSection(
        "Proofs: days computed again", [TextTable(("table", *outcomes), rows)], folded=[last]
    )


def _runs_section(report: LakeReport, runs: Sequence[PastRun]) -> PageSection:
    """Return the newest runs that Dagster remembers, a row each."""
    rows = []
    for r in runs[:MOST_RUNS]:
        made = (_tables_of_run(r, report), r.reason, r.status, _seconds_text(r.seconds))
        rows.append((r.began, r.days or "", *made, r.cause or "–", r.run_id[:8]))
    columns = ("began", "days", "tables", "why", "ended", "took", "cause", "run")
    return _table_section(
        "Runs",
        TextTable(columns, rows, "the newest runs"),
        "Dagster remembers no run on this lake.",
    )


def _tables_of_run(run: PastRun, report: LakeReport) -> str:
    """Return the names of a run's tables; a word where it was for all of the lake's."""
    if len(run.tables) == len(report.status.tables):
        return "all"
    return ", ".join(run.tables) or "–"


def _writes_section(report: LakeReport) -> PageSection:
    """Return the newest writes, a row each: a commit of a table, with the range from its first
    through its last day and the number of days in it."""
    rows = []
    for w in report.writes[:MOST_WRITES]:
        days = f"{inclusive_range(w.days[0].start, w.days[-1].last)} ({sum(map(len, w.days))})"
        commit = f"{w.table} v{w.version}"
        rows.append(
            (w.at, commit, days, w.rows, w.reason, w.note, _seconds_text(w.seconds), w.run_id[:8])
        )
    lines = []
    if len(report.writes) > len(rows):
        lines.append(
            f"The newest {len(rows)} of {number_text(len(report.writes))}; `backfill-assets report "
            "--json` has them all."
        )
    columns = ("committed", "table", "days", "rows", "why", "note", "took", "run")
    table = TextTable(columns, rows, "the newest writes")
    return _table_section("Writes", table, "Nothing was written yet.", lines)


def _seconds_text(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f} s"


def day_grid(report: StatusReport) -> str:
    """Return the grid as HTML, with a legend that counts each state; empty where the lake has no
    days."""
    months = []
    lines = zip(*report.tables.values(), strict=True)  # of each day its status in every table
    for month, group in groupby(lines, lambda line: f"{line[0].day:%Y-%m}"):
        by_table = zip(*group, strict=True)
        months.append((month, [month_strip(days) for days in by_table]))
    if not months:
        return ""
    counts = Counter(map(shown_state, report))
    legend = []
    for state, meaning in MEANINGS_OF_STATES.items():
        legend.append((state, f"{meaning} ({counts[state]:,})"))
    template = page_templates().get_template("grid.html.j2")
    return template.render(tables=report.tables, months=months, legend=legend)


def month_strip(days: Sequence[DayStatus]) -> Markup:
    """Return the days of one month of one table as SVG; its label says the same in words."""
    counts = Counter(map(shown_state, days))
    counted = ", ".join(f"{n} {state}" for state, n in counts.items())
    drawn = Markup("")
    for _, same in groupby(days, shown_state):
        drawn += _state_rectangle(list(same))
    return Markup(
        '<svg class="strip" viewBox="0 0 {w} {h}" role="img" aria-label="{}">{}'
        '<rect class="gaps" width="{w}" height="{h}"/></svg>'
    ).format(f"{days[0].table} {days[0].day:%Y-%m}: {counted}", drawn, w=MONTH_PX, h=HEIGHT_PX)


def shown_state(day: DayStatus) -> str:
    """Return the state of a day, or that it will change, whatever its state."""
    return WILL_CHANGE if day.will_change else day.state.value


def _state_rectangle(days: Sequence[DayStatus]) -> Markup:
    """Draw days of one state as one rectangle; its title names the days and their rows."""
    first, last = days[0], days[-1]
    state = f"{first.state.value}, {WILL_CHANGE}" if first.will_change else first.state.value
    rows = number_text(sum(d.rows or 0 for d in days))
    title = f"{inclusive_range(first.day, last.day)}: {state}, {rows} rows"
    x = (first.day.day - 1) * DAY_PX
    width = ((last.day - first.day) // ONE_DAY + 1) * DAY_PX - GAP_PX
    drawn = Markup('<rect class="{}" x="{}" width="{}" height="{}"><title>{}</title></rect>')
    return drawn.format(shown_state(first), x, width, HEIGHT_PX, title)
