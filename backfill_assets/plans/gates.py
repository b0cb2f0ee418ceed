"""The gates of plans: bounds between a chunk's days and what stood before, and the gates of a write
again on its files.

Elsewhere: reading the evidence and acting on findings (`gate`). A gate about the rows of a day is
an entry of `kernel.write.gates.GATES`: it judges a chunk's files again, with the plan's tolerances
and `max_key_share` as bounds; the lake's other bounds (`[gates.tables]`) were judged before each
commit. One about a day before and after is an entry of `PLAN_GATES`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.profiles import (
    TRAILING_DAYS,
    DayProfile,
    Histogram,
    Surroundings,
    counted_histograms,
    counted_nulls,
    usual_histograms,
    usual_null_shares,
)
from backfill_assets.kernel.core.receipts import Built, DayEntry
from backfill_assets.kernel.tables.gate_bounds import ColumnGate, TableGate
from backfill_assets.kernel.write import gates
from backfill_assets.kernel.write.gates import MAX_DRIFT, MAX_NULL_JUMP, DayToJudge
from backfill_assets.plans.model import Plan
from backfill_assets.plans.policy import Tolerances

# As the options of `plan` are called.
MAX_ROW_CHANGE = "max_row_change"
MAX_MEAN_CHANGE = "max_mean_change"
OF_COLUMNS = (MAX_NULL_JUMP, MAX_MEAN_CHANGE, MAX_DRIFT)
FEWEST_ROWS = 20  # below it a relative change is chance
BY_TOLERANCES = (gates.ROW_COUNT, gates.PROFILE)  # shown by the tolerances that bound them
OF_SOME = (gates.READS,)  # shown by the preflight of a lake that has them
SMALLEST_DRIFT = 1e-9  # in place of the bound 0: the gates of a write take that for none


@dataclass(frozen=True)
class GateFinding:
    """A refusal of a gate of a chunk."""

    table: str
    day: date | None  # None: the whole chunk
    rule: str  # the gate's name
    message: str  # the figures in words
    # whose acceptance lets it pass: TABLE.SETTING or TABLE.COLUMN.SETTING
    bounds: tuple[str, ...] = field(default=(), compare=False)
    # it is of a control that fewer values break than before the plan
    is_less: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class TableEvidence:
    """Evidence about one table's days of a chunk."""

    contract: Contract
    before: Mapping[date, DayEntry]  # all days of the table before the plan
    after: Mapping[date, DayEntry]  # the days of the chunk, by the receipts
    read: Mapping[date, DayProfile]  # the chunk's files, profiled by an independent reader
    # the files before, profiled likewise
    read_before: Mapping[date, DayProfile] = field(default_factory=dict)
    own_bounds: TableGate = field(default_factory=TableGate)  # of `[gates.tables]`
    accepted: Collection[str] = ()  # the bounds that a person lifted

    def lifted(self, setting: str) -> bool:
        """Whether a person lifted the bound SETTING or COLUMN.SETTING of the table."""
        return f"{self.contract.name}.{setting}" in self.accepted

    def as_judged(self, day: date, bounds: Tolerances) -> DayToJudge:
        """The day's files as the gates of a write judge them, by the plan's tolerances and
        `max_key_share`.

        What is usual is taken from the newest days with rows before `day`, and from `day` itself,
        both by receipts from before the plan began.
        """
        nulls = self._usual_nulls(day) if bounds.nulls is not None else {}
        drift = self._usual_drift(day) if bounds.drift is not None else {}
        # `model_construct`: these bounds are the plan's, and were checked with its options.
        column_gate = ColumnGate.model_construct(
            max_null_jump=bounds.nulls, max_drift=bounds.drift or SMALLEST_DRIFT
        )
        table = TableGate.model_construct(
            columns=dict.fromkeys([*nulls, *drift], column_gate),
            max_key_share=self.own_bounds.max_key_share,
            skew=self.own_bounds.skew,
        )
        usual = Surroundings(may_be_empty=True, usual_null_shares=nulls, usual_histograms=drift)
        return DayToJudge(self.contract, day, self.read.get(day, DayProfile()), table, usual)

    def _trailing(self, day: date) -> list[DayEntry]:
        """The newest days with rows before a day."""
        days = sorted(d for d, entry in self.before.items() if d < day and entry.rows)
        return [self.before[d] for d in days[-TRAILING_DAYS:]]

    def _usual_nulls(self, day: date) -> dict[str, float]:
        """The greatest usual NULL share by column, without columns whose bound is lifted."""
        own = self.before.get(day)
        nulls = _null_shares(own) if own is not None else {}
        usual = usual_null_shares([_null_shares(entry) for entry in self._trailing(day)])
        for column, share in usual.items():
            nulls[column] = max(share, nulls.get(column, 0.0))
        return {c: v for c, v in nulls.items() if not self.lifted(f"{c}.{MAX_NULL_JUMP}")}

    def _usual_drift(self, day: date) -> dict[str, Histogram]:
        """The usual histogram by column, without columns whose bound is lifted."""
        own = self.before.get(day)
        drift = dict[str, Histogram](counted_histograms(own.counts) if own is not None else {})
        drift |= usual_histograms([counted_histograms(e.counts) for e in self._trailing(day)])
        return {c: v for c, v in drift.items() if not self.lifted(f"{c}.{MAX_DRIFT}")}


@dataclass(frozen=True)
class PlanGate:
    """A gate that compares a day with its receipt or with the day before the plan."""

    name: str
    # in words under some tolerances; "": they do not bound it
    description: Callable[[Tolerances], str]
    # yields each bound ("": none can be lifted) and what it refuses, in words
    evaluate: Callable[[TableEvidence, date, Tolerances], Iterator[tuple[str, str]]]


