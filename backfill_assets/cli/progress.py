"""The request of a backfill, its outcome, and its progress on stderr: a live line on a terminal,
else a line per table.

Not here: the run (`runner`) and anything of Dagster.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, TextIO, TypedDict

from backfill_assets.cli.drawing import remark
from backfill_assets.kernel.core.answers import DayText
from backfill_assets.kernel.core.days import DayRange, ranges_text
from backfill_assets.kernel.core.records import json_of


class TableOutcomeForm(TypedDict):
    """What a run did to one table; numbers of days, but for `rows` and `seconds`."""

    table: str
    days: int
    changed: int
    unchanged: int
    rewritten: int
    rows: int
    seconds: float
    phases: Mapping[str, float]  # seconds
    failed: bool
    unlike: Sequence[DayText]  # the same inputs gave other rows before
    incomplete: Sequence[DayText]
    kept_back: Sequence[DayText]
    ahead: Mapping[str, int]  # of earlier versions: empty


class RunForm(TypedDict):
    """A whole run."""

    run_id: str | None  # None: no run was needed
    success: bool
    tables: Sequence[TableOutcomeForm]
    cause: str | None
    causes: Sequence[str]
    seconds: float


@dataclass(frozen=True)
class TableOutcome:
    """What a run did to one table."""

    table: str
    days: int  # made
    changed: int  # days whose content differs from before
    rows: int
    seconds: float
    cause: str = ""  # why the table failed
    rewritten: int = 0  # days that were written again as they were (`force`)
    phases: Mapping[str, float] = field(default_factory=dict)  # seconds of each finished phase
    irreproducible: tuple[date, ...] = ()  # same inputs, code and settings gave other rows before
    incomplete: tuple[
        date, ...
    ] = ()  # an input day is missing, or was made without a column that is read
    kept_back: tuple[date, ...] = ()  # refused, and left as they were, while the others were made
    unit: str = "day"  # what the table's partitions are, e.g. `month`

    def to_dict(self) -> TableOutcomeForm:
        """Return the outcome as JSON values, with the keys of earlier versions."""
        left_out = ("cause", "irreproducible", "unit")
        named = {n: v for n, v in vars(self).items() if n not in left_out}
        others = {
            "seconds": round(self.seconds, 3),
            "unchanged": self.days - self.changed,
            "ahead": {},  # of earlier versions; nothing fills it any more
            "unlike": self.irreproducible,
            "failed": bool(self.cause),
        }
        values: TableOutcomeForm = json_of(named | others)
        return values


@dataclass(frozen=True)
class RunOutcome:
    """A whole run."""

    run_id: str  # "": no run was needed
    success: bool
    tables: tuple[TableOutcome, ...]
    cause: str  # of the first step that failed, in one line
    seconds: float

    @property
    def causes(self) -> tuple[str, ...]:
        """The causes of the tables that failed, each once, else that of the run; empty after a
        success."""
        of_tables = tuple(dict.fromkeys(table.cause for table in self.tables if table.cause))
        if of_tables:
            return of_tables
        return (self.cause,) if self.cause else ()

    @property
    def only_kept_back(self) -> bool:
        """Whether nothing failed but days that were kept back, while the others were made."""
        return any(t.kept_back for t in self.tables) and not any(t.cause for t in self.tables)

    def to_dict(self) -> RunForm:
        """Return the outcome as JSON values."""
        known = {
            "run_id": self.run_id or None,
            "cause": self.cause or None,
            "seconds": round(self.seconds, 3),
        }
        values: RunForm = json_of(vars(self) | known | {"causes": self.causes})
        return values


def joined_outcome(runs: Sequence[RunOutcome]) -> RunOutcome:
    """Return the outcome of several runs of one request as one, with the id of the last run and
    the first cause."""
    tables: dict[str, TableOutcome] = {}
    for run in runs:
        for made in run.tables:
            earlier = tables.get(made.table)
            tables[made.table] = made if earlier is None else _sum_of_outcomes(earlier, made)
    causes = [run.cause for run in runs if run.cause]
    return RunOutcome(
        run_id=runs[-1].run_id,
        success=all(run.success for run in runs),
        tables=tuple(tables.values()),
        cause=causes[0] if causes else "",
        seconds=sum(run.seconds for run in runs),
    )


def _sum_of_outcomes(one: TableOutcome, other: TableOutcome) -> TableOutcome:
    """Two runs over different days of an asset's table, which has no phases and no irreproducible
    or rewritten days."""
    return replace(
        one,
        days=one.days + other.days,
        changed=one.changed + other.changed,
        rows=one.rows + other.rows,
        seconds=one.seconds + other.seconds,
        cause=one.cause or other.cause,
        incomplete=one.incomplete + other.incomplete,
        kept_back=one.kept_back + other.kept_back,
    )


class ProgressLines:
    """One line per table when it is done, and on a terminal a live line with the seconds while it
    works."""

    def __init__(self, days: DayRange) -> None:
        self.days = days
        self._live: Any = None  # rich's progress; None where stderr is no terminal
        self._out: TextIO | None = None  # this process's own stderr, while the block runs

    def __enter__(self) -> "ProgressLines":
        self._out = _own_stderr()
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
            self._live = Progress(
                *columns, console=Console(stderr=True, file=self._out), transient=True
            )
            self._live.start()
            self._live.add_task("Dagster and Spark are starting")
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
        if self._out is not None:
            self._out.close()
            self._out = None

    def started(self, table: str) -> None:
        """Show the table as being worked on."""
        self._show_work(f"{table} {self.days}")

    def ended(self, outcome: TableOutcome) -> None:
        """Write how it went."""
        self._show_work("")
        remark(outcome_line(outcome, self.days), self._out)

    def _show_work(self, text: str) -> None:
        if self._live is not None:
            for task in self._live.task_ids:
                self._live.reset(task, description=text, visible=bool(text))


def _own_stderr() -> TextIO | None:
    """Open stderr once more; None where it is no file. Dagster leads stderr into a file while steps
    run, and a program that follows the file may be ended before it has shown the last line."""
    try:
        return os.fdopen(
            os.dup(sys.stderr.fileno()), "w", buffering=1, encoding=sys.stderr.encoding
        )
    except (OSError, ValueError, AttributeError):
        return None


def outcome_line(outcome: TableOutcome, days: DayRange) -> str:
    """Return e.g. `raw 2024-03-01..2024-04-13: 44 days, 12 changed, 3.2 s`."""
    if outcome.cause:
        return f"{outcome.table} {days}: failed after {outcome.seconds:.1f} s"
    unit = outcome.unit if outcome.days == 1 else f"{outcome.unit}s"
    parts = [f"{outcome.days} {unit}", f"{outcome.changed} changed"]
    if outcome.rewritten:
        parts.append(f"{outcome.rewritten} written again")
    if outcome.kept_back:
        parts.append(f"{len(outcome.kept_back)} refused ({ranges_text(outcome.kept_back)})")
    parts.append(f"{outcome.seconds:.1f} s")
    return f"{outcome.table} {days}: {', '.join(parts)}"
