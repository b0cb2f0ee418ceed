"""What erasures made of landed contents is known, through several of them, and where each record stood.

Tested here: `lake.heirs`. Not tested here: the rows that follow (`end_to_end.test_forget`).
"""

from pathlib import Path

import pytest

from backfill_assets.lake.forgotten import begin_erasure, erasures
from backfill_assets.lake.heirs import before, origins, with_heirs
from backfill_assets.lake.home import Lake
from backfill_assets_tests.files import bare_lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return bare_lake(tmp_path)


def test_records_keep_their_order_through_several_erasures_of_a_file(lake: Lake) -> None:
    """As the numbers of before: c lost 2 and 4 of a, then the second and third of what was left."""
    steps = (("a", "b", [2, 4]), ("b", "c", [2, 3]), ("z", "c", [1]), ("x", "y", None))
    for number, (was, now, gone) in enumerate(steps):
        made = begin_erasure(lake, {"entity": str(number)}, "")
        made.done["landed"] = [{"before": was, "after": now, **({"gone": gone} if gone else {})}]
        made.keep()
    assert origins(lake) == {"b": ("a", (2, 4)), "c": ("z", (1,))}, "of two that became one the last in order counts"
    assert [before(n, (2, 4)) for n in (1, 2, 3, 4)] == [1, 3, 5, 6]
    begun = erasures(lake)[2]
    begun.done["landed"] = []
    begun.keep()
    assert origins(lake)["c"] == ("a", (2, 3, 4, 5))


def test_what_erasures_made_of_a_content_one_after_the_other_is_known(lake: Lake) -> None:
    for values, was, now in (({"entity": "ann"}, "a", "b"), ({"entity": "bob"}, "b", "c")):
        made = begin_erasure(lake, values, "")
        made.done["landed"] = [{"before": was, "after": now}, {"before": "x"}]
        made.keep()
    assert [sorted(with_heirs(lake, found)) for found in (["a", "x"], ["c"])] == [["a", "b", "c", "x"], ["c"]]
