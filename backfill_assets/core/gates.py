"""The gate: what must hold of a day's rows before anything is written, and what is only worth a warning.

Lives here: judging a profile, in plain values. Does not live here: computing the profile (`lake.audit`) and telling
Dagster (`orchestration.checks`). A bound that is added is read in `lake.settings`, judged by `load.judging`, and is one
of what may refuse a run (`orchestration.requesting`). A finding is a recorded value, never an exception.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from statistics import median
from typing import Literal

from backfill_assets.core.contracts import Contract, Rule
from backfill_assets.core.drift import Histogram, drift, pooled
from backfill_assets.core.profiles import BROKEN, DayProfile

ROW_COUNT, NOT_NULL, UNIQUE_KEY, PROFILE = "row_count", "not_null", "unique_key", "profile"
CHECKS: Mapping[str, bool] = {ROW_COUNT: True, NOT_NULL: True, UNIQUE_KEY: True, PROFILE: False}  # name -> blocking
RULES = "rules"
ALL_CHECKS: Mapping[str, bool] = {**CHECKS, RULES: True}  # rules: of tables whose contract has any
TRAILING_DAYS = 28  # four whole weeks, so that weekends do not move the median
MEDIAN_NEEDS_DAYS = 7  # fewer days with rows say nothing about an ordinary day
UNUSUAL_FACTOR = 10  # warned of without any setting: ten times more or fewer rows than on an ordinary day
UNUSUAL_NEEDS_ROWS = 20  # below it a factor of ten is chance
NULL_SHARE_JUMP = 0.2  # a NULL share this far above the trailing median is worth a look
LARGE_DRIFT = 0.25  # of the population stability index, beyond what is chance: large by convention


@dataclass(frozen=True)
class ColumnGate:
    """The bounds of one column's days; `None`: of the share of NULLs none, of drift the usual one, which only warns.

    `max_null_share` is absolute, `max_null_jump` above the trailing median, `max_drift` a population stability index.
    """

    max_null_share: float | None = None
    max_null_jump: float | None = None
    max_drift: float | None = None
    broken: Literal["warn", "refuse"] = "refuse"


@dataclass(frozen=True)
class Gate:
    """The bounds of one table's days; `None` means no bound. Changes are against the trailing median of rows."""

    min_rows: int | None = None
    max_rows: int | None = None
    max_relative_change: float | None = None
    max_absolute_change: int | None = None
    empty: Literal["warn", "allow", "refuse"] = "warn"
    incomplete: Literal["warn", "refuse"] = "warn"
    columns: Mapping[str, ColumnGate] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """The verdict of one check on one day. `refuses`: failed, and nothing may be written."""

    check: str
    day: date
    passed: bool
    refuses: bool
    message: str
    facts: Mapping[str, int | float | str] = field(default_factory=dict)


@dataclass(frozen=True)
class Surroundings:
    """What a day is judged against: rows, NULL shares and histograms of earlier days, whether emptiness is expected,
    and missing required days."""

    trailing_rows: Sequence[int] = ()
    may_be_empty: bool = False
    absent: Sequence[tuple[str, date]] = ()
    usual_null_shares: Mapping[str, float] = field(default_factory=dict)
    usual_histograms: Mapping[str, Histogram] = field(default_factory=dict)


def checks_of(contract: Contract) -> Mapping[str, bool]:
    """The checks of a table's days, each with whether it blocks; `rules` where the contract has any."""
    return ALL_CHECKS if contract.rules else CHECKS


def judge(contract: Contract, day: date, found: DayProfile, gate: Gate, around: Surroundings) -> list[Finding]:
    """The findings of every check for one day, in the order of `checks_of`."""
    return [
        _row_count(day, found, gate, around),
        _not_null(contract, day, found),
        _unique_key(contract, day, found),
        _profile(day, found, gate, around),
        *([_rules(contract, day, found)] if contract.rules else []),
    ]


def with_warning(finding: Finding, text: str) -> Finding:
    """The finding, failed by one more warning, which comes first."""
    told = f"{text}; {finding.message}" if not finding.passed else text
    return replace(finding, passed=False, message=told)


