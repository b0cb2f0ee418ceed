"""The sample lake: a folder with the sample's files, its settings, and the marker by which `demo` knows it.

Not here: its rows (`sample`), loading and replacing it (`cli.demo`).
"""

import json
import os
import tomllib
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from backfill_assets.core.cuts import end_of
from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.errors import SettingsError
from backfill_assets.engine.confs import scrub
from backfill_assets.lake.settings import FILE_NAME, LakeSettings, load_settings
from backfill_assets.operations.lake_file import lake_toml
from backfill_assets.operations.sample import SELECT, sample_files

MARKER = ".demo"
DAYS = 30
SETTINGS: Mapping[str, Any] = {
    "files": "landing/**/*.jsonl", "format": "jsonl", "select": SELECT, "windows_days": [3, 7], "horizon_days": 3,
    "maturity_days": 2, "memory": "1g",
}  # fmt: skip


def days_until(today: date, days: int = DAYS) -> DayRange:
    """Return the days of a sample that ends the day before `today`."""
    return DayRange(today - ONE_DAY * days, today)


def sample_settings(days: DayRange) -> LakeSettings:
    """Return the settings of a sample of these days, without a file."""
    settings: LakeSettings = LakeSettings.model_validate(tomllib.loads(_toml(days)))
    return settings


def make_sample(root: Path, days: DayRange, engine: str = "embedded") -> None:
    """Make the sample lake of these days; raises SettingsError for a folder that is not empty."""
    if root.exists() and any(root.iterdir()):
        raise not_ours(root)
    root.mkdir(parents=True, exist_ok=True)
    (root / MARKER).write_text(json.dumps({"first": str(days.start), "end": str(days.end)}) + "\n", encoding="utf-8")
    for name, text in sample_files(days.start, len(days)).items():
        path = root / "landing" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        # As if each had been delivered when its day was over: a scan waits for files that were just written.
        landed = end_of(date.fromisoformat(path.stem[len("orders-") :][:10])).timestamp()
        os.utime(path, (landed, landed))
    (root / FILE_NAME).write_text(_toml(days, engine), encoding="utf-8")


def _toml(days: DayRange, engine: str = "embedded") -> str:
    return lake_toml({**SETTINGS, "start_date": days.start, "engine": engine})


def not_ours(root: Path) -> SettingsError:
    """Return the error about a folder that is no sample."""
    return SettingsError(
        f"the lake {root}",
        "`demo` did not make it",
        "It was left as it is",
        "Name an empty folder with --lake, or use `backfill-assets backfill`",
    )


def sample_days(root: Path) -> DayRange | None:
    """Return the days of the sample lake at `root`, None without one; raises SettingsError for a damaged marker."""
    try:
        said = json.loads((root / MARKER).read_text(encoding="utf-8"))
        return DayRange(date.fromisoformat(said["first"]), date.fromisoformat(said["end"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise SettingsError(
            str(root / MARKER), "it is not what `demo` writes", "The lake was left as it is", "Remove the lake by hand"
        ) from None


def refuse_other_engine(root: Path, engine: str) -> None:
    """Raise SettingsError if the sample lake at `root` has another engine."""
    has = load_settings(root).spark.engine
    if has != engine:
        raise SettingsError(
            f"the sample lake {root}", f"its engine is {scrub(has)}, not {engine}", "Nothing was done",
            f"Add --new for a fresh one, or set engine = \"{engine}\" in its {FILE_NAME}: its days stay as they are",
        )  # fmt: skip
