"""How things look to people: tables that fit, text that is shown and not obeyed, pages that are
whole or not there. Not here: what commands say with it, and their pages (`test_report`,
`test_lateness`)."""

import itertools
import stat
from pathlib import Path

import click
import pytest

from backfill_assets.cli.drawing import (
    Figure,
    Page,
    PageSection,
    TextTable,
    broken_lines,
    draw_table,
    html_of,
    line_width,
    remark,
    say,
    write_file_whole,
)

LONG = "a sentence that is much longer than thirty characters"


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


def test_a_pipe_gets_whole_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
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
    click.echo("Error: " + broken_lines(LONG, len("Error: ")), err=True)
    lines = capsys.readouterr().err.splitlines()
    assert max(map(len, lines)) <= 40
    assert " ".join(" ".join(lines).split()) == f"{LONG} Error: {LONG}"


def test_what_a_lake_contains_is_shown_and_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    say("a\x1b[31mb")
    draw_table(["a\x1b]0;x"], [["b\x1b]0;y"]], title="c\x1b]0;z")
    remark("c\u202ed")
    said = capsys.readouterr()
    assert "\x1b" not in said.out
    assert "\u202e" not in said.err


HOSTILE = "<script>"

TABLE = TextTable(("note", "rows"), [(HOSTILE, "7")], HOSTILE)


def test_text_is_escaped_and_drawn_pictures_are_not() -> None:
    section = PageSection(
        HOSTILE, [TABLE], [HOSTILE], [HOSTILE], [Figure("one", HOSTILE, HOSTILE, "<svg/>")]
    )
    made = html_of(Page("audit", HOSTILE, HOSTILE, [section], [HOSTILE]))
    assert HOSTILE not in made
    assert made.count("&lt;script&gt;") > 8
    assert "<svg/>" in made
    assert "audit --html" in made
    assert '<td class="n">7' in made, "numbers stand to the right"


def test_a_file_is_written_whole_for_whom_the_lake_lets_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new" / "page.html"
    write_file_whole(file, "one\n", umask=0o027)
    assert file.read_bytes() == b"one\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [p.name for p in file.parent.iterdir()] == ["page.html"]
    assert capsys.readouterr().err == f"wrote {file}\n"


def test_a_place_that_cannot_be_written_is_told_and_what_was_there_stays(tmp_path: Path) -> None:
    (tmp_path / "page.html").mkdir()
    with pytest.raises(click.ClickException, match="It was not written"):
        write_file_whole(tmp_path / "page.html", "text")
    assert (tmp_path / "page.html").is_dir()
