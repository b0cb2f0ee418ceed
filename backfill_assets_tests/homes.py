"""Dagster's homes, with the package's own storage of events: what users have, and half of the CPU
of a small run. Here: making a home for commands, and opening one in this process. Not here: homes
with Dagster's own storage, on which some tests stay, killed runs and a user's own pipeline among
them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # commands are started without it
    import dagster as dg

STORAGE = {
    "module": "backfill_assets.orchestration.event_storage",
    "class": "BatchedEventLogStorage",
}


def make_home(folder: Path, more: str = "") -> Path:
    """A folder, made if need be, for DAGSTER_HOME; `more` are further settings of
    `dagster.yaml`."""
    folder.mkdir(parents=True, exist_ok=True)
    storage = json.dumps(_storage(folder))  # which is YAML, too
    settings = f"telemetry: {{enabled: false}}\nevent_log_storage: {storage}\n{more}"
    (folder / "dagster.yaml").write_text(settings, encoding="utf-8")
    return folder


@contextmanager
def opened_home(folder: Path | str) -> "Iterator[dg.DagsterInstance]":
    """The instance of a folder, opened in this process."""
    import dagster as dg

    with dg.DagsterInstance.local_temp(
        str(folder), overrides={"event_log_storage": _storage(folder)}
    ) as instance:
        yield instance


def _storage(folder: Path | str) -> dict[str, Any]:
    return {**STORAGE, "config": {"base_dir": str(Path(folder, "history", "runs"))}}
