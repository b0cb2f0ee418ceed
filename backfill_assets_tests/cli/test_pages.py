"""Pages and files: text is escaped, pictures are not, a missing value is an error, and a file is whole or not there.

Tested here: `cli.drawing`. Not tested here: the pages (`test_report`, `test_lateness`).
"""

import stat
from pathlib import Path

import click
import pytest

from backfill_assets.cli.drawing import Figure, Page, PageSection, TextTable, html_of, write_whole

HOSTILE = "<script>"
TABLE = TextTable(("note", "rows"), [(HOSTILE, "7")], HOSTILE)


def test_text_is_escaped_and_drawn_pictures_are_not() -> None:
    section = PageSection(HOSTILE, [TABLE], [HOSTILE], [HOSTILE], [Figure("one", HOSTILE, HOSTILE, "<svg/>")])
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
    write_whole(file, "one\n", umask=0o027)
    assert file.read_bytes() == b"one\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [p.name for p in file.parent.iterdir()] == ["page.html"]
    assert capsys.readouterr().err == f"wrote {file}\n"


def test_a_place_that_cannot_be_written_is_told_and_what_was_there_stays(tmp_path: Path) -> None:
    (tmp_path / "page.html").mkdir()
    with pytest.raises(click.ClickException, match="It was not written"):
        write_whole(tmp_path / "page.html", "text")
    assert (tmp_path / "page.html").is_dir()
