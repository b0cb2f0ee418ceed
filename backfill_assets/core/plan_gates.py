"""The gates after a chunk, an entry each in `PLAN_GATES`: pure functions of a day before and after, and of tolerances.

Elsewhere: gathering the evidence (`operations.plan_gate`), the gates of a single write (`lake.gates`).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.core.contracts import Contract
from backfill_assets.core.profiles import (
    TRAILING_DAYS,
    DayProfile,
    counted_histograms,
    counted_nulls,
    drift,
    usual_histograms,
    usual_null_shares,
)
from backfill_assets.core.receipts import Built, DayEntry

FEWEST_ROWS = 20  # below it a relative change is chance


@dataclass(frozen=True)
class Tolerances:
    """How far a day may differ from what it was before a gate stops the plan; None: no bound. All are shares.

    `rows`: relative change of the day's rows (of days with at least 20). `nulls`: rise of a column's NULL share over
    what is usual. `means`: relative change of the mean of a number column. `drift`: population stability index of a
    column against the receipts before the plan (no share; above 0.25 is large), beyond what is chance.
    """

    rows: float | None = 0.5
    nulls: float | None = 0.2
    means: float | None = None
    drift: float | None = None


@dataclass(frozen=True)
class PlanGate:
    """One gate: its description under some tolerances (empty: they do not bound it), and its findings for a day."""

    description: "Callable[[Tolerances], str]"
    evaluate: "Callable[[TableEvidence, date, Tolerances], Iterator[GateFinding]]"


@dataclass(frozen=True)
class GateFinding:
    """A day of a table that a gate refuses: its rule, the column ("" for none), and the figures in words."""

    table: str
    day: date
    rule: str
    told: str
    column: str = ""


@dataclass(frozen=True)
class TableEvidence:
    """Evidence about one table's days of a chunk. `before`, `after` and `earlier` (all days before the plan began) are
    partition records of receipts; `read` and `read_before` are profiles of the files by an independent reader."""

    contract: Contract
    before: Mapping[date, DayEntry]
    after: Mapping[date, DayEntry]
    earlier: Mapping[date, DayEntry]
    read: Mapping[date, DayProfile]
    read_before: Mapping[date, DayProfile] = field(default_factory=dict)


def judge_chunk(evidence: TableEvidence, bounds: Tolerances) -> list[GateFinding]:
    """The findings of all gates for one table's days, ascending; empty: all passed."""
    days = sorted(evidence.after)
    return [finding for day in days for gate in PLAN_GATES for finding in gate.evaluate(evidence, day, bounds)]


def described(bounds: Tolerances) -> list[str]:
    """The gates of a plan with these tolerances, a few words each."""
    return [text for gate in PLAN_GATES if (text := gate.description(bounds))]


def _read_back(evidence: TableEvidence, day: date, _: Tolerances) -> Iterator[GateFinding]:
    """The files hold what the receipt says, and what the contract asks."""
    name, entry, read = evidence.contract.name, evidence.after[day], evidence.read.get(day, DayProfile())
    if not entry.agrees_with(read):
        told = f"the receipt says {entry.rows} rows ({entry.fingerprint}), the files {read.rows} ({read.fingerprint})"
        yield GateFinding(name, day, "read-back", told)
    if read.duplicates:
        yield GateFinding(name, day, "keys", f"{read.duplicates} row(s) repeat a key", ", ".join(evidence.contract.key))
    for column in evidence.contract.required_columns:
        if read.nulls.get(column):
            yield GateFinding(name, day, "NULLs", f"{read.nulls[column]} NULL(s) in {column}", column)


def _rows(evidence: TableEvidence, day: date, bounds: Tolerances) -> Iterator[GateFinding]:
    before, after = evidence.before.get(day), evidence.after[day]
    if bounds.rows is None or before is None or Built.PENDING in (before.built, after.built):
        return
    if max(before.rows, after.rows) < FEWEST_ROWS:
        return
    change = abs(after.rows - before.rows) / max(before.rows, 1)
    if change > bounds.rows:
        told = f"{before.rows} rows before, {after.rows} now ({change:.0%}, allowed {bounds.rows:.0%})"
        yield GateFinding(evidence.contract.name, day, "rows", told)


