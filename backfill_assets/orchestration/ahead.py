"""Which tables the steps of a run begin ahead: those whose inputs the run will not write any more.

Lives here: their choice, when a step begins and when its table was published. Does not live here: the work itself, and
who may take it over (`load.ahead`).
"""

import contextlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any

import dagster as dg

from backfill_assets.lake.model import Pipeline, Table
from backfill_assets.load.ahead import Ahead, least_rows
from backfill_assets.load.candidate import RebuildRequest
from backfill_assets.orchestration.runs import op_name


class NextTables:
    """The tables that a run makes beside the one whose step has its turn, and what was begun of them. `asked` is what
    their steps will ask."""

    def __init__(
        self, pipeline: Pipeline, planned: Collection[str], ahead: Ahead, asked: Callable[[Table], RebuildRequest]
    ) -> None:
        self._pipeline, self._planned, self._ahead, self._asked = pipeline, planned, ahead, asked

    def turn_of(self, table: str) -> None:
        """The step of a table begins."""
        self._ahead.turn_of(table)

    def begin(self, makes: str = "") -> int:
        """Begin with tables that need none of those which the run is still to make; `makes` is the one that it makes
        right now, which needs a core, too ("": it is published). Returns how many rows that one is to expect at least.
        """
        left = [t for t in self._pipeline.tables if t.name in self._planned and not self._ahead.had_turn(t.name)]
        unmade = {makes, *(t.name for t in left)}
        ready = [t for t in left if unmade.isdisjoint(i.table for i in t.contract.inputs)]
        now = [self._pipeline.table(makes)] if makes else []
        # Files say nothing of a landed table's rows before they are read: none is begun ahead.
        asked = {t.name: self._asked(t) for t in (*now, *left) if t in now or not t.is_landed} if ready else {}
        least = least_rows([*asked.values()])
        if least is None:
            return 0
        for request in (asked[t.name] for t in ready if t.name in asked):
            self._ahead.begin(replace(request, least_rows=least), beside=len(now))
        return least

    @contextlib.contextmanager
    def dropped_on_failure(self) -> Iterator[None]:
        """Where the step fails or is stopped, steps that wait for it never come: what was begun is dropped, and nothing
        is begun any more. Those that still come do their work themselves."""
        try:
            yield
        except BaseException:
            self._ahead.close()
            raise


def forced(run: dg.DagsterRun, table: str) -> bool:
    """Whether the run computes days of the table even if their receipts say that they are right."""
    config: Any = run.run_config
    for name in ("ops", op_name(table), "config"):
        config = config.get(name) or {}
    return bool(config.get("force", False))
