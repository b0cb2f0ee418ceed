"""The `STEPS.md` of an example, or a guide, as a script: every line of its bash blocks, and what it
says comes out. Here: reading the steps, running them in one shell, and the comparison, in which `…`
stands for anything. Not here: which texts there are, and the engine (`test_examples`,
`test_guide_steps`)."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from backfill_assets_tests.asker import put_on_path
from backfill_assets_tests.homes import make_home
from backfill_assets_tests.processes import CAN_FORK, CHECKOUT
from backfill_assets_tests.starting import starter_door

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IN_BACKGROUND = re.compile(r"&$", re.MULTILINE)
MARK = "-- step --"
SECONDS = 900.0


@dataclass(frozen=True)
class Step:
    """A block of commands, and the output that is shown below it (None: none is)."""

    commands: str
    shown: str | None


def steps_of(text: str) -> list[Step]:
    """The bash blocks of the text in their order, each with the block of text that follows it."""
    found: list[Step] = []
    for language, block in FENCED.findall(text):
        if language == "bash":
            found.append(Step(block, None))
        elif language == "text":
            found[-1] = Step(found[-1].commands, block)
    return found


def run_steps(
    steps: list[Step],
    folder: Path,
    env: Mapping[str, str],
    *,
    all_printed: bool = False,
    forked: bool = False,
) -> list[str]:
    """What each step prints, run from an empty folder in one shell that ends at the first command
    that fails; with remarks and errors where `all_printed` says so, as a person sees them on a
    terminal. With `forked`, a `backfill-assets` is no new interpreter, which takes seconds
    of a processor, unless a step has one in the background, where a shell may kill it."""
    script = f"\necho '{MARK}'\n".join(step.commands for step in steps)
    places, doors = [str(Path(sys.executable).parent), os.environ["PATH"]], []
    if forked and CAN_FORK and not IN_BACKGROUND.search(script):
        doors = [starter_door().fileno()]
        places.insert(0, str(put_on_path(folder.parent / f"{folder.name}-programs", *doors)))
    path = os.pathsep.join(places)
    home = make_home(folder.parent / f"{folder.name}-dagster")
    around = {
        **os.environ,
        "PATH": path,
        "PYTHONPATH": str(CHECKOUT),
        "DAGSTER_HOME": str(home),
        **env,
    }
    stderr = subprocess.STDOUT if all_printed else subprocess.PIPE
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=folder,
        env=around,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        pass_fds=doors,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    complaints = ("Traceback", "leaked", *(() if all_printed else ("Error:",)))
    unwanted = done.stdout if all_printed else done.stderr
    assert not [word for word in complaints if word in unwanted], unwanted
    return done.stdout.split(f"{MARK}\n")


def differs(shown: str, printed: str) -> str:
    """The first line that is shown and was not printed there, else all that was printed; empty
    where they agree.

    How wide a column is does not matter: numbers of seconds have more digits on a busy machine.
    """
    wanted, said = (
        [" ".join(line.split()) for line in text.splitlines()] for text in (shown, printed)
    )
    lines = [re.escape(line).replace("…", ".*?") + "\n" for line in wanted]
    pattern = "".join("(?:.*\n)*?" if line == ".*?\n" else line for line in lines)
    if re.fullmatch(pattern, "".join(f"{line}\n" for line in said)):
        return ""
    return (
        next((line for line in wanted if "…" not in line and line not in said), printed) or printed
    )
