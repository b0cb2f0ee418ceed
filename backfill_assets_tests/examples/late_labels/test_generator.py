"""The files of the example `late-labels` hold 180 days of loans, and outcomes of March that have not landed.

Tested here: what is generated. Not tested here: the steps, and what comes of the rows (`end_to_end`).
"""

import json

from backfill_assets.examples.late_labels.generator import LATE_MONTH, files


def test_the_same_files_are_made_every_time() -> None:
    assert files() == files()


def test_outcomes_of_march_alone_are_late() -> None:
    loans = [json.loads(line) for name, text in files().items() if "loans" in name for line in text.splitlines()]
    assert len({loan["taken_at"][:10] for loan in loans}) == 180
    assert max(loan["taken_at"] for loan in loans).startswith("2024-03-31")
    assert [name for name in files() if name.startswith("later")] == [f"later/outcomes/{LATE_MONTH}.jsonl"]
