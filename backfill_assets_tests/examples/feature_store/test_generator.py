"""The files of the example `feature-store` hold three days, and one row that comes later.

Tested here: what is generated. Not tested here: the steps, and what comes of the rows (`end_to_end`).
"""

import json

from backfill_assets.examples.feature_store.generator import OFFLINE, files


def test_the_same_files_are_made_every_time() -> None:
    assert files() == files()


def test_one_row_is_late() -> None:
    (late,) = [json.loads(text) for name, text in files().items() if name.startswith("later")]
    assert (late["user_id"], late["played_at"][:10], late["sent_at"][:10]) == (OFFLINE, "2025-06-02", "2025-06-04")
