"""A file of a table's code: its digest is of what was loaded, and it tells when the file has
changed since. One source has one digest under every Python of the machine. Not here: which changes
of a source count (`kernel/write/test_model.py`), and what `code_inputs` names
(`pipeline/test_tables.py`)."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from backfill_assets.kernel.write.code import SourceFile, python_digest
from backfill_assets_tests.sources import CHECKOUT


@pytest.mark.parametrize(
    ("name", "text", "same", "other"),
    [
        ("a.py", "x = 1\n", "# why\nx =  1\n", "x = 2\n"),
        ("a.sql", "SELECT 1", "-- why\r\nselect 1".replace("select", "SELECT"), "SELECT 2"),
    ],
)
def test_comments_and_layout_do_not_count(
    tmp_path: Path, name: str, text: str, same: str, other: str
) -> None:
    made = [SourceFile(tmp_path / name, t.encode()) for t in (text, same, other)]
    assert made[0].digest == made[1].digest != made[2].digest


def test_a_file_that_changed_or_is_gone_has_moved(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    file = SourceFile.read(path)
    digest = file.digest
    assert not file.has_moved
    path.write_text("x = 2\n")
    assert (file.has_moved, file.digest) == (True, digest)
    path.unlink()
    assert file.has_moved


HARD = r'''
"""What lives here."""
from functools import partial
import os.path as there

@partial(print, end="")
async def f(a, /, b: int = 1, *args, c=None, **more) -> "int":
    """Docstring."""
    # a comment
    async with a as x, b: pass
    return f"{a!r:>{b}} {c:%H:%M{b}} {a = } {{}}" f"" "x" rf"\d{b:{a}{c}}" f"{{}}{a}\N{EM DASH}"

class C(object):
    days: int = 7
    def g(self):
        match self:
            case {"a": [1, *_], **rest} if (n := 1) > 0: return rest
            case C(days=7) | None: pass
        try: yield 1_000, 0x1F, 1e3, 2j, b"\xff", ..., "\U0001fae8 \x7f é", u"\ue000"
        except* ValueError: raise
        else: lambda *a, k=1: {**a, 1: {2}}
        global h; del h
'''
DIGEST = "da202f4292b2d8165ad06e1c43bde866"
TOOL = (
    "import sys; sys.path.insert(0, sys.argv[1]); sys.dont_write_bytecode = True; "
    "from backfill_assets.kernel.write.code import python_digest; "
    "print(python_digest(sys.stdin.buffer.read()))"
)


def _pythons() -> Iterator[Path]:
    """The Pythons 3.11 to 3.13 that lie on the path or are installed by pyenv."""
    for minor in (11, 12, 13):
        named = shutil.which(f"python3.{minor}")
        found = sorted((Path.home() / ".pyenv" / "versions").glob(f"3.{minor}.*/bin/python"))
        yield from [Path(named)] if named and not found else found[:1]


def test_a_source_has_the_digest_that_was_written_down() -> None:
    assert python_digest(HARD.encode()) == DIGEST


@pytest.mark.usefixtures("processes")
def test_every_python_of_the_machine_gives_one_digest() -> None:
    given = {}
    for python in _pythons():
        done = subprocess.run(
            [python, "-I", "-c", TOOL, str(CHECKOUT)],
            input=HARD.encode(),
            capture_output=True,
            check=False,
        )
        if b"is not a command" not in done.stderr and b"command not found" not in done.stderr:
            given[str(python)] = done.stdout.decode().strip() or done.stderr.decode()
    if not given:
        pytest.skip("no other Python is installed")
    assert set(given.values()) == {DIGEST}, given


@pytest.mark.parametrize("prose", ["# more\n", "\n\n", '"""Other."""\n'])
def test_prose_does_not_count(prose: str) -> None:
    source = b"x = (1,\n     2)\n"
    assert (
        python_digest(prose.encode() + source)
        == python_digest(b"x = 1, 2\n")
        != python_digest(b"x = 1, 3\n")
    )
