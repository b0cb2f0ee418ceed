"""The front door for readers: a lake and its tables, for notebooks, training and other programs.

Lives here: finding the lake and its pipeline. Does not live here: what can be read of it (`operations.reader`). Unlike
the other doors it takes no rights from folders and gives this process no umask: it only reads.
"""

from pathlib import Path

from backfill_assets.core.process import lake_folder
from backfill_assets.lake.home import Lake
from backfill_assets.lake.settings import load_settings
from backfill_assets.operations.reader import LakeReader
from backfill_assets.pipeline.chosen import chosen_pipeline


def open_lake(folder: str | Path | None = None) -> LakeReader:
    """The lake in that folder (None: $BACKFILL_ASSETS_LAKE, else `.lake` in the project), to be read without a JVM.

    Raises SettingsError where there is none, or its `lake.toml` or own tables are bad.
    """
    root = lake_folder(None if folder is None else str(folder))
    lake = Lake(root, load_settings(root))
    return LakeReader(lake, chosen_pipeline(lake))
