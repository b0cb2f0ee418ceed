"""The drawing of the rooms shows the code's own imports, and no arrow that others already lead along.

Tested here: the drawing. Not tested here: whether the arrows are allowed (`test_architecture.py`).
"""

from collections import Counter

from backfill_assets_tests.rooms import arrows, direct, drawing


def test_arrows_that_others_lead_along_are_left_out() -> None:
    found = Counter(
        {("cli", "load"): 2, ("load", "lake"): 1, ("cli", "lake"): 3, ("lake", "core"): 1, ("cli", "core"): 1}
    )
    assert set(direct(found)) == {("cli", "load"), ("load", "lake"), ("lake", "core")}


def test_the_drawing_shows_the_rooms_and_their_arrows() -> None:
    assert ("load", "lake") in arrows()
    assert "  load -->|" in drawing()
    assert '  core["core<br>' in drawing()
