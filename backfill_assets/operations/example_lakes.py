"""New lakes to try the package with: its examples (settings copied, landed files generated), and the sample of `demo`.

Not here: the content of examples (`examples`), the sample's rows (`sample`), and loading (`cli.demo`, `STEPS.md`).
"""

import json
import os
import shutil
import tomllib
from collections.abc import Callable, Mapping
from datetime import date, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import backfill_assets.examples as package
from backfill_assets.core.days import ONE_DAY, DayRange, end_of
from backfill_assets.core.errors import SettingsError
from backfill_assets.lake.settings import FILE_NAME, LakeSettings, lake_toml
from backfill_assets.operations.sample import SELECT, sample_files

HOME = Path(package.__file__).parent
STEPS = "STEPS.md"
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
    steps = {path.parent.name.replace("_", "-"): path.read_text(encoding="utf-8") for path in HOME.glob(f"*/{STEPS}")}
    return {name: steps[name].splitlines()[0].removeprefix("# ") for name in sorted(steps)}


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
    no_code = shutil.ignore_patterns("*.py", "__pycache__")
    shutil.copytree(HOME / module, root, ignore=no_code, copy_function=shutil.copyfile, dirs_exist_ok=True)
    generated: Callable[[], dict[str, str]] = import_module(f"{package.__name__}.{module}.generator").files
    for place, text in generated().items():
        _write(root / place, text, DELIVERED)


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
