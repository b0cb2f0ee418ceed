"""The grid of days and tables: strips that say in words what they show, and what needs a look.

Tested here: the grid of `cli.report_page`. Not tested here: the states (`operations.test_status`).
"""

import re
from dataclasses import replace

from backfill_assets.cli.report_page import grid, needing, strip
from backfill_assets.core.days import ONE_DAY
from backfill_assets.core.states import State
from backfill_assets.operations.report import LakeReport
from backfill_assets.operations.status import DayStatus
from backfill_assets_tests.operations.synthetic import START


def test_a_month_is_a_strip_per_table_and_says_in_words_what_it_shows(told: LakeReport) -> None:
    months = re.findall(r'<th scope="row">(\S+?)((?:<td>.*)+)</tr>', grid(told.status))
    assert [month for month, _ in months] == ["2024-02", "2024-03"]
    assert months[0][1].count('class="strip"') == len(told.status.tables)
    days = [DayStatus("raw", START + ONE_DAY * n, State.FRESH, 5, 1) for n in range(3)]
    days.append(DayStatus("raw", START + ONE_DAY * 3, State.STALE, 7, 1))
    drawn = strip(days)
    assert 'aria-label="raw 2024-02: 3 fresh, 1 stale"' in drawn
    assert drawn.count('class="fresh"') == drawn.count('class="stale"') == 1, "equal neighbours are one rectangle"
    assert "<title>2024-02-26..2024-02-28: fresh, 15 rows</title>" in drawn
    assert "<title>2024-02-29: stale, 7 rows</title>" in drawn


def test_what_needs_a_look_is_joined_to_ranges_and_no_table_hides_another(told: LakeReport) -> None:
    stale = [DayStatus("raw", START + ONE_DAY * n, State.STALE, reason=f"because {n}") for n in range(2)]
    held = [DayStatus("raw", START + ONE_DAY * n, State.HELD) for n in range(2, 4)]
    days = (*stale, *held, DayStatus("raw", START + ONE_DAY * 4, State.PENDING))
    status = replace(told.status, tables={"raw": days, "staging": days})
    found, left_out = needing(status, 2)
    assert found == [(table, "2024-02-26..2024-02-27", "stale", "because 0") for table in ("raw", "staging")]
    assert left_out == 2
