"""What a run did, as Markdown: changed days with rows before and after, never more than a month of lines.

Tested here: `orchestration.metadata`.
"""

from datetime import date

from backfill_assets.core.receipts import DayEntry
from backfill_assets.core.view import DayReceipt, TableView
from backfill_assets.lake.replace import Published
from backfill_assets.orchestration.metadata import LISTED_DAYS, rewritten, summary
from backfill_assets_tests.builders import day


def entries(**rows: int) -> dict[date, DayEntry]:
    return {day(int(n[1:])): DayEntry(count, "F", "d") for n, count in rows.items()}


def test_changed_days_show_their_rows_before_and_now_newest_first() -> None:
    before, after = entries(d0=5, d1=7), entries(d0=6, d1=7, d2=3, d3=1)
    told = summary(before, after, Published(4, "w", frozenset({day(0), day(1), day(2)})))
    lines = told.splitlines()
    assert lines[0].startswith("3 day(s) changed in version 4: ")
    assert lines[0].endswith("; 1 other(s) hold what they held.")
    assert lines[4:] == [
        f"| {day(2)} | – | 3 | new |",
        f"| {day(1)} | 7 | 7 | same rows, other content |",
        f"| {day(0)} | 5 | 6 | +1 |",
        "| **all changed** | 12 | 16 | +4 |",
    ]


def test_a_day_whose_receipt_fingerprints_in_another_way_is_not_called_other_content() -> None:
    before = {day(0): DayEntry(5, "F", "d", scheme=1)}
    told = summary(before, entries(d0=5), Published(4, "w", frozenset({day(0)})))
    assert f"| {day(0)} | 5 | 5 | as many rows |" in told


def test_a_run_that_changed_nothing_says_so() -> None:
    assert summary({}, entries(d0=1), Published(4, "")) == "Nothing changed: 1 day(s) hold what they held."
    receipted = Published(4, "w", receipted=frozenset({day(0)}))
    assert summary({}, entries(d0=1), receipted).endswith(", the receipts are new.")


def test_days_that_were_written_again_as_they_were_are_no_change() -> None:
    before, after = entries(d0=5, d1=7, d2=9), entries(d0=5, d1=8, d2=9)
    latest = {d: DayReceipt(e, 3, "w", "", "", "") for d, e in before.items()}
    forced = Published(4, "w", frozenset(after))
    again = rewritten(TableView(3, latest, foreign=frozenset({day(2)})), after, forced)
    assert again == {day(0)}, "what another program wrote over is no repetition"
    told = summary(before, after, forced, again)
    assert told.startswith("2 day(s) changed in version 4: ")
    assert "; 1 other(s) hold what they held, 1 of them written again." in told
    assert f"| {day(0)} |" not in told
    kept = summary(before, before, forced, frozenset(before))
    assert kept == "Nothing changed: 3 day(s) hold what they held, 3 of them written again."


def test_a_long_range_is_cut_to_a_month_and_its_sum_is_whole() -> None:
    after = {day(n): DayEntry(1, "F", "d") for n in range(100)}
    told = summary({}, after, Published(1, "w", frozenset(after)))
    assert told.count("\n| 20") == LISTED_DAYS
    assert f"… {100 - LISTED_DAYS} more" in told
    assert "| **all changed** | 0 | 100 | +100 |" in told
