"""Who counts the rows of files: DuckDB's answers are those of one query, however many files it reads
at once. Not here: that the engine gives the same (`engines.test_auditor_numbers`)."""

from pathlib import Path

import pytest

from backfill_assets.kernel.write.session import DuckDBAuditor
from backfill_assets_tests.builders import STAGING, day
from backfill_assets_tests.files import bare_lake, stage_by_hand

ROWS = [{"entity": "A", "value": n, "event_date": day(n % 3)} for n in range(6)]


@pytest.mark.parametrize("at_once", [1, 100])
def test_a_query_is_answered_for_every_day_however_many_files_are_read_at_once(
    tmp_path: Path, at_once: int
) -> None:
    lake = bare_lake(tmp_path / "lake")
    staged, auditor = stage_by_hand(lake, STAGING, ROWS), DuckDBAuditor(lake)

    def sums(rows: str) -> str:
        return f"SELECT event_date, sum(value) AS total FROM ({rows}) GROUP BY 1"

    answers = [*auditor.answers(STAGING, sums, staged.files, where="value > 0", at_once=at_once)]
    assert {tuple(names) for names, _ in answers} == {("event_date", "total")}
    found = sorted(row for _, rows in answers for row in rows)
    assert found == [(day(0), 3), (day(1), 5), (day(2), 7)]
    assert sorted(auditor.rows_by(STAGING, staged, "entity")) == [
        (day(n), "A", 2) for n in range(3)
    ]
    staged.drop()