def _nulls(evidence: TableEvidence, day: date, bounds: Tolerances) -> Iterator[GateFinding]:
    after = evidence.after[day]
    if bounds.nulls is None or not after.rows:
        return
    usual = usual_null_shares([_shares(e) for e in _trailing(evidence, day)])
    own = evidence.before.get(day)
    known = _shares(own) if own is not None and own.rows else {}
    read = evidence.read.get(day, DayProfile())
    for column in evidence.contract.nullable_columns:
        expected = max(usual.get(column, -1.0), known.get(column, -1.0))
        share = read.nulls.get(column, 0) / after.rows
        if expected >= 0 and share - expected > bounds.nulls:
            told = f"{share:.0%} of {column} is NULL, usually {expected:.0%} (allowed {bounds.nulls:.0%} more)"
            yield GateFinding(evidence.contract.name, day, "NULL share", told, column)


def _shares(entry: DayEntry) -> dict[str, float]:
    return {c: n / entry.rows for c, n in counted_nulls(entry.counts).items()}


def _means(evidence: TableEvidence, day: date, bounds: Tolerances) -> Iterator[GateFinding]:
    """A day whose mean moved is found also where the total over the chunk is what it was."""
    read, before = evidence.read.get(day), evidence.read_before.get(day)
    if bounds.means is None or read is None or before is None or min(read.rows, before.rows) < FEWEST_ROWS:
        return
    for column, total in before.sums.items():
        was, now = float(total / before.rows), float(read.sums.get(column, 0) / read.rows)
        change = abs(now - was) / abs(was) if was else float(bool(now))
        if change > bounds.means:
            told = f"the mean of {column} was {was:.4g}, is {now:.4g} ({change:.0%}, allowed {bounds.means:.0%})"
            yield GateFinding(evidence.contract.name, day, "distribution", told, column)


def _trailing(evidence: TableEvidence, day: date) -> list[DayEntry]:
    """The newest days with rows before `day`, as receipts told them before the plan began."""
    earlier = sorted(d for d, e in evidence.earlier.items() if d < day and e.rows)
    return [evidence.earlier[d] for d in earlier[-TRAILING_DAYS:]]


def _drift(evidence: TableEvidence, day: date, bounds: Tolerances) -> Iterator[GateFinding]:
    """Values that moved are found also where rows, sums and means are what they were. Judged against the trailing
    history; where that is too short, against what the day itself held before."""
    read, own = evidence.read.get(day), evidence.before.get(day)
    if bounds.drift is None or read is None:
        return
    usual = counted_histograms(own.counts) if own is not None else {}
    usual |= usual_histograms([counted_histograms(e.counts) for e in _trailing(evidence, day)])
    for column, before in usual.items():
        found = drift(read.histograms.get(column, {}), before)
        if found.exceeds(bounds.drift):
            told = f"population stability index {found.index:.2f} (allowed {bounds.drift:g})"
            told = f"the values of {column} drifted: {told}"
            yield GateFinding(evidence.contract.name, day, "distribution", told, column)


def _unless_none(bound: float | None, text: str) -> str:
    return "" if bound is None else text.format(bound)


PLAN_GATES = (
    PlanGate(lambda _: "files read back equal receipts, keys unique", _read_back),
    PlanGate(lambda bounds: _unless_none(bounds.rows, "rows within {:.0%}"), _rows),
    PlanGate(lambda bounds: _unless_none(bounds.nulls, "NULL shares within {:.0%} of usual"), _nulls),
    PlanGate(lambda bounds: _unless_none(bounds.means, "means within {:.0%}"), _means),
    PlanGate(lambda bounds: _unless_none(bounds.drift, "drift within {:g} (population stability index)"), _drift),
)