def judge_chunk(evidence: TableEvidence, bounds: Tolerances) -> Iterator[GateFinding]:
    """The refusals of the gates of writes and of plans about one table's days, ascending; none: all
    passed."""
    table = evidence.contract.name
    for day in sorted(evidence.after):
        for gate in PLAN_GATES:
            for bound, text in gate.evaluate(evidence, day, bounds):
                yield _gate_finding(table, day, gate.name, text, [bound])
        for found in gates.judge_day(evidence.as_judged(day, bounds)):
            if found.refuses:
                yield _gate_finding(table, day, found.check, found.message, found.bounds)


def _gate_finding(
    table: str, day: date, rule: str, message: str, bounds: Collection[str]
) -> GateFinding:
    """A finding about a day, with its bounds ("": none can be lifted) as names of the table's."""
    lifting = tuple(f"{table}.{bound}" for bound in bounds if bound)
    return GateFinding(table, day, rule, message, lifting)


def gate_descriptions(bounds: Tolerances) -> list[str]:
    """The gates of a plan with these tolerances, a few words each."""
    texts = [gate.description(bounds) for gate in PLAN_GATES]
    texts += [
        gate.name.replace("_", " ")
        for gate in gates.GATES
        if gate.name not in BY_TOLERANCES + OF_SOME
    ]
    texts.append("rules")
    texts += [_bound_text(bounds.nulls, "NULL shares within {:.0%} of usual")]
    texts += [_bound_text(bounds.drift, "drift within {:g} (population stability index)")]
    return [text for text in texts if text]


def _null_shares(entry: DayEntry) -> dict[str, float]:
    """The share of NULLs by column; none of a day without rows."""
    if not entry.rows:
        return {}
    return {column: nulls / entry.rows for column, nulls in counted_nulls(entry.counts).items()}


def refuse_bound(plan: Plan, contracts: Sequence[Contract], name: str) -> None:
    """Raise BackfillError where `name` is no bound of the plan's gates that a person can lift:
    TABLE.max_row_change, or TABLE.COLUMN and one of `OF_COLUMNS`."""
    columns = {c.name: c.column_names for c in contracts if c.name in plan.tables}
    table, _, setting = name.partition(".")
    column, _, of_column = setting.partition(".")
    is_of_column = column in columns.get(table, ()) and of_column in OF_COLUMNS
    if table in columns and (setting == MAX_ROW_CHANGE or is_of_column):
        return
    fix = (
        f"Name a chunk, TABLE.{MAX_ROW_CHANGE}, or TABLE.COLUMN and {', '.join(OF_COLUMNS)}: "
        f"staging.flag.{MAX_DRIFT}"
    )
    raise plan.error(f"{name} is no bound of its gates that can be lifted", "Nothing was run", fix)


def _read_back(evidence: TableEvidence, day: date, _: Tolerances) -> Iterator[tuple[str, str]]:
    """A day whose files hold other rows than its receipt says. No bound: it cannot be lifted."""
    entry, read = evidence.after[day], evidence.read.get(day, DayProfile())
    if not entry.agrees_with(read):
        files = f"the files {read.rows} ({read.fingerprint})"
        yield "", f"the receipt says {entry.rows} rows ({entry.fingerprint}), {files}"


def _rows_moved(
    evidence: TableEvidence, day: date, bounds: Tolerances
) -> Iterator[tuple[str, str]]:
    """A day whose number of rows changed by a greater share than the plan tolerates."""
    before, after = evidence.before.get(day), evidence.after[day]
    if bounds.rows is None or before is None or evidence.lifted(MAX_ROW_CHANGE):
        return
    # A pending day is empty on purpose.
    if Built.PENDING in (before.built, after.built):
        return
    change = abs(after.rows - before.rows) / max(before.rows, 1)
    if change > bounds.rows and max(before.rows, after.rows) >= FEWEST_ROWS:
        yield (
            MAX_ROW_CHANGE,
            f"{before.rows} rows before, {after.rows} now ({change:.0%}, allowed "
            f"{bounds.rows:.0%})",
        )


def _means_moved(
    evidence: TableEvidence, day: date, bounds: Tolerances
) -> Iterator[tuple[str, str]]:
    """A day on which a column's mean changed by a greater share than the plan tolerates, also where
    the total over the chunk is what it was. Read and compared are the files."""
    read, before = evidence.read.get(day), evidence.read_before.get(day)
    if bounds.means is None or read is None or before is None:
        return
    if min(read.rows, before.rows) < FEWEST_ROWS:
        return
    for column, total in before.sums.items():
        was, now = float(total / before.rows), float(read.sums.get(column, 0) / read.rows)
        change = abs(now - was) / abs(was) if was else float(bool(now))  # from 0 to any: 100 %
        bound = f"{column}.{MAX_MEAN_CHANGE}"
        if change > bounds.means and not evidence.lifted(bound):
            figures = f"was {was:.4g}, is {now:.4g} ({change:.0%}, allowed {bounds.means:.0%})"
            yield bound, f"the mean of {column} {figures}"


def _bound_text(bound: float | None, text: str) -> str:
    return "" if bound is None else text.format(bound)


PLAN_GATES = (
    PlanGate("read-back", lambda _: "files read back equal receipts", _read_back),
    PlanGate("rows", lambda bounds: _bound_text(bounds.rows, "rows within {:.0%}"), _rows_moved),
    PlanGate(
        "means", lambda bounds: _bound_text(bounds.means, "means within {:.0%}"), _means_moved
    ),
)
