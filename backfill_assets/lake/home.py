"""A lake's folder: where its tables, ledgers, locks and state lie, and which lake is meant when none is named.

Lives here: paths and the loading of the settings. Does not live here: reading or writing a table.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from backfill_assets.lake.settings import LakeSettings, load_settings

LAKE_VARIABLE = "BACKFILL_ASSETS_LAKE"
DEFAULT_FOLDER = ".lake"


@dataclass(frozen=True)
class Lake:
    """An opened lake: its folder (absolute) and its settings."""

    root: Path
    settings: LakeSettings

    def table_path(self, name: str) -> Path:
        """Where the Delta table of that name lies; `name` comes from a contract, never from user input."""
        return self.root / "tables" / name

    @property
    def stock(self) -> Path:
        """Strictly parsed copies of landed text files, named by their sha256; can be deleted and is made again."""
        return self.root / ".stock"

    @property
    def locks(self) -> Path:
        """The lock files, outside the tables so that no reader sees them."""
        return self.root / ".locks"


def open_lake(root: Path) -> Lake:
    """The lake at `root`; raises SettingsError where its `lake.toml` is missing or bad."""
    root = root.expanduser().resolve()
    return Lake(root, load_settings(root))


def project_root() -> Path:
    """The checkout this package runs from, else the working folder (an installed package has no project of its own)."""
    checkout = Path(__file__).resolve().parents[2]
    return checkout if (checkout / "dagster.yaml").exists() else Path.cwd()


def lake_folder(named: str | None = None) -> Path:
    """The folder of the lake meant: the one named, else $BACKFILL_ASSETS_LAKE, else `.lake` in the project."""
    chosen = named or os.environ.get(LAKE_VARIABLE)
    return Path(chosen).expanduser().resolve() if chosen else project_root() / DEFAULT_FOLDER
