"""The gates of a write: conditions on a day's rows that refuse it or only warn, one entry of
`GATES` each.

Not here: the bounds of section `[gates]` (`kernel.tables.gate_bounds`), a day's history
(`kernel.write.judging`), Dagster's checks (`dagster.adapter.checks`) and plans (`plans.gate`). A
new gate is a function that returns a `Finding` and an entry in `GATES`; its bound is a field of
`TableGate`, which a new `lake.toml` shows with its description. Its tables get a check in Dagster
also without bounds.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from statistics import median

from backfill_assets.kernel.core.contracts import Contract, Rule
from backfill_assets.kernel.core.profiles import (
    BROKEN,
    LARGE_DRIFT,
    MEDIAN_NEEDS_DAYS,
    DayProfile,
    Finding,
    Surroundings,
    histogram_drift,
    is_skewed,
    largest_shift,
)
from backfill_assets.kernel.tables.gate_bounds import ColumnGate, TableGate

ROW_COUNT, NOT_NULL, UNIQUE_KEY, PROFILE = "row_count", "not_null", "unique_key", "profile"
READS, MAX_NULL_JUMP, MAX_DRIFT = "reads", "max_null_jump", "max_drift"
# Warned of without any setting: ten times more or fewer rows than on an ordinary day.
UNUSUAL_FACTOR = 10
UNUSUAL_NEEDS_ROWS = 20  # below it a factor of ten is chance
NULL_SHARE_JUMP = 0.2  # a NULL share this far above the trailing median is worth a look
NO_WORD = re.compile(r"[^A-Za-z0-9_]+")  # what no name of a check has
Facts = dict[str, int | float | str]


# Of a column without bounds in `[gates]`: NULL_SHARE_JUMP and LARGE_DRIFT, which only warn.
BUILT_IN_BOUNDS = ColumnGate(broken="warn")


@dataclass(frozen=True)
class DayToJudge:
    """A day to judge: its table's contract, the profile of its rows, the table's bounds, and its
    context."""

    contract: Contract
    day: date
    found: DayProfile  # of a day long written, by its receipt: without `duplicates` and `sums`
    bounds: TableGate
    around: Surroundings


@dataclass(frozen=True)
class Gate:
    """One gate: how it judges a day and what Dagster shows of it."""

    name: str
    description: Callable[[Contract], str]
    evaluate: Callable[[DayToJudge], Finding]
    blocks: bool = True  # it may stop dependent assets of the run
    names_rows: bool = False  # a finding is about single rows, of which samples can be shown
    applies: Callable[[Contract], bool] = lambda _: True  # the tables that have it


def gates_of(contract: Contract) -> list[Gate]:
    """The gates of a table, in the order of `GATES`, and one for each of its rules."""
    return [*(gate for gate in GATES if gate.applies(contract)), *map(_rule_gate, contract.rules)]


def check_name(rule: Rule) -> str:
    """The name of the check that judges a rule: the rule's own, as Dagster can have it; after
    `rule_` where a gate has that name."""
    name = NO_WORD.sub("_", rule.name)
    return f"rule_{name}" if name in {gate.name for gate in GATES} else name


def _rule_gate(rule: Rule) -> Gate:
    return Gate(
        check_name(rule),
        lambda _: _rule_in_words(rule),
        partial(_judge_rule, rule),
        names_rows=True,
    )


def checks_of(contract: Contract) -> Mapping[str, bool]:
    """The names of a table's gates, each with whether it blocks."""
    return {gate.name: gate.blocks for gate in gates_of(contract)}


def judge_day(judged: DayToJudge) -> list[Finding]:
    """One finding per gate of the day's table."""
    return [gate.evaluate(judged) for gate in gates_of(judged.contract)]


def _judge_row_count(judged: DayToJudge) -> Finding:
    """The finding about the number of rows: refused beyond the table's bounds, or if it is 0 and
    `empty` says so; a warning where it is unusual, or 0 and `empty` says so."""
    rows, bounds, trailing = judged.found.rows, judged.bounds, judged.around.trailing_rows
    facts: Facts = {"rows": rows}
    usual = None
    if len(trailing) >= MEDIAN_NEEDS_DAYS:
        usual = facts["trailing_median"] = float(median(trailing))

    finding = partial(Finding, check=ROW_COUNT, day=judged.day, facts=facts)
    passes = partial(finding, passed=True, refuses=False)
    warns = partial(finding, passed=False, refuses=False)
    if rows == 0 and judged.around.may_be_empty:
        return passes(message="empty, as expected")
    broken = _bounds_broken(rows, bounds, usual)
    if rows == 0 and bounds.empty == "refuse":
        broken.append("the day is empty")
    if broken:
        return finding(passed=False, refuses=True, message="; ".join(broken))
    if rows == 0 and bounds.empty == "warn":
        return warns(message="the day is empty")
    if usual is not None and _is_unusual(rows, usual):
        return warns(message=f"{rows} rows, usually about {usual:.0f}")
    return passes(message=f"{rows} rows")


