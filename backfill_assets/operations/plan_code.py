"""The older code of a plan (`plan --code REF`): the pipeline file as git knows it at REF, frozen beside the plan.

Lives here: taking it out of git, refusing where there is no such file, and working by it. Does not live here: which
file that is (`[pipeline] tables` in `lake.toml`), reading it (`pipeline`), and pins (`plan_pins`).

One file is frozen, under a name by its content: what it imports is today's. The lake's setting is overridden for the
plan's own processes by its environment variable, so that every door they use, also of the processes they begin, finds
the older tables. Days made so show as outdated under today's code.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from backfill_assets.core.disk import publish
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.plans import PlanCode
from backfill_assets.lake.home import Lake
from backfill_assets.operations.plan_files import FOLDER

OVERRIDE = "BACKFILL_ASSETS__PIPELINE__TABLES"
CODE = "code"  # the folder of frozen files, below that of plans
GIT_SECONDS = 30.0  # of one question; the file system may be slow


def pin_code(lake: Lake, ref: str) -> PlanCode:
    """The lake's pipeline file as it was at a commit, branch or tag, frozen in the lake.

    Raises BackfillError where the lake's tables are not made by one file that git knows at `ref`.
    """
    pipeline = lake.settings.pipeline
    place, _, name = (pipeline.tables or "").rpartition(":")
    if not place.endswith(".py"):
        what = f"they are made by the module {place}" if place else "they are those of this product"
        raise _refused(
            "the tables of this lake", f"{what}, no file beside lake.toml, so that there is no older version to take",
            "Install the older version in an environment of its own and plan there, or name a file of yours in "
            "`[pipeline] tables`",
        )  # fmt: skip
    if pipeline.sql is not None:
        raise _refused(
            "the tables of this lake",
            f"some are made by SQL files ({pipeline.sql}), of which no older version is taken",
            "Check the older files out beside lake.toml and plan without --code",
        )  # fmt: skip
    path = (lake.root / place).resolve()
    commit = _git(path, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}").decode().strip()
    content = _git(path, "show", f"{commit}:./{path.name}")
    frozen = lake.root / FOLDER / CODE / f"{sha256(content).hexdigest()[:16]}.py"
    if not frozen.exists():
        frozen.parent.mkdir(parents=True, exist_ok=True)
        aside = frozen.with_suffix(f".{os.getpid()}")
        aside.write_bytes(content)
        publish(aside, frozen)
    return PlanCode(ref, commit, f"{frozen.relative_to(lake.root).as_posix()}:{name}")


@contextlib.contextmanager
def working_by(code: PlanCode | None) -> Iterator[None]:
    """Whoever opens the lake within, in this process or one that it begins, finds the tables of that code."""
    if code is None:
        yield
        return
    before = os.environ.get(OVERRIDE)
    os.environ[OVERRIDE] = code.tables
    try:
        yield
    finally:
        if before is None:
            del os.environ[OVERRIDE]
        else:
            os.environ[OVERRIDE] = before


def _git(path: Path, *words: str) -> bytes:
    """What git says of the repository that the file lies in."""
    program = shutil.which("git")
    if program is None:
        raise _refused(str(path), "git is not installed here", "Install git, or plan without --code")
    command = (program, "-C", str(path.parent), *words)
    try:
        done = subprocess.run(command, capture_output=True, timeout=GIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _refused(
            str(path), f"git gave no answer ({error})", "Try again, or plan with the file as it is"
        ) from None
    if done.returncode:
        told = done.stderr.decode(errors="replace").strip().splitlines()
        why = told[0] if told else f"{words[-1]} is no commit, branch or tag"
        fix = "Commit the file, and name a commit, branch or tag that holds it"
        raise _refused(str(path), f"git does not know it so: {why}", fix)
    return done.stdout


def _refused(what: str, culprit: str, fix: str) -> BackfillError:
    return BackfillError(what, culprit, "Nothing was planned", fix)
