"""The request of a backfill, its outcome, and its progress on the screen.

Lives here: plain values between the commands and `runner`, and the two ways of showing progress: a live line on a
terminal, one line per table elsewhere. Does not live here: Dagster. All of it goes to stderr.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from types import TracebackType
from typing import Any, Protocol, TextIO

from backfill_assets.cli.drawing import aside
from backfill_assets.core.days import DayRange


@dataclass(frozen=True)
class BackfillRequest:
    """The days and tables (upstream first) to make; `force`: even what is known to be right, but for the tables
    `written`. `reason` and `note` go into the receipts, and so do `tags`, of those that the load path knows (a plan's
    id and chunk)."""

    days: DayRange
    tables: tuple[str, ...]
    force: bool = False
    note: str = ""
    reason: str = "manual"
    tags: Mapping[str, str] = field(default_factory=dict)
    written: frozenset[str] = frozenset()


@dataclass(frozen=True)
class TableOutcome:
    """One table of a run: days made, of these with other content now, rows, seconds, the cause where it failed, and the
    days that were written again as they were (`force`). `phases`: seconds of each phase, where it got that far.
    `unlike`: the days that have other rows than the same inputs, code and settings gave before."""

    table: str
    days: int
    changed: int
    rows: int
    seconds: float
    cause: str = ""
    rewritten: int = 0
    phases: Mapping[str, float] = field(default_factory=dict)
    unlike: tuple[date, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The outcome as JSON values."""
        return {
            "table": self.table, "days": self.days, "changed": self.changed, "unchanged": self.days - self.changed,
            "rewritten": self.rewritten, "rows": self.rows, "seconds": round(self.seconds, 3),
            "failed": bool(self.cause), "phases": dict(self.phases),
            "ahead": {},  # a key of earlier versions, which computed tables beside each other
            "unlike": [str(d) for d in self.unlike],
        }  # fmt: skip


@dataclass(frozen=True)
class RunOutcome:
    """A whole run; `cause` is the first failing step's, in one line. `run_id` is empty where none was needed."""

    run_id: str
    success: bool
    tables: tuple[TableOutcome, ...]
    cause: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """The outcome as JSON values."""
        return {
            "run_id": self.run_id or None, "success": self.success, "cause": self.cause or None,
            "seconds": round(self.seconds, 3), "tables": [t.to_dict() for t in self.tables],
        }  # fmt: skip


class Watcher(Protocol):
    """Who is notified of a run's tables."""

    def started(self, table: str) -> None:
        """The table's step began."""

    def ended(self, outcome: TableOutcome) -> None:
        """The table's step ended, well or not."""


class Lines:
    """One line per table when it is done, and on a terminal a live line with the seconds while it works."""

    def __init__(self, days: DayRange) -> None:
        self.days = days
        self._live: Any = None
        self._out: TextIO | None = None

    def __enter__(self) -> "Lines":
        self._out = _own_stderr()
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
            self._live = Progress(*columns, console=Console(stderr=True, file=self._out), transient=True)
            self._live.start()
            self._live.add_task("Dagster and Spark are starting")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
        if self._out is not None:
            self._out.close()
            self._out = None

    def started(self, table: str) -> None:
        """Show the table as being worked on."""
        self._work_on(f"{table} {self.days}")

    def ended(self, outcome: TableOutcome) -> None:
        """Say how it went."""
        self._work_on("")
        aside(told(outcome, self.days), self._out)

    def _work_on(self, what: str) -> None:
        if self._live is None:
            return
        for task in list(self._live.task_ids):
            self._live.remove_task(task)
        if what:
            self._live.add_task(what)


def _own_stderr() -> TextIO | None:
    """Another way to where stderr leads now; None where it is no file. Dagster leads stderr into a file while steps
    run, and a program that follows the file may be ended before it has shown the last line."""
    try:
        return os.fdopen(os.dup(sys.stderr.fileno()), "w", buffering=1, encoding=sys.stderr.encoding)
    except (OSError, ValueError, AttributeError):
        return None


def told(outcome: TableOutcome, days: DayRange) -> str:
    """E.g. `raw 2024-03-01..2024-04-13: 44 days, 12 changed, 3.2 s`."""
    if outcome.cause:
        return f"{outcome.table} {days}: failed after {outcome.seconds:.1f} s"
    unit = "day" if outcome.days == 1 else "days"
    again = f", {outcome.rewritten} written again" if outcome.rewritten else ""
    return f"{outcome.table} {days}: {outcome.days} {unit}, {outcome.changed} changed{again}, {outcome.seconds:.1f} s"
