"""The shape of a lab: steps with a text and a table, and for each form of the work the total it has
to give.

Not here: the labs (`loads`, `skew`), their lakes (`lakes`), and drawing (`learn.practice_command`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from backfill_assets.engines.server import stop_server
from backfill_assets.engines.session import drop_session
from backfill_assets.kernel.core.errors import refuse_unknown_names

LABS = {  # by name: the module (`MODULES`) has its `STEPS`
    "load": "Append or replace a day: run it twice, and watch the totals.",
    "late-fact": "A fact that arrives two days late: by arrival or by event time, and Monday's "
    "total.",
    "watermark": "The usual script with a watermark loses, misses and repeats rows.",
    "skew": "One customer with 60 % of the rows, NULLs in one place, and three remedies.",
    "incident": "Three years doubled by a job that succeeded: a known total finds it.",
    "mistakes": "Append for corrections, one huge run, totals only, now() in a transform.",
}
MODULES = {"skew": "lab_skew"}  # others: `lab_loads`


@dataclass(frozen=True)
class LabStep:
    """One step of a lab."""

    title: str
    text: str = ""
    columns: Sequence[str] = ()  # of a table of results
    rows: Sequence[Sequence[object]] = ()
    form: str = ""  # of the work that is tried; "": none
    expected: object = None  # value of the form
    found: object = None  # the value that it gave

    @property
    def holds(self) -> bool:
        """Whether the form gave what it has to give."""
        return self.expected == self.found

    @property
    def verdict(self) -> str:
        """The outcome of the form as one line, "" for a step without one."""
        line = (
            f"{'ok' if self.holds else 'WRONG'}: {self.form}: expected {self.expected}, found "
            f"{self.found}"
        )
        return line if self.form else ""


def lab_steps(name: str) -> Callable[[Path], Iterator[LabStep]]:
    """The function of a lab in a folder, from its module."""
    module = import_module(f"{__package__}.{MODULES.get(name, 'lab_loads')}")
    steps: Callable[[Path], Iterator[LabStep]] = module.STEPS[name]
    return steps


def run_lab(name: str, folder: Path) -> Iterator[LabStep]:
    """Run a lab in an empty folder, yield its steps as they end, and stop the folder's engine.
    Raises UnknownName for an unknown name."""
    refuse_unknown_names("lab", [name], LABS, "Nothing was run")
    steps = lab_steps(name)
    try:
        yield from steps(folder)
    finally:
        drop_session(folder)
        stop_server(folder, force=True)
