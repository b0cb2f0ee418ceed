"""What a command, run or tick knows of a lake: the states of its days, moved on by its own writes.

Not here: reading the view of a lake (`kernel.tables.view`), and which states follow from it
(`kernel.core.states`).
"""

from dataclasses import dataclass, field

from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.core.view import LakeView
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.view import read_view, refreshed_view
from backfill_assets.kernel.write.model import Pipeline


@dataclass
class KnownStates:
    """What one command, run or tick knows of a lake: read once, then moved on by its own writes
    alone.

    All that it makes is of one moment, whatever others write meanwhile: their days show as to be
    rebuilt afterwards. Where it must be known whether others wrote (the fence of a write, the end
    of a run), `read` looks again.
    """

    lake: Lake
    pipeline: Pipeline
    found: States | None = field(default=None, repr=False)  # None: not read yet
    _moved: set[str] = field(default_factory=set, repr=False)

    @property
    def states(self) -> States:
        """The states as they are known: the same object until `wrote` or `read` finds other
        receipts."""
        if self.found is None:
            return self.read()
        if not self._moved:
            return self.found
        view = refreshed_view(self.lake, self.pipeline.contracts, self.found.view, self._moved)
        self._moved.clear()
        return self._keep_states(view)

    def read(self) -> States:
        """The states by all logs as they are now, which are known from here on."""
        self._moved.clear()
        return self._keep_states(read_view(self.lake, self.pipeline.contracts))

    def wrote(self, table: str) -> None:
        """A write of ours may have moved the table, and the ledgers of a landed one: they are read
        again when the states are next asked for."""
        self._moved.add(table)

    def _keep_states(self, view: LakeView) -> States:
        if self.found is None or self.found.view != view:
            self.found = self.pipeline.states(view)
        return self.found
