"""Checks of every written day, judged again by its newest receipt under the gates of today; no data file is read.

Not here: the gates (`lake.gates`) and judging a day (`load.judging`).
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from backfill_assets.core.profiles import BROKEN
from backfill_assets.core.states import States
from backfill_assets.core.texts import json_of
from backfill_assets.lake.gates import MAX_DRIFT, PROFILE, Finding, gates_of
from backfill_assets.lake.home import Lake
from backfill_assets.load.judging import judged_by_receipts

MOST_WARNINGS = 5  # in one line
OTHER_ROWS = "the same inputs, code and settings gave other rows before"


@dataclass(frozen=True)
class CheckHistory:
    """One check of one table: how many written days it judged, and the findings on days that do not pass."""

    table: str
    check: str
    days: int
    found: tuple[Finding, ...]

    @property
    def failed(self) -> int:
        """Return the days that the gates of today would refuse."""
        return sum(f.refuses for f in self.found)

    @property
    def warned(self) -> int:
        """Return the days that only warn."""
        return len(self.found) - self.failed

    def to_dict(self) -> dict[str, Any]:
        """Return the history as JSON values."""
        counts = {"passed": self.days - len(self.found), "warned": self.warned, "failed": self.failed}
        found = [{"day": f.day, "failed": f.refuses, "what": f.message} for f in self.found]
        return {"table": self.table, "check": self.check, **counts, "found": json_of(found)}


def check_history(lake: Lake, states: States) -> tuple[CheckHistory, ...]:
    """Return the history of every check of every table. Reads receipts only."""
    judged = ((name, gate, found) for name in states.contracts for gate, found in _judged(lake, states, name))
    return tuple(
        CheckHistory(name, gate, len(found), tuple(f for f in found if not f.passed)) for name, gate, found in judged
    )


def checked_days(lake: Lake, states: States) -> Iterator[tuple[str, Finding]]:
    """Yield (table, verdict) of every check on every written day. Reads receipts only."""
    return ((name, f) for name in states.contracts for _, found in _judged(lake, states, name) for f in found)


def _judged(lake: Lake, states: States, table: str) -> Iterator[tuple[str, list[Finding]]]:
    """Yield each gate of a table with its verdicts on the written days."""
    contract, latest = states.contracts[table], states.view.table(table).latest
    judged = judged_by_receipts(lake.settings, states, contract, sorted(latest))
    for gate in gates_of(contract):
        of_gate = [f for findings in judged.values() for f in findings if f.check == gate.name]
        if gate.name == PROFILE:
            of_gate = [
                replace(f, passed=False, message=OTHER_ROWS) if latest[f.day].irreproducible else f for f in of_gate
            ]
        yield gate.name, of_gate


def warnings(lake: Lake, states: States, days: Mapping[str, Collection[date]]) -> str:
    """Return one line with what today's checks find on these `days` of tables, as far as they are written, what is on
    most days first; empty where they find nothing. Reads receipts only."""
    found = Counter[str]()
    for name, wanted in days.items():
        written = sorted(set(wanted) & states.view.table(name).latest.keys())
        for findings in judged_by_receipts(lake.settings, states, states.contracts[name], written).values():
            found.update(cause for finding in findings if not finding.passed for cause in _causes(finding, name))
    shown = [f"{cause} on {n} day{'s' * (n > 1)}" for cause, n in found.most_common(MOST_WARNINGS)]
    more = f", and {len(found) - len(shown)} more" if len(found) > len(shown) else ""
    return f"warnings: {', '.join(shown)}{more}; `backfill-assets report --html FILE` names the days" if shown else ""


def _causes(finding: Finding, table: str) -> list[str]:
    """Return short names of what a gate found in a day of the table: rules, columns, else the gate."""
    rules = [
        f"{table}.{name.removeprefix(BROKEN)}" for name, n in finding.facts.items() if name.startswith(BROKEN) and n
    ]
    columns = [bound.rpartition(".") for bound in finding.bounds]
    words = [f"{'drift of' if kind == MAX_DRIFT else 'NULLs in'} {table}.{column}" for column, _, kind in columns]
    return [*rules, *words] or [f"{finding.check} of {table}"]
