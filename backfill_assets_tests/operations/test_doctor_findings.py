"""What the doctor says: levels, JSON, and lists that stay short.

Tested here: `operations.doctor_tables`. Not tested here: the examinations (`test_doctor`).
"""

from backfill_assets.core.texts import json_of
from backfill_assets.operations.doctor_tables import SHOWN, Level, broken, fine, first_names, odd


def test_each_word_has_its_level_and_what_is_fine_asks_for_nothing() -> None:
    assert json_of(fine("Java", "is 21")) == {"level": "ok", "object": "Java", "what": "is 21", "advice": ""}
    assert odd("the disk", "is nearly full", "free some").level is Level.WARN
    assert broken("raw", "has no log", "restore it").level is Level.ERROR


def test_a_long_list_shows_its_first_names_and_how_many_more_there_are() -> None:
    assert first_names(range(SHOWN)) == "0, 1, 2, 3, 4"
    assert first_names(range(SHOWN + 2)) == "0, 1, 2, 3, 4 and 2 more"
    assert first_names([]) == ""