def _is_unusual(rows: int, usual: float) -> bool:
    """Whether a day has far more or fewer rows than days before it, which no bound forbids; an
    empty day has a bound of its own."""
    if usual < UNUSUAL_NEEDS_ROWS or rows == 0:
        return False
    return max(rows / usual, usual / rows) > UNUSUAL_FACTOR


def _bounds_broken(rows: int, bounds: TableGate, usual: float | None) -> list[str]:
    """A text for each bound on the number of rows that a day of so many exceeds; `usual`: the
    median of the days before (None: not known, so that no change can be judged)."""
    broken = []
    if bounds.min_rows is not None and rows < bounds.min_rows:
        broken.append(f"{rows} rows, fewer than min_rows = {bounds.min_rows}")
    if _exceeds_bound(rows, bounds.max_rows):
        broken.append(f"{rows} rows, more than max_rows = {bounds.max_rows}")
    if usual is None:
        return broken
    change = abs(rows - usual)
    if _exceeds_bound(change, bounds.max_absolute_change):
        broken.append(f"{rows} rows, {change:.0f} from the trailing median {usual:.0f}")
    if usual > 0 and _exceeds_bound(change / usual, bounds.max_relative_change):
        broken.append(f"{rows} rows, {change / usual:.0%} from the trailing median {usual:.0f}")
    return broken


def _exceeds_bound(figure: float, bound: float | None) -> bool:
    """Whether a figure is greater than its bound, if it has one."""
    return bound is not None and figure > bound


def _judge_nulls(judged: DayToJudge) -> Finding:
    """The finding about NULLs in required columns, any of which refuses the day."""
    nulls = judged.found.nulls
    broken = {c: nulls[c] for c in judged.contract.required_columns if nulls.get(c)}
    message = "; ".join(f"{n} NULL(s) in {c}" for c, n in broken.items())
    facts: Facts = {f"nulls {c}": n for c, n in broken.items()}
    words = message or "no NULL in required columns"
    return Finding(
        check=NOT_NULL,
        day=judged.day,
        passed=not broken,
        refuses=bool(broken),
        message=words,
        facts=facts,
    )


def _judge_key(judged: DayToJudge) -> Finding:
    """The finding about rows that repeat a key, any of which refuses the day."""
    key = ", ".join(judged.contract.key)
    repeats = judged.found.duplicates
    message = f"{repeats} row(s) repeat a key ({key})" if repeats else f"({key}) is unique"
    facts: Facts = {"repeats": repeats}
    return Finding(
        check=UNIQUE_KEY,
        day=judged.day,
        passed=not repeats,
        refuses=bool(repeats),
        message=message,
        facts=facts,
    )


def _judge_profile(judged: DayToJudge) -> Finding:
    """The finding about missing input days, skewed keys, NULLs and drifted values. Each of them
    warns or refuses as the settings say of it; a column without bounds of its own is judged by
    `BUILT_IN_BOUNDS`. `bounds` of the finding name what a plan may lift."""
    profile, context = judged.found, judged.around
    warned = list[str]()
    refused = list[str]()
    beyond = list[str]()
    facts = _profile_facts(profile)
    if context.absent:
        table, first = context.absent[0]
        warned.append(
            f"incomplete: {len(context.absent)} input day(s) missing or lacking columns: {table} "
            f"{first}"
        )
    of_skew = refused if judged.bounds.skew == "refuse" else warned
    of_skew += _skew_broken(profile, judged.bounds)
    columns = (*judged.bounds.columns, *context.usual_null_shares, *context.usual_histograms)
    for column in dict.fromkeys(columns):
        bounds = judged.bounds.columns.get(column, BUILT_IN_BOUNDS)
        nulls = _nulls_broken(column, profile, bounds, context)
        drifted = _drift_broken(column, profile, bounds, context, facts)
        if nulls:
            beyond.append(f"{column}.{MAX_NULL_JUMP}")
        if drifted:
            beyond.append(f"{column}.{MAX_DRIFT}")
        of_column = refused if bounds.broken == "refuse" else warned
        of_column += [*nulls, *drifted]
    message = "; ".join([*refused, *warned])
    words = message or "nothing unusual"
    refuses = bool(refused) or (bool(context.absent) and context.incomplete == "refuse")
    return Finding(
        check=PROFILE,
        day=judged.day,
        passed=not message,
        refuses=refuses,
        message=words,
        facts=facts,
        bounds=tuple(beyond),
    )


def _profile_facts(profile: DayProfile) -> Facts:
    """The sums, NULLs and rows of the most frequent keys of a day, by their names."""
    facts: Facts = {}
    for column, total in profile.sums.items():
        facts[f"sum {column}"] = total if isinstance(total, int) else str(total)
    facts |= {f"nulls {column}": n for column, n in profile.nulls.items()}
    return facts | {f"most {key}": n for key, n in profile.most.items()}


