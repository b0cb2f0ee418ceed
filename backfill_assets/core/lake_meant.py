"""Which lake is meant: the one named, that of the environment, else that of the project.

Lives here: the one place that decides it, for commands, readers and Dagster. Does not live here: what a lake is
(`lake.home`). A command looks here before it has imported anything, so this imports next to nothing.
"""

import os
from collections.abc import Sequence
from pathlib import Path

LAKE_OPTION = "--lake"
LAKE_VARIABLE = "BACKFILL_ASSETS_LAKE"
DEFAULT_FOLDER = ".lake"


def project_root() -> Path:
    """The checkout this package runs from, else the working folder (an installed package has no project of its own)."""
    checkout = Path(__file__).resolve().parents[2]
    return checkout if (checkout / "dagster.yaml").exists() else Path.cwd()


def lake_folder(named: str | None = None) -> Path:
    """The folder of the lake meant: the one named, else $BACKFILL_ASSETS_LAKE, else `.lake` in the project."""
    chosen = named or os.environ.get(LAKE_VARIABLE)
    return Path(chosen).expanduser().resolve() if chosen else project_root() / DEFAULT_FOLDER


def named_in(words: Sequence[str]) -> str | None:
    """The lake that the words of a command seem to name, before anybody has read them: the last one that is not empty.

    Only a guess, for where to ask for a process: that one reads the words as the command itself does.
    """
    found = None
    for at, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option == LAKE_OPTION:
            found = (value if equals else "".join(words[at + 1 : at + 2])) or found
    return found
