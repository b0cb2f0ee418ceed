"""How things look to people: tables that fit, numbers that claim nothing false, text that is shown and not obeyed.

Tested here: `cli.drawing`. Not tested here: what commands say with it.
"""

import itertools

import click
import pytest

from backfill_assets.cli.drawing import (
    broken,
    draw_table,
    line_width,
    number,
    percent,
    percent_as_typed,
    remark,
    say,
    size,
    span,
)

LONG = "a sentence that is much longer than thirty characters"


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0, "0.00 %"), (1e-9, "<0.01 %"), (0.5, "50.00 %"), (0.999999, ">99.99 %"), (1, "100.00 %")],
)
def test_a_share_claims_neither_nothing_nor_everything_where_it_is_not_so(share: float, shown: str) -> None:
    assert percent(share) == shown


@pytest.mark.parametrize(
    ("days", "shown"), [(None, "-"), (0, "0.0 d"), (-2, "-2.0 d"), (0.5, "12.0 h"), (1 / 1440, "1.0 min")]
)
def test_a_duration_has_the_unit_that_people_would_take(days: float | None, shown: str) -> None:
    assert span(days) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (0, "0 B"),
        (999, "999 B"),
        (81_400, "81 kB"),
        (1_240_000, "1.2 MB"),
        (999_600, "1.0 MB"),
        (10**15, "1000 TB"),
    ],
)
def test_bytes_have_the_unit_that_people_would_take(value: int | None, shown: str) -> None:
    assert size(value) == shown


@pytest.mark.parametrize("columns", ["40", "80", "120"])
def test_heads_stand_above_their_cells_whatever_is_broken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    """A span of days is wider than a sentence's narrowest column, and no word is broken."""
    monkeypatch.setenv("COLUMNS", columns)
    draw_table(["day", *"abcdef"], [["2026-09-26..2026-11-24 (60 days)", *["fresh 26,467 v1"] * 6]])
    lines = capsys.readouterr().out.splitlines()
    heads = [(head, cells) for head, cells in itertools.pairwise(lines) if head.startswith("day")]
    assert heads
    for head, cells in heads:
        assert [i for i, c in enumerate(head) if c in "abcdef" and head[i - 1] == " "] == [
            i for i in range(len(cells)) if cells[i:].startswith("fresh")
        ]


def test_numbers_have_their_thousands_separated() -> None:
    assert (number(None), number(0), number(1234567), percent_as_typed(0.995)) == ("-", "0", "1,234,567", "99.5 %")


def test_a_pipe_gets_whole_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert line_width() is None
    draw_table(["day", "why"], [["2024-03-01", LONG * 9]])
    assert capsys.readouterr().out.splitlines()[1] == f"2024-03-01  {LONG * 9}"


def test_a_narrow_screen_breaks_sentences_between_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    draw_table(["day", "why"], [["2024-03-01", LONG]])
    say(LONG, hang=4)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40
    assert " ".join(" ".join(lines[1:-2]).removeprefix("2024-03-01").split()) == LONG
    assert lines[-1].startswith("    ")
    say(command := f"Held until: backfill-assets release {LONG}")
    assert capsys.readouterr().out == f"{command}\n", "a command is copied, so that it stays whole"
    remark(LONG)
    click.echo("Error: " + broken(LONG, len("Error: ")), err=True)
    lines = capsys.readouterr().err.splitlines()
    assert max(map(len, lines)) <= 40
    assert " ".join(" ".join(lines).split()) == f"{LONG} Error: {LONG}"


def test_columns_that_do_not_fit_are_drawn_below_each_other_with_their_day(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    draw_table(["day", "raw", "staging"], [["2024-03-01", "fresh_12345", "stale_12345"]])
    assert capsys.readouterr().out.split("\n\n") == [
        "day         raw\n2024-03-01  fresh_12345", "day         staging\n2024-03-01  stale_12345\n",
    ]  # fmt: skip


def test_whole_numbers_stand_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    draw_table(["table", "rows"], [["raw", "7"], ["staging", "1,234"]], "what there is")
    assert capsys.readouterr().out.splitlines() == [
        "what there is",
        "table     rows",
        "raw          7",
        "staging  1,234",
    ]


def test_what_a_lake_contains_is_shown_and_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    say("a\x1b[31mb")
    draw_table(["a\x1b]0;x"], [["b\x1b]0;y"]], title="c\x1b]0;z")
    remark("c\u202ed")
    said = capsys.readouterr()
    assert "\x1b" not in said.out
    assert "\u202e" not in said.err
