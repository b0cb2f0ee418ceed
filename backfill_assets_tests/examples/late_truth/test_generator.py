"""The files of the example `late-truth` hold what its steps show: verdicts days later, and some that are overturned.

Tested here: what is generated. Not tested here: the steps, and what comes of the rows (`end_to_end`).
"""

import json
from typing import Any

from backfill_assets.examples.late_truth.generator import OVERTURNED, files


def verdicts() -> list[dict[str, Any]]:
    return [json.loads(line) for name, text in files().items() if "verdicts" in name for line in text.splitlines()]


def test_the_same_files_are_made_every_time() -> None:
    assert files() == files()


def test_a_verdict_comes_days_after_its_payment_and_before_a_label_is_mature() -> None:
    payments = "".join(text for name, text in files().items() if "payments" in name)
    for verdict in verdicts():
        assert f"{verdict['payment_id']},{verdict['card']},{verdict['paid_at']}" in payments
        assert verdict["given_at"][:10] > verdict["paid_at"][:10]
    assert {v["fraud"] for v in verdicts()} == {True, False}


def test_some_verdicts_are_overturned() -> None:
    ids = [v["payment_id"] for v in verdicts()]
    twice = [v for v in verdicts() if ids.count(v["payment_id"]) == 2]
    assert {v["card"] for v in twice} == {OVERTURNED}
    assert {v["fraud"] for v in twice} == {True, False}
