"""Which lake is meant: the one named, that of the environment, else that of the project.

Lives here: the one place that decides it, for commands, readers and Dagster. Does not live here: what a lake is
(`lake.home`).
"""

import os
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
