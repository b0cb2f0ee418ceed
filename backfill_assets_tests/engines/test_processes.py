"""Processes of a folder and of a program: which are found, which are ended. Not here: the identity
of a process (`kernel.place.test_processes`), and what follows for servers (`test_server`)."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from backfill_assets.engines.processes import end_processes_in, program_environments


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("linked", [False, True])
def test_only_processes_of_the_folder_with_one_of_the_words_are_ended(
    tmp_path: Path, linked: bool
) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    named = tmp_path / "link" if linked else tmp_path
    code = ("-c", "import time; time.sleep(60)")
    wanted, of_another_folder, without_word = began = [
        subprocess.Popen((sys.executable, *code, *words), cwd=folder)
        for words, folder in (
            (("word",), tmp_path),
            (("word",), tmp_path.parent),
            (("words",), tmp_path),
        )
    ]
    try:
        end_processes_in(named, {"word", "another"}, 10)
        assert wanted.poll() == -signal.SIGTERM
        assert (of_another_folder.poll(), without_word.poll()) == (None, None)
        end_processes_in(tmp_path, {"word"}, 10)
    finally:
        for process in began:
            process.kill()
            process.wait()


def test_the_environment_of_a_program_of_this_user_is_read_by_its_name() -> None:
    found = dict(program_environments(Path(psutil.Process().cmdline()[0]).name))
    assert found[os.getpid()]["PATH"]
    assert not program_environments("a-program-of-no-such-name")
