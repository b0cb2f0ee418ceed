"""What erasures made of landed contents is known, through several of them, and where each record
stood. Not here: the rows that follow (`end_to_end.test_forget`)."""

from typing import Any

import pytest

from backfill_assets.intake.content_store import content_name_by_path
from backfill_assets.intake.forgotten import all_erasures, begin_erasure
from backfill_assets.intake.heirs import (
    BYTES_AFTER,
    BYTES_BEFORE,
    erased_origins,
    number_before,
    with_heirs,
)
from backfill_assets.kernel.tables.home import Lake


def erased(lake: Lake, *entries: dict[str, Any]) -> None:
    """An erasure for each entry of a landed file."""
    for entry in entries:
        made = begin_erasure(lake, {"entity": str(len(all_erasures(lake)))}, "")
        made.done["landed"] = [entry]
        made.keep()


def step(
    was: str, now: str, gone: list[int], path: str = "a.csv", by_path: bool = False
) -> dict[str, Any]:
    """An entry: the name that the ledger had, and the bytes."""
    named = content_name_by_path(was, path) if by_path else was
    return {"before": named, "path": path, BYTES_BEFORE: was, BYTES_AFTER: now, "gone": gone}


@pytest.mark.parametrize("by_path", [False, True])
def test_a_record_stands_where_it_stood_whatever_named_the_file_when_rewritten(
    lake: Lake, by_path: bool
) -> None:
    """As the numbers of before: c lost 2 and 4 of a, then the second and third of what was left."""
    erased(
        lake, step("a", "b", [2, 4], by_path=by_path), step("b", "c", [2, 3], by_path=not by_path)
    )
    found = erased_origins(lake)
    assert found.of("b") == ("a", (2, 4))
    assert found.of("c") == ("a", (2, 3, 4, 5))
    assert found.of(content_name_by_path("c", "a.csv"), path="a.csv") == (
        content_name_by_path("a", "a.csv"),
        (2, 3, 4, 5),
    )
    assert found.of(content_name_by_path("c", "moved.csv"), path="moved.csv") == (
        content_name_by_path("a", "moved.csv"),
        (2, 3, 4, 5),
    )
    assert [found.of(name) for name in ("a", content_name_by_path("a", "a.csv"))] == [None, None]
    assert [number_before(n, (2, 4)) for n in (1, 2, 3, 4)] == [1, 3, 5, 6]


def test_what_an_erasure_made_of_a_content_is_known_by_every_name_before_the_ledger_has_one(
    lake: Lake,
) -> None:
    erased(lake, step("a", "b", [1]), step("b", "c", [1], by_path=True))
    names = {name for content in "bc" for name in (content, content_name_by_path(content, "a.csv"))}
    for known in ("a", content_name_by_path("a", "a.csv")):
        assert with_heirs(lake, [known]) == {known, *names}
    assert with_heirs(lake, ["c"]) == {"c"}