def _skew_broken(profile: DayProfile, bounds: TableGate) -> Iterator[str]:
    """Yield a text for each key by which tables read the day and that has too many of its rows."""
    most = bounds.max_key_share
    if most is None:
        return
    for key, rows in profile.most.items():
        if is_skewed(rows, profile.rows, most):
            share = f"one key of ({key}) holds {rows / profile.rows:.0%} of the rows"
            yield f"{share}, more than max_key_share = {most:g}"


def _nulls_broken(
    column: str, profile: DayProfile, bounds: ColumnGate, context: Surroundings
) -> list[str]:
    """A text for each bound on the share of NULLs in a column that the day exceeds."""
    if profile.rows == 0:
        return []
    share = profile.nulls.get(column, 0) / profile.rows
    usual = context.usual_null_shares
    most, broken = bounds.max_null_share, []
    if _exceeds_bound(share, most):
        broken.append(f"{share:.0%} of {column} is NULL, more than max_null_share = {most:g}")
    jump = NULL_SHARE_JUMP if bounds.max_null_jump is None else bounds.max_null_jump
    if column in usual and share - usual[column] > jump:
        was = f"usually {usual[column]:.0%} (max_null_jump = {jump:g})"
        broken.append(f"{share:.0%} of {column} is NULL, {was}")
    return broken


def _drift_broken(
    column: str, profile: DayProfile, bounds: ColumnGate, context: Surroundings, facts: Facts
) -> list[str]:
    """A text if the values of a column drifted from those of the days before; notes the distance in
    `facts`."""
    usual = context.usual_histograms.get(column)
    histogram = profile.histograms.get(column)
    if not usual or not histogram:
        return []
    drifted = histogram_drift(histogram, usual)
    bound = bounds.max_drift or LARGE_DRIFT
    facts[f"drift {column}"] = round(drifted.index, 4)
    if not drifted.exceeds(bound):
        return []
    index = f"population stability index {drifted.index:.2f}, more than {bound:g}"
    return [f"the values of {column} drifted: {index}; {largest_shift(histogram, usual)}"]


def _judge_rule(rule: Rule, judged: DayToJudge) -> Finding:
    """The finding about rows, or groups of rows, that break a rule of the contract."""
    broken = judged.found.broken.get(rule.name, 0)
    message = f"{rule.name} holds"
    if broken:
        unit = f"group(s) per {', '.join(rule.per)}" if rule.per else "row(s)"
        message = f"{broken} {unit} break {rule.name} ({rule.expression})"
    refuses = broken > 0 and not rule.only_warns
    facts = {BROKEN + rule.name: broken}
    return Finding(
        check=check_name(rule),
        day=judged.day,
        passed=not broken,
        refuses=refuses,
        message=message,
        facts={**facts},
    )


def _judge_reads(judged: DayToJudge) -> Finding:
    """The finding about reads of consumers that fail with the day's rows."""
    failed = judged.around.unanswered
    reads = len(judged.contract.consumer_queries)
    message = "; ".join(failed) or f"{reads} read(s) of consumers answer"
    return Finding(
        check=READS,
        day=judged.day,
        passed=not failed,
        refuses=bool(failed),
        message=message,
        facts={"reads": reads},
    )


def _reads_in_words(contract: Contract) -> str:
    reads = "; ".join(f"`{query}`" for query in contract.consumer_queries)
    return (
        f"The reads of consumers answer with the new rows, before anything is published: {reads}. "
        "Blocks the write."
    )


def _rule_in_words(rule: Rule) -> str:
    kept = f"The day's rows keep the rule {rule.name}: {rule.description} (`{rule.expression}`)."
    return f"{kept} {'Only warns.' if rule.only_warns else 'Blocks the write.'}"


WITHIN_BOUNDS = (
    "The day's rows lie within the bounds of [gates] and near the trailing median. Blocks the "
    "write."
)
ONE_PER_KEY = "The key is unique within the day. Blocks the write."
AS_USUAL = (
    "Required input days exist, NULL shares and values are as usual. Warns, or refuses as [gates] "
    "says."
)
GATES = (
    Gate(ROW_COUNT, lambda _: WITHIN_BOUNDS, _judge_row_count),
    Gate(
        NOT_NULL,
        lambda _: "No NULL in a required column. Blocks the write.",
        _judge_nulls,
        names_rows=True,
    ),
    Gate(
        UNIQUE_KEY,
        lambda _: ONE_PER_KEY,
        _judge_key,
        names_rows=True,
        applies=lambda contract: contract.key != (),
    ),
    Gate(PROFILE, lambda _: AS_USUAL, _judge_profile, blocks=False),
    Gate(
        READS,
        _reads_in_words,
        _judge_reads,
        applies=lambda contract: bool(contract.consumer_queries),
    ),
)
