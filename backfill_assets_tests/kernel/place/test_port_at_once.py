"""Answers of a place that is asked many things: at once of a store, one after another of a folder.
Not here: what is asked (`kernel.tables.test_view`)."""

import threading
from pathlib import Path

import pytest

from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.port import MOST_AT_ONCE, answers_of


class Store(Folder):
    """A folder that passes for a store."""

    @property
    def is_store(self) -> bool:
        return True


def test_a_store_is_asked_at_once_and_a_folder_in_this_thread(tmp_path: Path) -> None:
    others = threading.Barrier(MOST_AT_ONCE, timeout=60)

    def ask(number: int) -> int:
        others.wait()  # fewer at once would wait for ever
        return -number

    numbers = range(MOST_AT_ONCE)
    assert answers_of(Store(str(tmp_path)), ask, numbers) == [-number for number in numbers]
    asked = answers_of(Folder(str(tmp_path)), lambda _: threading.get_ident(), numbers)
    assert {*asked} == {threading.get_ident()}


def test_the_first_error_in_the_order_of_what_is_asked_is_raised(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        answers_of(Store(str(tmp_path)), lambda number: 1 // number, [1, 0, 2])
