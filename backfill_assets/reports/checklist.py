"""The checklist of a lake that can be trusted, computed: each item with its evidence, and the
command that mends it.

Not here: the figures themselves (`prove`, `account`, `skew`, `lateness`, plans), and a day's states
(`status`). An item holds only if something in the lake shows it; what was never tried does not
hold. No JVM, no Dagster.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple, TypedDict

from backfill_assets.intake.select import selected_names
from backfill_assets.kernel.core.calendars import counts_text
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.contracts import Input, landed_by_versions
from backfill_assets.kernel.core.days import contiguous_ranges, ranges_text
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.core.view import Source
from backfill_assets.kernel.tables.fingerprints import quoted_name
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.versions import unfinished_switches
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.account import Repeats, accounts_by_table, repeats_of, sum_of_accounts
from backfill_assets.reading.proofs import EQUAL, failed_proofs, recorded_proofs
from backfill_assets.reading.readable import Unread, readable_tables
from backfill_assets.reading.rejected import NEWEST_DAYS
from backfill_assets.reports.lateness import LatenessScope, lateness_of_states
from backfill_assets.reports.status import known_days

LOAD, PLAN = "loads", "newest plan"


@dataclass(frozen=True)
class Item:
    """One item of the list."""

    about: str  # loads, or the newest plan
    name: str
    holds: bool
    evidence: str
    fix: str = ""  # what mends it; "" where it holds


class ChecklistForm(TypedDict):
    """The checklist as JSON values."""

    items: Sequence[Item]


@dataclass(frozen=True)
class _LakeState:
    """The lake and its states, which all items share."""

    lake: Lake
    pipeline: Pipeline
    states: States
    unread: Unread


def judge_checklist(lake: Lake, pipeline: Pipeline) -> tuple[Item, ...]:
    """Judge the six items of loads that can be recovered, and the six of the newest plan; changes
    nothing."""
    known, unread = readable_tables(lake, pipeline)
    states = known.states(read_view(lake, known.contracts))
    seen = _LakeState(lake, known, states, unread)
    items = [_item_of(LOAD, name, judge(seen)) for name, judge in LOAD_JUDGES.items()]
    plan_items: PlanItems | None = offered_function("plan_items")
    if plan_items is not None:  # None: the room of plans is left out
        items += [_item_of(PLAN, name, answer) for name, answer in plan_items(lake, pipeline)]
    return tuple(items)


class ItemAnswer(NamedTuple):
    """What was found of one item."""

    holds: bool
    evidence: str
    fix: str  # what would mend it; not shown where it holds


# `plans.plan_items`: yields the name of each item with its parts as of `ItemAnswer`.
PlanItems = Callable[[Lake, Pipeline], Iterable[tuple[str, tuple[bool, str, str]]]]
CountShares = Callable[..., Sequence[Any]]  # `plans.skew.key_shares`


def _item_of(about: str, name: str, answer: tuple[bool, str, str]) -> Item:
    holds, evidence, fix = answer
    return Item(about, name, holds, evidence, "" if holds else fix)


def _judge_reruns(seen: _LakeState) -> ItemAnswer:
    """A rerun of the same inputs, code and settings gives the same rows: at least one proof shows
    it, and neither a proof nor a receipt refutes it."""
    wrong = []
    for name, table in seen.states.view.tables.items():
        days = [day for day, receipt in table.latest.items() if receipt.irreproducible]
        if days:
            wrong.append(f"{name} {ranges_text(days)}")
    for failed in failed_proofs(seen.lake, seen.pipeline).values():
        wrong += map(str, failed)
    equal = Counter(p.table for p in recorded_proofs(seen.lake) if p.outcome == EQUAL)
    if wrong:
        evidence = f"the same inputs gave other rows: {'; '.join(wrong[:3])}"
    elif equal:
        counted = _counts_text(seen, equal)
        evidence = f"{counted} of tables were computed again and came out equal"
    else:
        evidence = "no day was computed again"
    holds = bool(equal) and not wrong
    return ItemAnswer(holds, evidence, "backfill-assets prove --random 3")


def _counts_text(seen: _LakeState, by_table: Mapping[str, int]) -> str:
    """How many partitions these are, by what each is: `31 day(s), 1 month(s)`."""
    counts = Counter[str]()
    for name, number in by_table.items():
        contract = seen.states.contracts.get(name)
        counts[contract.calendar.unit if contract else "day"] += number
    return counts_text(counts)


def _judge_atomicity(seen: _LakeState) -> ItemAnswer:
    """Every day is one commit of this package, and no switch of several tables stopped halfway."""
    days, foreign, wrong = dict[str, int](), list[str](), list[str]()
    for name, table in seen.states.view.tables.items():
        days[name] = len(table.latest)
        if table.foreign:
            foreign.append(f"{name} {ranges_text(table.foreign)}")
    if foreign:
        wrong.append(f"another program wrote {'; '.join(foreign[:3])}")
    wrong += map(str, unfinished_switches(seen.lake))
    wrong += map(str, seen.unread.values())
    evidence = "; ".join(wrong) or (
        f"all {_counts_text(seen, days)} of tables are files of one commit with a receipt; no "
        "switch of tables stopped halfway"
    )
    has_days = any(days.values())
    return ItemAnswer(has_days and not wrong, evidence, "backfill-assets catch-up")


def _judge_load_path(seen: _LakeState) -> ItemAnswer:
    """Daily loads, late data and backfills are the same function: the newest receipts carry one
    code per table."""
    outdated = _days_of_other_code(seen)
    wrong = list[str]()
    for name, number in outdated.items():
        counted = _counts_text(seen, {name: number})
        wrong.append(f"by other code than today's: {counted} of {name}")
    runs = _commits_by_reason(seen)
    reasons = ", ".join(f"{count} by {reason or 'hand'}" for reason, count in runs.most_common())
    evidence = "; ".join(wrong) or (
        f"{sum(runs.values())} commits ({reasons}), and every day's newest one is by today's code "
        "of its table"
    )
    fix = "backfill-assets catch-up"
    if outdated:
        fix = f"backfill-assets plan --from DAY --to DAY --tables {','.join(outdated)}"
    return ItemAnswer(bool(runs) and not wrong, evidence, fix)


def _commits_by_reason(seen: _LakeState) -> Counter[str]:
    """Count the commits with a receipt of all tables by its reason."""
    counted = Counter[str]()
    for name in seen.states.view.tables:
        for commit in seen.lake.store.commits(name):
            if commit.receipt:
                counted[commit.receipt.reason] += 1
    return counted


def _days_of_other_code(seen: _LakeState) -> dict[str, int]:
    """Count the days that other code than today's made, of each table of the pipeline that has
    any; tables that others write have no code here."""
    codes, counted = seen.pipeline.codes, dict[str, int]()
    for name, table in seen.states.view.tables.items():
        contract = seen.states.contracts.get(name)
        has_code = contract is not None and not contract.external and name in codes
        if not has_code:
            continue
        today = codes[name].code_digest
        days = sum(receipt.code_digest != today for receipt in table.latest.values())
        if days:
            counted[name] = days
    return counted


def _judge_event_time(seen: _LakeState) -> ItemAnswer:
    """Late rows reach the day they happened on: no day is stale, however late its rows came."""
    fix = "backfill-assets catch-up"
    share = seen.lake.settings.lateness.watermark_share
    wrong = [
        f"{name} {ranges_text(days)} lack rows that arrived" for name, days in _stale_days(seen)
    ]
    try:
        late = lateness_of_states(seen.lake, seen.states, LatenessScope(share=share), utc_now())
    except BackfillError:
        return ItemAnswer(False, "nothing is loaded", fix)
    evidence = "; ".join(wrong[:3]) or (
        f"{late.late:,} of {late.rows:,} rows came a day or more late; the days that they change "
        "are made again"
    )
    return ItemAnswer(not wrong, evidence, fix)


def _stale_days(seen: _LakeState) -> Iterator[tuple[str, list[date]]]:
    """Yield the stale days of each table that has any."""
    days = known_days(seen.states.view) or ()
    for name in seen.states.contracts:
        stale = [day for day in days if seen.states.of(name, day) is State.STALE]
        if stale:
            yield name, stale


def _judge_duplicates(seen: _LakeState) -> ItemAnswer:
    """Every landed row is accounted for, no hash decides which row of a key wins (looked for in
    the newest `NEWEST_DAYS` days), and no key is current twice. The answer tells the first of
    these that does not hold; it is no, too, while nothing has landed or no table keeps versions."""
    view = seen.states.view
    landed = sum_of_accounts(accounts_by_table(seen.lake, view).values())
    if wrong := sum(landed.wrong.values()):
        spans = ", ".join(map(str, contiguous_ranges(landed.wrong)))
        evidence = f"{wrong:,} landed row(s) are in no table: {spans}"
        return ItemAnswer(False, evidence, "backfill-assets doctor")
    if undecided := sum(_undecided_keys(seen, source) for source in view.sources.values()):
        evidence = (
            f"{undecided:,} keys came on one day in several files, with other content and one "
            f"version_ts: a hash decides which counts (of the newest {NEWEST_DAYS} days)"
        )
        fix = "name version_ts or seq in select: backfill-assets guide own-files"
        return ItemAnswer(False, evidence, fix)
    versions = _tables_of_versions(seen)
    twice = _tables_with_repeated_keys(seen, versions)
    if twice:
        lines = []
        for name, rows in twice.items():
            lines.append(f"{rows:,} row(s) of {name} repeat a key that is current")
        named = ",".join(twice)
        fix = f"backfill-assets backfill --force --tables {named} --from DAY --to DAY"
        return ItemAnswer(False, "; ".join(lines), fix)
    found = sum((repeats_of(seen.lake, seen.states, s) for s in view.sources.values()), Repeats())
    evidence = (
        f"of {landed.rows:,} landed rows {landed.duplicates:,} came twice under one delivery "
        f"number, and of the other {found}; each key is current once in "
        f"{', '.join(versions) or 'no table'}"
    )
    return ItemAnswer(landed.rows > 0 and bool(versions), evidence, "backfill-assets doctor")


def _tables_of_versions(seen: _LakeState) -> list[str]:
    """Return the tables that keep the versions of a key, of which one is current."""
    contracts = seen.states.contracts
    needed = {"event_key", "known_until"}
    found = []
    for name in landed_by_versions(contracts.values()):
        if needed <= {*contracts[name].column_names}:
            found.append(name)
    return found


def _tables_with_repeated_keys(seen: _LakeState, tables: Iterable[str]) -> dict[str, int]:
    """Return how many current rows repeat a key, of each of these tables that has any."""
    counted = {name: _repeated_current_keys(seen, name) for name in tables}
    return {name: rows for name, rows in counted.items() if rows}


def _repeated_current_keys(seen: _LakeState, name: str) -> int:
    """Count the rows of a table of versions that are current and whose key another current row
    has."""
    table = seen.states.view.table(name)
    if not table.exists:
        return 0
    query = "SELECT count(*) - count(DISTINCT event_key) AS n FROM t WHERE known_until IS NULL"
    return sum(
        batch.columns[0][0].as_py()
        for batch in seen.lake.store.query(query, {"t": (name, table.version)})
    )


def _undecided_keys(seen: _LakeState, source: Source) -> int:
    """Count the keys of the source's newest days that came with several contents in several files
    at one `arrival_ts` and `version_ts`, so that only the default of `seq`, a hash, orders them."""
    days = sorted(source.loaded.latest)[-NEWEST_DAYS:]
    if not days:
        return 0
    delivered = seen.lake.settings.delivered[source.name]
    # A table's log orders its rows, and a `seq` of one's own does, too.
    is_ordered = bool(delivered.table) or "seq" in selected_names(delivered.select)
    if is_ordered:
        return 0
    when = "event_key, arrival_date, arrival_ts, version_ts"
    columns = seen.states.contracts[source.table].columns
    own = [quoted_name(c.name) for c in columns if c.name not in ("seq", "source_file")]
    # A row per content of a key, with the first and the last file that holds it.
    contents = (
        f"SELECT {when}, min(source_file) AS first_file, max(source_file) AS last_file FROM t "
        f"WHERE arrival_date >= DATE '{days[0]}' GROUP BY {', '.join(own)}"
    )
    query = (
        f"SELECT 1 AS n FROM ({contents}) GROUP BY {when} "
        "HAVING count(*) > 1 AND min(first_file) <> max(last_file)"
    )
    batches = seen.lake.store.query(
        f"SELECT count(*) AS n FROM ({query})", {"t": (source.table, source.loaded.version)}
    )
    return sum(batch.columns[0][0].as_py() for batch in batches)


def _judge_skew(seen: _LakeState) -> ItemAnswer:
    """The most frequent key of each table that others group or join is known, and bounded."""
    keyed = sorted({read.table for read in _keyed_inputs(seen)})
    if not keyed:
        evidence = "no input says by which columns a table groups or joins it"
        return ItemAnswer(
            False, evidence, "name them (`by` of an input): backfill-assets guide skew"
        )
    shares = _shares_of_keys(seen)
    if not shares:
        fix = f"backfill-assets plan --force --from DAY --to DAY --tables {','.join(keyed)}"
        return ItemAnswer(False, "no receipt counted a greatest key", fix)
    beyond, unbounded = list[str](), list[str]()
    for share in shares:
        if share.bound is None:
            unbounded.append(share.table)
        elif share.bound and share.beyond:
            days = ranges_text(share.beyond)
            beyond.append(f"{share.table} {days} exceed max_key_share = {share.bound:g}")
    evidence = "; ".join(beyond or map(str, shares[:2]))
    table = min(unbounded, default=shares[0].table)
    fix = f"set [gates.tables.{table}] max_key_share in lake.toml"
    return ItemAnswer(not beyond and not unbounded, evidence, fix)


def _keyed_inputs(seen: _LakeState) -> list[Input]:
    """Return the inputs that name the columns by which a table groups or joins them."""
    return [read for c in seen.states.contracts.values() for read in c.inputs if read.by]


def _shares_of_keys(seen: _LakeState) -> Sequence[Any]:
    """Return the shares of the most frequent keys, over all known days, of each input that names
    its key; none where no room counts them."""
    count_shares: CountShares | None = offered_function("key_shares")
    if count_shares is None:
        return ()
    days = known_days(seen.states.view)
    reads = {}
    if days is not None:
        for name, contract in seen.states.contracts.items():
            reads[name] = {read.table: [days] for read in contract.inputs if read.by}
    return count_shares(seen.lake, seen.states, reads)


LOAD_JUDGES: dict[str, Callable[[_LakeState], ItemAnswer]] = {
    "a rerun changes nothing": _judge_reruns,
    "a load is seen whole or not at all": _judge_atomicity,
    "one load path": _judge_load_path,
    "event time, however late a row comes": _judge_event_time,
    "one row per key, the latest wins": _judge_duplicates,
    "skew is known and bounded": _judge_skew,
}
