"""The files of the example `retried-events` hold what its steps show: retries, changed ones, a tie, a late file.

Tested here: what is generated. Not tested here: the steps, and what comes of the rows (`end_to_end`).
"""

import json
from collections import Counter
from typing import Any

from backfill_assets.examples.retried_events.generator import TIE, files


def rows() -> list[dict[str, Any]]:
    return [
        {**json.loads(line), "later": name.startswith("later/")}
        for name, text in files().items()
        for line in text.splitlines()
    ]


def test_the_same_files_are_made_every_time() -> None:
    assert files() == files()


def test_offsets_are_a_total_order_of_all_copies() -> None:
    sent = rows()
    offsets = [r["offset"] for r in sent]
    assert sorted(offsets) == list(range(1, len(offsets) + 1))
    assert [r["ingested_at"] for r in sorted(sent, key=lambda r: int(r["offset"]))] == sorted(
        r["ingested_at"] for r in sent
    )


def test_clicks_are_sent_again_some_changed_and_two_copies_tie() -> None:
    sent = rows()
    copies = Counter(r["click_id"] for r in sent)
    assert 1 in copies.values()
    assert max(copies.values()) >= 3
    tied = [r for r in sent if r["click_id"] == TIE]
    assert len({r["ingested_at"] for r in tied}) == 1
    assert len({r["page"] for r in tied}) == 2
    seconds = {name: {r["seconds"] for r in sent if r["click_id"] == name} for name in copies}
    assert any(len(told) > 1 for told in seconds.values())
    assert any(r["later"] for r in sent)
