"""The report of a lake: states of all days, landed rows and their account, lateness, durations, writes, checks, proofs.

Checks are those of every written day, judged again by its newest receipt under the gates of today. Not here: its parts
(`status`, `lateness`, `writes`), Dagster's runs and checks (`orchestration.history`), and the page (`cli.report_page`).
No JVM, no Dagster.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any

from backfill_assets.core.errors import BackfillError
from backfill_assets.core.profiles import BROKEN
from backfill_assets.core.states import States
from backfill_assets.core.texts import json_of
from backfill_assets.lake.gates import MAX_DRIFT, PROFILE, Finding, gates_of
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.view import read_view
from backfill_assets.load.judging import judged_by_receipts
from backfill_assets.operations.account import Account, Repeats, accounts, repeats_of, together
from backfill_assets.operations.controls import ControlOutcome, last_outcomes
from backfill_assets.operations.lateness import LatenessReport, LatenessScope, lateness_of
from backfill_assets.operations.proof_history import Proof, proofs
from backfill_assets.operations.rejected import NEWEST_DAYS, refused_rows
from backfill_assets.operations.status import StatusReport, status_of
from backfill_assets.operations.writes import Durations, TableWrite, durations, writes

MOST_WARNINGS = 5  # in one line
OTHER_ROWS = "the same inputs, code and settings gave other rows before"


@dataclass(frozen=True)
class CheckHistory:
    """One check of one table: how many written days it judged, and the findings on those that do not pass."""

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
    return tuple(h for name in states.contracts for h in _of_table(lake, states, name))


def _of_table(lake: Lake, states: States, table: str) -> Iterator[CheckHistory]:
    contract, stamps = states.contracts[table], states.view.table(table).stamps
    judged = judged_by_receipts(lake.settings, states, contract, sorted(stamps))
    for gate in gates_of(contract):
        of_gate = [f for findings in judged.values() for f in findings if f.check == gate.name]
        if gate.name == PROFILE:
            of_gate = [replace(f, passed=False, message=OTHER_ROWS) if stamps[f.day].unlike else f for f in of_gate]
        yield CheckHistory(table, gate.name, len(of_gate), tuple(f for f in of_gate if not f.passed))


def warnings(lake: Lake, states: States, days: Mapping[str, Collection[date]]) -> str:
    """Return one line with what today's checks find on these `days` of tables, as far as they are written, what is on
    most days first; empty where they find nothing. Reads receipts only."""
    found = Counter[str]()
    for name, wanted in days.items():
        written = sorted(set(wanted) & states.view.table(name).stamps.keys())
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


@dataclass(frozen=True)
class Delivered:
    """Landed files and the account of their rows; `quarantine`: rows by reason, the most frequent first; `repeats`:
    among the rows of the NEWEST_DAYS.

    `sources`: the same per source, where a lake has several; the rest is then the sum of all.
    """

    account: Account
    quarantine: Mapping[str, int]
    sources: Mapping[str, "Delivered"] = field(default_factory=dict)
    repeats: Repeats = field(default_factory=Repeats)

    def to_dict(self) -> dict[str, Any]:
        """Return the account as JSON values."""
        each = {"sources": json_of(self.sources)} if self.sources else {}
        repeated = {f"{kind}_repeats_per_1000": n for kind, n in self.repeats.per_1000.items()}
        return {**self.account.to_dict(), **repeated, "quarantine": dict(self.quarantine), **each}


@dataclass(frozen=True)
class LakeReport:
    """A lake at `made_at` (the clock). `lateness` is None where nothing is loaded; `controls`: the newest outcomes."""

    made_at: datetime
    status: StatusReport
    delivered: Delivered
    lateness: LatenessReport | None
    durations: tuple[Durations, ...]
    writes: tuple[TableWrite, ...]
    controls: tuple[ControlOutcome, ...] = ()
    checks: tuple[CheckHistory, ...] = ()
    proofs: tuple[Proof, ...] = ()


def report(lake: Lake, pipeline: Pipeline, now: datetime, *, with_checks: bool = True) -> LakeReport:
    """Return the report of the lake; `now` is the clock (aware). All parts share one state of the lake.

    `with_checks`: judge every written day again, too.
    """
    states = pipeline.states(read_view(lake, pipeline.contracts))
    try:
        late = lateness_of(lake, states, LatenessScope(share=lake.settings.lateness.watermark_share), now)
    except BackfillError:
        late = None  # nothing is loaded, which the rest of the report says
    written = writes(lake, pipeline)
    took = durations(written, [t.name for t in pipeline.tables])
    checks = check_history(lake, states) if with_checks else ()
    status, landed, controls = status_of(lake, states), delivered(lake, states), tuple(last_outcomes(lake))
    return LakeReport(now, status, landed, late, took, written, controls, checks, tuple(proofs(lake)))


def delivered(lake: Lake, states: States) -> Delivered:
    """Return the account of all landed rows that were not withdrawn, with reasons of quarantine; per source, too."""
    account_of = accounts(lake, states.view)
    each = {
        s.name: Delivered(
            account_of[s.table], refused_rows(lake, s.name), repeats=repeats_of(lake, states, s, NEWEST_DAYS)
        )
        for s in states.view.sources.values()
    }
    if len(each) == 1:
        return next(iter(each.values()))
    refused = sum((Counter(one.quarantine) for one in each.values()), Counter[str]())
    found = sum((one.repeats for one in each.values()), Repeats())
    return Delivered(together(account_of.values()), dict(refused.most_common()), each, found)
