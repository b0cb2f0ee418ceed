"""Regular expressions over landed text take linear time, whatever the text: a row has up to a
mebibyte.

Tested here: every expression of the package that Python, or an engine that backtracks as Python
does, applies to what others write. Not tested here: what the expressions find (the tests of their
modules).
"""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.erasure.traces import (
    CELL_BEFORE,
    CELL_BEHIND,
    WORD_BEGIN_BEHIND,
    WORD_END_BEFORE,
)
from backfill_assets.intake.batches import BadRecord
from backfill_assets.intake.casting import FRACTION
from backfill_assets.intake.csv_records import _Grammar
from backfill_assets.intake.dialect import MOST_SIGNS, Dialect
from backfill_assets.intake.json_lines import BRACKETS, PLAIN, UNPLAIN_NAME
from backfill_assets.intake.paths import BY_NUMBER, NUMBER
from backfill_assets.intake.session_free import NO_DAY
from backfill_assets.kernel.core.texts import WHITE, one_line
from backfill_assets.reading.rejected import VARYING

SIGNS, SECONDS = 20_000, 0.5  # quadratic time would be minutes
GERMAN = Dialect(separator=";", numbers=("v",), decimal=",", thousands=".")
BLANKS = Dialect(separator=";", numbers=("v",), decimal=",", thousands=" ")
PATTERNS = {
    "a number": Dialect(numbers=("v",)).number,
    "a German number": GERMAN.number,
    "a number with blanks between thousands": BLANKS.number,
    "a fraction": FRACTION,
    "white space": WHITE.pattern,
    "brackets of JSON": BRACKETS.pattern,
    "names of JSON": UNPLAIN_NAME.pattern,
    "times without a day": NO_DAY,
    "what varies in a reason": VARYING.pattern,
    "what stands before a value": WORD_END_BEFORE.pattern,
    "what stands behind a value": WORD_BEGIN_BEHIND.pattern,
    "what stands before a cell": CELL_BEFORE.pattern,
    "what stands behind a cell": CELL_BEHIND.pattern,
    **{f"a JSON {kind.__name__}": value.pattern for kind, value in PLAIN.items()},
    **{
        f"CSV {width}": _Grammar(",", '"').records(width, b"\n").pattern.decode("latin-1")
        for width in (1, 3)
    },
}
UNITS = (
    " ",
    "\t",
    "0",
    "1",
    ".",
    "1.",
    ".111",
    "e",
    "-",
    "'",
    '"',
    "\\",
    '\\"',
    '""',
    "[",
    "a",
    ",",
    "a,",
    "1 ",
    "\n",
)


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_an_expression_over_landed_text_takes_linear_time(pattern: str) -> None:
    compiled = re.compile(pattern)
    slow = []
    for before in ("", " ", "1", "0.", '"'):
        for unit in UNITS:
            text = before + unit * (SIGNS // len(unit)) + "\x01x"
            began = time.process_time()
            compiled.fullmatch(text)
            compiled.match(text)
            if time.process_time() - began > SECONDS:
                slow.append((before, unit))
    assert slow == []


def test_a_path_as_long_as_a_file_system_takes_is_read_in_time() -> None:
    assert NUMBER in BY_NUMBER
    began = time.process_time()
    for unit in UNITS:
        re.search(NUMBER, unit * (4096 // len(unit)) + "\x01/")
    assert time.process_time() - began < SECONDS


def test_a_message_with_a_mebibyte_of_blanks_becomes_one_line_in_time() -> None:
    began = time.process_time()
    assert one_line("a" + " " * (1 << 20) + "b \n\t c") == "a" + " " * (1 << 20) + "b c"
    assert time.process_time() - began < 4 * SECONDS


def test_a_number_of_more_signs_than_any_has_is_set_aside_by_its_length() -> None:
    assert GERMAN.as_number("v", "1" * MOST_SIGNS) == "1" * MOST_SIGNS
    for text in ("1" * (MOST_SIGNS + 1), " " * (1 << 20) + "x"):
        with pytest.raises(BadRecord, match=r"v has .* signs, and a number has 1,000 at most"):
            GERMAN.as_number("v", text)


@given(st.text(" 0123.,+-eE", max_size=12))
def test_the_linear_forms_take_what_the_quadratic_ones_took(text: str) -> None:
    before = GERMAN.number.replace(" *)?", ")? *")
    assert before != GERMAN.number
    assert bool(re.fullmatch(GERMAN.number, text)) is bool(re.fullmatch(before, text))
    now, then = re.match(FRACTION, text), re.match(r"^\s*[+-]?\d*\.(\d*?)0*\s*$", text)
    assert (now and now[1]) == (then and then[1])
