"""A unit of systemd, read as systemd.syntax(7) says, for tests that look at one or start what it
names. Here: the words of a service. Not here: systemd, which the tests need not have."""

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)')
ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True)
class Unit:
    """What a service runs."""

    command: tuple[str, ...]
    environment: dict[str, str]
    folder: Path  # its working folder

    def start(
        self, log: Path, through: Sequence[str] = (), **more: str
    ) -> "subprocess.Popen[bytes]":
        """Start it, `through` a program that runs what follows, with variables besides the unit's
        own; what it prints goes to the end of the log."""
        environ = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **self.environment}
        with log.open("ab") as written:
            return subprocess.Popen(
                (*through, *self.command),
                cwd=self.folder,
                env={**environ, **more},
                stdout=written,
                stderr=written,
                start_new_session=True,
            )


def unit_of(text: str) -> Unit:
    """The unit that a file's text describes."""
    settings = [line.partition("=")[::2] for line in text.splitlines() if "=" in line]
    lines = [(name, value) for name, value in settings if not name.startswith("#")]
    variables = [_words(value)[0] for name, value in lines if name == "Environment"]
    [command] = [_words(value) for name, value in lines if name == "ExecStart"]
    [folder] = [value for name, value in lines if name == "WorkingDirectory"]
    return Unit(
        tuple(word.replace("$$", "$") for word in command),
        dict(variable.split("=", 1) for variable in variables),
        Path(folder.replace("%%", "%")),
    )


def _words(value: str) -> list[str]:
    """The words of a line, without quotes, escapes and doubled percent signs."""
    return [
        (ESCAPED.sub(r"\1", quoted) if quoted else plain).replace("%%", "%")
        for quoted, plain in WORD.findall(value)
    ]