def usual_null_shares(earlier: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median NULL share per column over earlier days (each: share by column), where enough of them have it."""
    told: dict[str, list[float]] = {}
    for shares in earlier:
        for column, share in shares.items():
            told.setdefault(column, []).append(share)
    return {c: median(shares) for c, shares in told.items() if len(shares) >= MEDIAN_NEEDS_DAYS}


def usual_histograms(earlier: Sequence[Mapping[str, Histogram]]) -> dict[str, dict[int, int]]:
    """The histogram per column over all rows of earlier days, where enough days have one."""
    told: dict[str, list[Histogram]] = {}
    for histograms in earlier:
        for column, histogram in histograms.items():
            told.setdefault(column, []).append(histogram)
    return {c: pooled(days) for c, days in told.items() if len(days) >= MEDIAN_NEEDS_DAYS}


def _row_count(day: date, found: DayProfile, gate: Gate, around: Surroundings) -> Finding:
    usual = median(around.trailing_rows) if len(around.trailing_rows) >= MEDIAN_NEEDS_DAYS else None
    facts: dict[str, int | float | str] = {"rows": found.rows}
    if usual is not None:
        facts["trailing_median"] = float(usual)
    if not found.rows and around.may_be_empty:
        return Finding(ROW_COUNT, day, True, False, "empty, as expected", facts)
    broken = _bounds_broken(found.rows, gate, usual)
    if not found.rows and gate.empty == "refuse":
        broken.append("the day is empty")
    if broken:
        return Finding(ROW_COUNT, day, False, True, "; ".join(broken), facts)
    if not found.rows and gate.empty == "warn":
        return Finding(ROW_COUNT, day, False, False, "the day is empty", facts)
    if usual is not None and usual >= UNUSUAL_NEEDS_ROWS and found.rows:
        factor = max(found.rows / usual, usual / found.rows)
        if factor > UNUSUAL_FACTOR:
            return Finding(ROW_COUNT, day, False, False, f"{found.rows} rows, usually about {usual:.0f}", facts)
    return Finding(ROW_COUNT, day, True, False, f"{found.rows} rows", facts)


def _bounds_broken(rows: int, gate: Gate, usual: float | None) -> list[str]:
    broken = []
    if gate.min_rows is not None and rows < gate.min_rows:
        broken.append(f"{rows} rows, fewer than min_rows = {gate.min_rows}")
    if gate.max_rows is not None and rows > gate.max_rows:
        broken.append(f"{rows} rows, more than max_rows = {gate.max_rows}")
    if usual is not None:
        change = abs(rows - usual)
        if gate.max_absolute_change is not None and change > gate.max_absolute_change:
            broken.append(f"{rows} rows, {change:.0f} from the trailing median {usual:.0f}")
        if gate.max_relative_change is not None and usual and change / usual > gate.max_relative_change:
            broken.append(f"{rows} rows, {change / usual:.0%} from the trailing median {usual:.0f}")
    return broken


def _not_null(contract: Contract, day: date, found: DayProfile) -> Finding:
    broken = {c: found.nulls[c] for c in contract.required_columns if found.nulls.get(c)}
    message = "; ".join(f"{n} NULL(s) in {c}" for c, n in broken.items()) or "no NULL in required columns"
    return Finding(NOT_NULL, day, not broken, bool(broken), message, {f"nulls {c}": n for c, n in broken.items()})


def _unique_key(contract: Contract, day: date, found: DayProfile) -> Finding:
    key = ", ".join(contract.key)
    message = f"{found.duplicates} row(s) repeat a key ({key})" if found.duplicates else f"({key}) is unique"
    return Finding(
        UNIQUE_KEY, day, not found.duplicates, bool(found.duplicates), message, {"repeats": found.duplicates}
    )


def _profile(day: date, found: DayProfile, gate: Gate, around: Surroundings) -> Finding:
    warnings = []
    if around.absent:
        table, first = around.absent[0]
        warnings.append(f"incomplete: {len(around.absent)} required input day(s) are missing, first {table} {first}")
    refusing: list[str] = []
    facts: dict[str, int | float | str] = {
        f"sum {c}": n if isinstance(n, int) else str(n) for c, n in found.sums.items()
    }
    facts |= {f"nulls {c}": n for c, n in found.nulls.items()}
    for column in dict.fromkeys((*gate.columns, *around.usual_null_shares, *around.usual_histograms)):
        bounds = gate.columns.get(column)
        broken = _nulls_broken(column, found, bounds, around) + _drift_broken(column, found, bounds, around, facts)
        (refusing if bounds is not None and bounds.broken == "refuse" else warnings).extend(broken)
    refuses = bool(refusing) or (bool(around.absent) and gate.incomplete == "refuse")
    told = [*refusing, *warnings]
    return Finding(PROFILE, day, not told, refuses, "; ".join(told) or "nothing unusual", facts)


def _nulls_broken(column: str, found: DayProfile, bounds: ColumnGate | None, around: Surroundings) -> list[str]:
    if not found.rows:
        return []
    share, usual = found.nulls.get(column, 0) / found.rows, around.usual_null_shares.get(column)
    broken = []
    if bounds is not None and bounds.max_null_share is not None and share > bounds.max_null_share:
        broken.append(f"{share:.0%} of {column} is NULL, more than max_null_share = {bounds.max_null_share:g}")
    jump = bounds.max_null_jump if bounds is not None and bounds.max_null_jump is not None else NULL_SHARE_JUMP
    if usual is not None and share - usual > jump:
        broken.append(f"{share:.0%} of {column} is NULL, usually {usual:.0%}")
    return broken


def _drift_broken(
    column: str, found: DayProfile, bounds: ColumnGate | None, around: Surroundings, facts: dict[str, int | float | str]
) -> list[str]:
    usual, now = around.usual_histograms.get(column), found.histograms.get(column)
    if not usual or not now:
        return []
    found_drift = drift(now, usual)
    facts[f"drift {column}"] = round(found_drift.index, 4)
    bound = bounds.max_drift if bounds is not None and bounds.max_drift is not None else LARGE_DRIFT
    if not found_drift.exceeds(bound):
        return []
    told = f"population stability index {found_drift.index:.2f}, more than {bound:g}"
    return [f"the values of {column} drifted: {told}"]


def _rules(contract: Contract, day: date, found: DayProfile) -> Finding:
    """One finding for all rules, the rows that break each among its facts, so that a table shows one check more."""
    broken = [(r, found.broken[r.name]) for r in contract.rules if found.broken.get(r.name)]
    message = "; ".join(f"{n} {_what_breaks(r)} break {r.name} ({r.expression})" for r, n in broken)
    facts = {BROKEN + r.name: found.broken.get(r.name, 0) for r in contract.rules}
    refuses = any(not r.only_warns for r, _ in broken)
    return Finding(RULES, day, not broken, refuses, message or f"{len(contract.rules)} rule(s) hold", facts)


def _what_breaks(rule: Rule) -> str:
    return f"group(s) per {', '.join(rule.per)}" if rule.per else "row(s)"
