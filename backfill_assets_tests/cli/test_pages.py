"""Pages and files: text is escaped, pictures are not, a missing value is an error, and a file is whole or not there.

Tested here: `cli.pages`. Not tested here: the pages (`test_report`, `test_lateness`).
"""

import stat
from pathlib import Path

import click
import pytest
from jinja2 import UndefinedError

from backfill_assets.cli.pages import drawn, environment, write_whole


def test_text_is_escaped_and_drawn_pictures_are_not() -> None:
    page = environment().from_string("{{ name }}{{ plots.one }}")
    shown = page.render(name="<script>", plots=drawn({"one": "<svg/>"}))
    assert shown == "&lt;script&gt;<svg/>"


def test_a_process_that_makes_several_pages_compiles_each_template_once() -> None:
    assert environment() is environment()
    assert environment().get_template("base.html.j2") is environment().get_template("base.html.j2")


def test_a_name_that_is_not_given_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        environment().from_string("{{ nobody }}").render()


def test_numbers_are_spelled_for_people() -> None:
    page = environment().from_string("{{ 1234567 | number }} {{ 7200 | seconds }} {{ 2.5 | span }} {{ 0.25 | wanted }}")
    assert page.render() == "1,234,567 2.0 h 2.5 d 25 %"


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
