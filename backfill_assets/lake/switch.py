"""Switches of several tables at once: until the last commit of one, readers see every table as it was before its first.

Not here: the view that readers get meanwhile (`view.settled_view`) and what is switched (`operations.publications`,
`operations.rollback`).
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

from backfill_assets.core.contracts import Contract
from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.files import read_json, write_json
from backfill_assets.lake.home import Lake

FILE = ".switch.json"  # absent: no switch ever ran


@dataclass(frozen=True)
class Switch:
    """State of a lake's switch: `number` (raised at each start and end), `what` it does (empty: none is running), and
    `tables`: the version of each that readers see while it runs."""

    number: int = 0
    what: str = ""
    tables: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        """The switch as a line for people; empty if none runs."""
        if not self.what:
            return ""
        return (
            f"{self.what} runs or was stopped: readers see {', '.join(self.tables)} as before it. If it was stopped, "
            "do it again, or take it back with `backfill-assets rollback --plan ID`"
        )


def switch_of(lake: Lake) -> Switch:
    """The lake's switch: running, stopped halfway, or none."""
    return Switch(**read_json(lake.root / FILE))


@contextmanager
def switching(lake: Lake, what: str, contracts: Iterable[Contract], takes_over: bool = False) -> Iterator[None]:
    """Show readers the current versions of these tables until the block ends, then the new ones.

    If the block stops after a commit, readers keep the old versions until the same switch, or one that `takes_over`,
    completes. Raises BackfillError if another switch was stopped.
    """
    known, before = tuple(contracts), switch_of(lake)
    if before.what and before.what != what and not takes_over:
        raise BackfillError(f"the lake {lake.root}", str(before), "Nothing was switched", "Finish that first")

    def heads() -> dict[str, int]:
        """The newest version of each table."""
        return {c.name: lake.store.view(c.name, c.day_column).version for c in known}

    now = heads()
    _write(lake, Switch(before.number + 1, what, {**now, **before.tables}))
    try:
        yield
    except BaseException:
        if not before.what and heads() == now:
            _write(lake, Switch(before.number + 2))
        raise
    _write(lake, Switch(before.number + 2))


def _write(lake: Lake, switch: Switch) -> None:
    write_json(lake.root / FILE, asdict(switch))
