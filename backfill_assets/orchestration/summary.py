"""What a run did to a table, as a small Markdown table: one entry per run, on its last day.

Lives here: the words and the table, and which days were written again as they were. Does not live here: the other
metadata (`metadata`). Days that did not change are counted, not listed.
"""

from collections.abc import Mapping, Set
from datetime import date

from backfill_assets.core.days import contiguous
from backfill_assets.core.receipts import DayEntry
from backfill_assets.core.view import TableView
from backfill_assets.lake.replace import Published

LISTED_DAYS = 31  # a month; the dialog that shows it is about that high


def rewritten(before: TableView, after: Mapping[date, DayEntry], published: Published) -> frozenset[date]:
    """The days whose rows were replaced by the same rows, because somebody insisted (`force`)."""
    same = {d for d, s in before.stamps.items() if d in after and s.entry.content == after[d].content}
    return frozenset(published.changed & same - before.foreign)


def summary(
    before: Mapping[date, DayEntry],
    after: Mapping[date, DayEntry],
    published: Published,
    again: Set[date] = frozenset(),
) -> str:
    """Rows before and after of every changed day, the newest first up to a month of them, and the sums over all.

    `before` holds the days that had a receipt, `after` all days of the run, `again` those that were only rewritten.
    """
    changed = sorted((d for d in after if d in published.changed and d not in again), reverse=True)
    lines = [_headline(changed, len(after) - len(changed), len(again), published)]
    if changed:
        lines += ["", "| day | rows before | rows now | change |", "|---|---:|---:|---:|"]
        lines += [_day_line(d, before.get(d), after[d]) for d in changed[:LISTED_DAYS]]
        if len(changed) > LISTED_DAYS:
            lines.append(f"| … {len(changed) - LISTED_DAYS} more | | | |")
        was = sum(before[d].rows for d in changed if d in before)
        lines.append(_line("**all changed**", was, sum(after[d].rows for d in changed)))
    return "\n".join(lines)


def _headline(changed: list[date], kept: int, again: int, published: Published) -> str:
    written = f", {again} of them written again" if again else ""
    if not changed:
        new = ", the receipts are new" if published.receipted else ""
        return f"Nothing changed: {kept} day(s) hold what they held{written}{new}."
    ranges = ", ".join(map(str, contiguous(sorted(changed))[:3]))
    more = " …" if len(contiguous(changed)) > 3 else ""
    others = f"; {kept} other(s) hold what they held{written}" if kept else ""
    return f"{len(changed)} day(s) changed in version {published.version}: {ranges}{more}{others}."


def _day_line(day: date, was: DayEntry | None, now: DayEntry) -> str:
    if was is not None and was.scheme != now.scheme:  # nothing can say whether they are the same rows
        return _line(str(day), was.rows, now.rows, "as many rows")
    return _line(str(day), was.rows if was else None, now.rows)


def _line(name: str, was: int | None, now: int, same: str = "same rows, other content") -> str:
    change = "new" if was is None else f"{now - was:+,}" if now != was else same
    return f"| {name} | {'–' if was is None else f'{was:,}'} | {now:,} | {change} |"
