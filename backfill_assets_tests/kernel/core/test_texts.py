"""Texts from elsewhere, as they reach a screen.

Tested here: `kernel.core.texts`. Not tested here: that commands use it (`cli`).
"""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.texts import (
    printable_text,
    scrub_secrets,
    shortened_text,
    shown_setting,
)
from backfill_assets_tests.secret_forms import FORMS, SECRET


def test_what_turns_the_writing_or_moves_the_cursor_is_escaped() -> None:
    assert printable_text("a\u202etxt.jsonl") == "a\\u202etxt.jsonl"
    assert printable_text("\x1b[2J\r\n\udcff") == "\\x1b[2J\\x0d\\x0a\\xff"
    assert printable_text("a\u2066b\u2069\u2028\U000e0041") == "a\\u2066b\\u2069\\u2028\\U000e0041"


@settings(deadline=None)
@given(st.text())
def test_what_is_printed_is_printable(text: str) -> None:
    assert printable_text(text).isprintable()
    printable_text(text).encode()


@settings(deadline=None)
@given(st.text(), st.integers(1, 20))
def test_a_shortened_text_is_no_longer_than_asked_and_says_that_it_was_cut(
    text: str, most: int
) -> None:
    cut = shortened_text(text, most)
    assert len(cut) <= most
    assert cut == text or cut.endswith("…")


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    "around", ["{}", "it says: {}", "'{}' is wrong", '"{}", and more', "a://b,{} and c", "{}\nnext"]
)
def test_no_form_of_a_secret_is_shown(form: str, around: str) -> None:
    text = around.format(form)
    assert SECRET not in scrub_secrets(text)
    assert scrub_secrets(scrub_secrets(text)) == scrub_secrets(text)
    error = BackfillError(text, text, text, text)
    assert SECRET not in str(error) + repr(error) + str(error.args)


PLAIN_TEXTS = (
    "landing/customer_key=42/2024-03-01.csv",
    "s3://bucket/lake/part-?.csv",
    "abfss://container@account.dfs.core.windows.net/x",
    "http://127.0.0.1:3000/runs/1",
    "the environment variable AZURE_STORAGE_SAS_TOKEN: it holds no address",
    "Write postgresql://USER:PASSWORD@HOST:PORT/DATABASE#TABLE, other signs in its parts as %XX",
    "me@example.org wrote s3://bucket/me@home",
    "key = ['event_key'], sequence=3, a basic understanding, 3 token(s)",
)


@pytest.mark.parametrize("text", PLAIN_TEXTS)
def test_what_is_no_secret_is_shown_as_it_is(text: str) -> None:
    assert scrub_secrets(text) == text


def test_a_known_secret_is_shown_nowhere() -> None:
    assert scrub_secrets("say hunter2, or hunter", "hunter2", "") == "say ***, or hunter"


@pytest.mark.slow
def test_a_long_text_is_scrubbed_in_linear_time() -> None:
    began = time.process_time()
    for unit in (
        "a",
        "://a:",
        "?a=",
        "token=",
        "password='",
        "authorization: ",
        "Bearer a",
        "@",
        ":/",
        '"',
        "sig",
    ):
        scrub_secrets(unit * (200_000 // len(unit)) + " s3://a:b@c")
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("engine", "sc://h/;token=a", "sc://h/;token=***"),
        ("token", "a", "***"),
        ("fs.s3a.secret.key", "a", "***"),
        ("confs", {"some.secret": "a"}, "the keys some.secret"),
        ("memory", "2x", "2x"),
        (
            "to",
            "smtps://me:hunter2@mail and sc://h:1/;token=a",
            "smtps://me:***@mail and sc://h:1/;token=***",
        ),
    ],
)
def test_a_setting_is_shown_without_its_secret(key: str, value: object, told: str) -> None:
    assert shown_setting(key, value) == told
