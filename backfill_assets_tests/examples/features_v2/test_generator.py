"""The files of the example `features-v2` cover its 90 days, and hold refunds and purchases on the web.

Tested here: what is generated. Not tested here: the steps, and what comes of the rows (`end_to_end`).
"""

import json

from backfill_assets.examples.features_v2.generator import files


def test_the_same_files_are_made_every_time() -> None:
    assert files() == files()


def test_refunds_and_the_web_occur_within_ninety_days() -> None:
    rows = [json.loads(line) for text in files().values() for line in text.splitlines()]
    assert (min(r["bought_at"] for r in rows)[:10], max(r["bought_at"] for r in rows)[:10], len(files())) == (
        "2024-12-01", "2025-02-28", 90,
    )  # fmt: skip
    assert {(r["cents"] > 0, r["channel"]) for r in rows} == {(a, b) for a in (True, False) for b in ("web", "shop")}
