"""New lakes to try the package with: its examples (settings copied, landed files generated), and the sample of `demo`.

Not here: the content of examples (`examples`), the sample's rows (`sample`), and loading (`cli.demo`, `STEPS.md`).
"""

import json
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from importlib import import_module
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from backfill_assets.core.days import ONE_DAY, DayRange, end_of
from backfill_assets.core.errors import SettingsError
from backfill_assets.engine.confs import scrub
from backfill_assets.lake.settings import FILE_NAME, LakeSettings, lake_toml, load_settings
from backfill_assets.operations.sample import SELECT, sample_files

HOME = "backfill_assets.examples"
STEPS = "STEPS.md"
COPIED = (".toml", ".md", ".sql")
# A scan waits for files that were just written; these were delivered long ago.
DELIVERED = datetime.fromisoformat("2024-01-01T00:00:00Z").timestamp()
MARKER = ".demo"
DAYS = 30
SETTINGS: Mapping[str, Any] = {
    "files": "landing/**/*.jsonl", "format": "jsonl", "select": SELECT, "windows_days": [3, 7], "horizon_days": 3,
    "maturity_days": 2, "memory": "1g",
}  # fmt: skip


def examples() -> dict[str, str]:
    """Return the title of every example's steps, by the example's name."""
    folders = {f.name.replace("_", "-"): f for f in files(HOME).iterdir() if (f / STEPS).is_file()}
    return {name: _title(folders[name]) for name in sorted(folders)}


def _title(folder: Traversable) -> str:
    return (folder / STEPS).read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")


def make_example(name: str, root: Path) -> None:
    """Make the lake of an example at `root`; raises SettingsError for unknown names and a folder that is not empty."""
    known = examples()
    if name not in known:
        raise SettingsError(
            f"the example {name!r}", "there is none of that name", "Nothing was made", f"Take one of {', '.join(known)}"
        )
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise SettingsError(
            f"the lake {root}", "the folder is not empty", "It was left as it is", "Name another --lake"
        )
    module = name.replace("-", "_")
    generated: Callable[[], dict[str, str]] = import_module(f"{HOME}.{module}.generator").files
    for place, text in (dict(_copied(files(HOME) / module)) | generated()).items():
        _write(root / place, text, DELIVERED)


def _copied(folder: Traversable, below: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path below the folder and the text of every file that a person may read and change: no generator."""
    for part in folder.iterdir():
        if part.is_dir():
            yield from _copied(part, f"{below}{part.name}/")
        elif part.name.endswith(COPIED):
            yield below + part.name, part.read_text(encoding="utf-8")


def _write(path: Path, text: str, delivered: float) -> None:
    """Write a file as if it had been delivered at that time (seconds since 1970)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    os.utime(path, (delivered, delivered))


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
        _write(path, text, end_of(date.fromisoformat(path.stem[len("orders-") :][:10])).timestamp())
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
