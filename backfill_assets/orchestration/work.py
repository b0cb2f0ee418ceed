"""The work of one asset step, between Dagster and the lake: build, judge, publish, build again when superseded.

Lives here: the order of the load path, the same for every caller, and its failures as Dagster shows them. Does not
live here: Dagster's decorators (`assets`) and the IO manager's contract (`io_manager`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import stamina

from backfill_assets.core.days import DayRange
from backfill_assets.core.errors import ContractBroken, Superseded
from backfill_assets.core.frontier import is_mature
from backfill_assets.core.gates import TRAILING_DAYS, Finding, Gate, Surroundings, judge
from backfill_assets.core.receipts import Built
from backfill_assets.lake.audit import sample_keys
from backfill_assets.lake.build import build
from backfill_assets.lake.candidate import Candidate, Request
from backfill_assets.lake.home import Lake, open_lake
from backfill_assets.lake.load import load
from backfill_assets.lake.log import Logs
from backfill_assets.lake.model import Pipeline, Table, pipeline_of
from backfill_assets.lake.replace import Published
from backfill_assets.lake.settings import LakeSettings, TableGate
from backfill_assets.lake.spark import telling_losses

SUPERSEDED_ATTEMPTS = 3  # each one reads the newest inputs; more would mean writers that never rest
TablesOf = Callable[[LakeSettings], Sequence[Table]]


@dataclass(frozen=True)
class Shop:
    """Where a pipeline works: the lake's folder and what makes its tables of the settings. Opened at every use, so that
    a changed `lake.toml` counts from the next run on."""

    root: Path
    tables_of: TablesOf
    logs: Logs = field(default_factory=Logs, compare=False, repr=False)  # what ticks read before

    def open(self) -> tuple[Lake, Pipeline]:
        """The lake and its pipeline as the settings are now."""
        lake = open_lake(self.root)
        return lake, pipeline_of(lake, self.tables_of(lake.settings))


@dataclass
class Job:
    """One table, one range of days, one run: the candidate changes when it has to be built again.

    `told_before` is what people were told of days that need no computing, by partition key: it is told again.
    """

    request: Request
    candidate: Candidate | None = None
    findings: list[Finding] = field(default_factory=list)
    told_before: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @telling_losses()
    def prepare(self) -> list[Finding]:
        """Build the candidate and judge it. Raises BackfillError kinds; a refusing finding is returned, not raised."""
        self.candidate = load(self.request) if self.table.is_landed else build(self.request)
        self._refuse_strays()
        self.findings = self._judge()
        return self.findings

    @telling_losses()
    def publish(self) -> Published:
        """Write the candidate; when newer inputs overtook it, build and judge again, three times at most."""
        for attempt in stamina.retry_context(on=Superseded, attempts=SUPERSEDED_ATTEMPTS):
            with attempt:
                if attempt.num > 1:
                    self.release()
                    if any(f.refuses for f in self.prepare()):
                        raise self.refusal()
                return self.ready.publish()
        raise AssertionError("unreachable: the retry context returns or raises")

    def release(self) -> None:
        """Free what Spark keeps of the candidate; harmless when the engine is gone."""
        if self.candidate is not None:
            self.candidate.release()

    @property
    def table(self) -> Table:
        """The table asked for."""
        return self.request.table

    @property
    def days(self) -> DayRange:
        """The days asked for."""
        return self.request.days

    @property
    def ready(self) -> Candidate:
        """The candidate; raises RuntimeError before `prepare`."""
        if self.candidate is None:
            raise RuntimeError("prepare the job first")
        return self.candidate

    def refusal(self) -> ContractBroken:
        """The error of the refusing findings: days, rules, counts, sample keys, the next command."""
        refusing = [f for f in self.findings if f.refuses]
        first = refusing[0]
        days = sorted({f.day for f in refusing})
        samples = self.samples(first)
        keys = f"; for example {', '.join(samples)}" if samples else ""
        return ContractBroken(
            f"the table {self.table.name}",
            f"{first.check} fails on {len(days)} of {len(self.days)} day(s), first {first.day}: {first.message}{keys}",
            "Nothing was written, all days keep their rows",
            f"Look with `backfill-assets show {self.table.name} {first.day}`, correct the input or the rule, then "
            f"`backfill-assets backfill --from {days[0]} --to {days[-1]} --tables {self.table.name}`",
        )

    def samples(self, finding: Finding) -> list[str]:
        """Up to ten keys of the rows that a finding speaks of."""
        staged = self.ready.staged
        if staged is None or finding.check not in ("unique_key", "not_null"):
            return []
        lake = self.request.workshop.lake
        return sample_keys(lake, staged.paths, self.table.contract, finding.day, finding.check)

    def _refuse_strays(self) -> None:
        strays = self.ready.strays()
        if not strays:
            return
        none = sum(p.rows for d, p in strays.items() if d is None)
        known = sorted(d for d in strays if d is not None)
        told = [f"{sum(strays[d].rows for d in known)} row(s) of {known[0]}..{known[-1]}"] if known else []
        told += [f"{none} row(s) without a day"] if none else []
        wide = (
            f"run the range {min(known[0], self.days.start)}..{max(known[-1], self.days.last)}"
            if known
            else "correct it"
        )
        raise ContractBroken(
            f"the table {self.table.name}",
            f"asked for {self.days}, the transform gave {' and '.join(told)}",
            "Nothing was written",
            f"Return rows of the asked days only; if those days are meant, {wide}",
        )

    def _judge(self) -> list[Finding]:
        candidate, contract = self.ready, self.table.contract
        gate = _gate(self.request.workshop.lake.settings, contract.name)
        rows = {d: s.entry.rows for d, s in candidate.before.stamps.items()}
        rows |= {d: candidate.profiles[d].rows for d in self.days}
        dated = sorted((d, n) for d, n in rows.items() if n)
        usual = self._usual_null_shares()
        findings: list[Finding] = []
        for day in self.days:
            around = Surroundings(_before(dated, day), self._may_be_empty(day), candidate.absent.get(day, ()), usual)
            findings += judge(contract, day, candidate.profiles[day], gate, around)
        return findings

    def _may_be_empty(self, day: date) -> bool:
        contract, entry = self.table.contract, self.ready.entries[day]
        if entry.built is Built.PENDING:
            return True
        frontier = self.ready.frontier
        return contract.matures_after_days is not None and not is_mature(day, contract.matures_after_days, frontier)

    def _usual_null_shares(self) -> Mapping[str, float]:
        """The median NULL share per nullable column over the chunk's days with rows, where there are enough of them."""
        with_rows = [p for d, p in self.ready.profiles.items() if d not in self.ready.settled and p.rows]
        if len(with_rows) < TRAILING_DAYS:
            return {}
        nullable = [c.name for c in self.table.contract.columns if c.nullable]
        middle = len(with_rows) // 2
        return {c: sorted(p.nulls.get(c, 0) / p.rows for p in with_rows)[middle] for c in nullable}


def _before(dated: list[tuple[date, int]], day: date) -> list[int]:
    """The rows of the newest days with rows before `day`."""
    from bisect import bisect_left

    end = bisect_left(dated, (day, 0))
    return [n for _, n in dated[max(0, end - TRAILING_DAYS) : end]]


def _gate(settings: LakeSettings, table: str) -> Gate:
    bounds = settings.gates.tables.get(table, TableGate())
    return Gate(
        bounds.min_rows,
        bounds.max_rows,
        bounds.max_relative_change,
        bounds.max_absolute_change,
        bounds.empty,
        settings.gates.incomplete,
    )
