"""What `doctor` says of Dagster's settings for a lake: whether runs begin as the README says.

Lives here: which `dagster.yaml` counts for the lake, what it lacks of ours, and who can open its pages. Does not live
here: opening an instance (`cli.dagster_home`), which would make its files: looking changes nothing.
"""

import os
import re
from pathlib import Path

from backfill_assets.cli.dagster_home import FILE, OF_A_LAKE, settings_file
from backfill_assets.lake.home import open_lake
from backfill_assets.operations.diagnosis import Diagnosis, fine

OURS = {"run_launcher": "WarmRunLauncher", "run_coordinator": "WarmQueue"}  # by section, their classes


def examine_dagster(root: Path) -> list[Diagnosis]:
    """What the lake's `dagster.yaml` lacks; nothing where there is none yet, since the one to come is ours.

    No reason for exit code 1: runs end alike with any launcher, and who runs them elsewhere has one of their own.
    """
    path = settings_file(open_lake(root))
    if not path.exists() and "DAGSTER_HOME" not in os.environ:
        return []
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    lacks = [name for name, kind in OURS.items() if not re.search(rf"^[^#\n]*\b{kind}\b", text, re.MULTILINE)]
    if not lacks:
        return [fine(f"Dagster's {FILE}", str(path))]
    told = f"{path} has no {' and no '.join(lacks)} of ours: each run begins with imports, seconds of a processor"
    return [fine(f"Dagster's {FILE}", f"{told}; copy these sections from {OF_A_LAKE}, unless you chose others")]


def tell_who_sees_pages() -> Diagnosis:
    """Who can use Dagster's pages of the lake: a property of the machine, not of its files."""
    told = "`dagster dev` answers every user of this machine, who may then start runs and roll back, too; "
    return fine("Dagster's pages", f"{told}`backfill-assets ui` answers only who has its address")
