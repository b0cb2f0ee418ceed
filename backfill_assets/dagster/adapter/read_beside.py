"""What the step that runs now read from lakes by other ways than its parameters, which no receipt
can name.

Here: the one list of it, which readers fill and the IO manager puts into the receipts of the step's
days. Not here: reading (`reading`, `reading.reader`), inputs by parameter (`assets.loaded`),
and the state of such days (`kernel.core.states`).
"""

from weakref import WeakKeyDictionary

import dagster as dg

# by each attempt of a step, as long as it runs: the tables that it read so
READ_BESIDE: WeakKeyDictionary[dg.OpExecutionContext, set[str]] = WeakKeyDictionary()


def note_read(name: str) -> None:
    """Remember that the step that runs now reads this of a lake; nothing outside of a step."""
    if (step := running_step()) is not None:
        READ_BESIDE.setdefault(step, set()).add(name)


def step_reads() -> set[str]:
    """What the step that runs now has read so; empty outside of a step."""
    step = running_step()
    return {*READ_BESIDE.get(step, ())} if step is not None else set()


def running_step() -> dg.OpExecutionContext | None:
    """The context of the step that runs now; None outside of one."""
    try:
        return dg.OpExecutionContext.get()
    except dg.DagsterInvariantViolationError:
        return None
