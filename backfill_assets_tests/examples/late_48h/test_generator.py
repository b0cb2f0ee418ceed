"""The files of the example `late-48h` hold passages that are up to two days late, and some twice.

Tested here: what is generated. Not tested here: the steps, and what comes of the rows (`end_to_end`).
"""

import json

from backfill_assets.examples.late_48h.generator import files


def test_the_same_files_are_made_every_time() -> None:
    assert files() == files()


def test_no_passage_is_later_than_two_days_and_some_are_sent_twice() -> None:
    rows = [json.loads(line) for text in files().values() for line in text.splitlines()]
    assert {int(r["sent_at"][8:10]) - int(r["passed_at"][8:10]) for r in rows} == {0, 1, 2}
    assert len({r["passage_id"] for r in rows}) < len(rows)
    assert [name for name in files() if name.startswith("later")] == [f"later/2025-03-0{n}.jsonl" for n in range(4, 8)]
