"""The checklist of a lake that can be trusted, computed: each item with its evidence, and the
command that mends it.

Not here: the figures themselves (`prove`, `account`, `skew`, `lateness`, plans), and a day's states
(`status`). An item holds only if something in the lake shows it; what was never tried does not
hold. No JVM, no Dagster.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from backfill_assets.intake.select import names_of
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.contracts import versions_of
from backfill_assets.kernel.core.days import contiguous, ranges
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.rooms import offered
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.core.view import Source
from backfill_assets.kernel.tables.fingerprints import quoted
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.versions import unfinished
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.account import Repeats, accounts, repeats_of, sum_of_accounts
from backfill_assets.reading.proofs import EQUAL, proofs, unproven
from backfill_assets.reading.readable import Unread, readable
from backfill_assets.reading.rejected import NEWEST_DAYS
from backfill_assets.reports.lateness import LatenessScope, lateness_of
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


@dataclass(frozen=True)
class _LakeState:
    """The lake and its states, which all items share."""

    lake: Lake
    pipeline: Pipeline
    states: States
    unread: Unread


def checklist(lake: Lake, pipeline: Pipeline) -> tuple[Item, ...]:
    """Judge the six items of loads that can be recovered, and the six of the newest plan; changes
    nothing."""
    known, unread = readable(lake, pipeline)
    states = known.states(read_view(lake, known.contracts))
    seen = _LakeState(lake, known, states, unread)
    loads = (_item(LOAD, name, judge(seen)) for name, judge in LOADS.items())
    plan_items: PlanItems | None = offered("plan_items")
    planned = plan_items(lake, pipeline) if plan_items is not None else ()
    return (*loads, *(_item(PLAN, name, answer) for name, answer in planned))


Answer = tuple[bool, str, str]  # whether it holds, the evidence, and what mends it
PlanItems = Callable[[Lake, Pipeline], Iterable[tuple[str, Answer]]]  # each by its name
CountShares = Callable[..., Sequence[Any]]  # `plans.skew.key_shares`


def _item(about: str, name: str, answer: Answer) -> Item:
    holds, evidence, fix = answer
    return Item(about, name, holds, evidence, "" if holds else fix)


def _idempotent(seen: _LakeState) -> Answer:
    """A rerun of the same inputs, code and settings gives the same rows: shown by proofs, and by no
    receipt refuted."""
    irreproducible = {
        n: [d for d, r in t.latest.items() if r.irreproducible]
        for n, t in seen.states.view.tables.items()
    }
    wrong = [f"{name} {ranges(days)}" for name, days in irreproducible.items() if days]
    equal = [p for p in proofs(seen.lake) if p.outcome == EQUAL]
    wrong += [str(p) for failed in unproven(seen.lake, seen.pipeline).values() for p in failed]
    evidence = (
        f"{len(equal)} day(s) of tables were computed again and came out equal"
        if equal
        else "no day was computed again"
    )
    evidence = f"the same inputs gave other rows: {'; '.join(wrong[:3])}" if wrong else evidence
    return bool(equal) and not wrong, evidence, "backfill-assets prove --random 3"


def _atomic(seen: _LakeState) -> Answer:
    """Every day is one commit of ours, and no switch of several tables stopped halfway."""
    foreign = [f"{n} {ranges(t.foreign)}" for n, t in seen.states.view.tables.items() if t.foreign]
    halfway = list(map(str, unfinished(seen.lake)))
    days = sum(len(t.latest) for t in seen.states.view.tables.values())
    well = (
        f"all {days} days of tables are files of one commit with a receipt; no switch of tables "
        "stopped halfway"
    )
    wrong = [f"another program wrote {'; '.join(foreign[:3])}"] if foreign else []
    wrong += [*halfway, *map(str, seen.unread.values())]
    return bool(days) and not wrong, "; ".join(wrong) or well, "backfill-assets catch-up"


def _one_path(seen: _LakeState) -> Answer:
    """Daily loads, late data and backfills are the same function: the newest receipts carry one
    code per table."""
    view, codes = seen.states.view, seen.pipeline.codes
    runs = Counter(
        c.receipt.reason for n in view.tables for c in seen.lake.store.commits(n) if c.receipt
    )
    ours = {
        n for n, contract in seen.states.contracts.items() if n in codes and not contract.external
    }
    latest_of = {n: t.latest.values() for n, t in view.tables.items() if n in ours}
    outdated = {
        n: sum(s.code_digest != codes[n].code_digest for s in latest)
        for n, latest in latest_of.items()
    }
    wrong = [
        f"by other code than today's: {days} day(s) of {name}"
        for name, days in outdated.items()
        if days
    ]
    reasons = ", ".join(f"{count} by {reason or 'hand'}" for reason, count in runs.most_common())
    well = (
        f"{sum(runs.values())} commits ({reasons}), and every day's newest one is by today's code "
        "of its table"
    )
    names = ",".join(n for n, days in outdated.items() if days)
    mend = (
        f"backfill-assets plan --from DAY --to DAY --tables {names}"
        if names
        else "backfill-assets catch-up"
    )
    return bool(runs) and not wrong, "; ".join(wrong) or well, mend


def _event_time(seen: _LakeState) -> Answer:
    """Late rows reach the day they happened on: no day is stale, however late its rows came."""
    share, days = seen.lake.settings.lateness.watermark_share, known_days(seen.states.view)
    stale = {
        n: [d for d in days or () if seen.states.of(n, d) is State.STALE]
        for n in seen.states.contracts
    }
    wrong = [
        f"{name} {ranges(found)} lack rows that arrived" for name, found in stale.items() if found
    ]
    fix = "backfill-assets catch-up"
    try:
        late = lateness_of(seen.lake, seen.states, LatenessScope(share=share), utc_now())
    except BackfillError:
        return False, "nothing is loaded", fix
    well = (
        f"{late.late:,} of {late.rows:,} rows came a day or more late; the days that they change "
        "are made again"
    )
    return not wrong, "; ".join(wrong[:3]) or well, fix


def _deduplicated(seen: _LakeState) -> Answer:
    """Every landed row is accounted for, no hash decides which row of a key wins, and no key is
    current twice."""
    view, contracts = seen.states.view, seen.states.contracts
    landed = sum_of_accounts(accounts(seen.lake, view).values())
    if wrong := sum(landed.wrong.values()):
        evidence = (
            f"{wrong:,} landed row(s) are in no table: "
            f"{', '.join(map(str, contiguous(landed.wrong)))}"
        )
        return False, evidence, "backfill-assets doctor"
    if undecided := sum(_undecided(seen, source) for source in view.sources.values()):
        evidence = (
            f"{undecided:,} keys came on one day in several files, with other content and one "
            "version_ts: a hash "
        )
        evidence += f"decides which counts (of the newest {NEWEST_DAYS} days)"
        return False, evidence, "name version_ts or seq in select: backfill-assets guide own-files"
    versions = [
        n
        for n in versions_of(contracts.values())
        if {"event_key", "known_until"} <= {*contracts[n].column_names}
    ]
    if twice := {name: n for name in versions if (n := _current_twice(seen, name))}:
        evidence = "; ".join(
            f"{n:,} row(s) of {name} repeat a key that is current" for name, n in twice.items()
        )
        return (
            False,
            evidence,
            f"backfill-assets backfill --force --tables {','.join(twice)} --from DAY --to DAY",
        )
    found = sum((repeats_of(seen.lake, seen.states, s) for s in view.sources.values()), Repeats())
    evidence = (
        f"of {landed.rows:,} landed rows {landed.duplicates:,} came twice under one delivery "
        "number, and of the "
    )
    evidence += f"other {found}; each key is current once in {', '.join(versions) or 'no table'}"
    return bool(landed.rows and versions), evidence, "backfill-assets doctor"


def _current_twice(seen: _LakeState, name: str) -> int:
    """Count the rows of a table of versions that are current and whose key another current row
    has."""
    if (version := seen.states.view.table(name).version) < 0:
        return 0
    query = "SELECT count(*) - count(DISTINCT event_key) AS n FROM t WHERE known_until IS NULL"
    return sum(
        batch.columns[0][0].as_py()
        for batch in seen.lake.store.query(query, {"t": (name, version)})
    )


def _undecided(seen: _LakeState, source: Source) -> int:
    """Count the keys of the source's newest days whose rows in several files only the default of
    `seq` orders."""
    days = sorted(source.loaded.latest)[-NEWEST_DAYS:]
    if not days:
        return 0
    delivered = seen.lake.settings.delivered[source.name]
    if delivered.table or "seq" in names_of(delivered.select):  # a table's log orders its rows
        return 0
    when = "event_key, arrival_date, arrival_ts, version_ts"
    own = (
        c.name
        for c in seen.states.contracts[source.table].columns
        if c.name not in ("seq", "source_file")
    )
    contents = (
        f"SELECT {when}, min(source_file) AS a, max(source_file) AS b FROM t WHERE arrival_date "
        f">= DATE '{days[0]}'"
    )
    contents += f" GROUP BY {', '.join(map(quoted, own))}"
    query = (
        f"SELECT 1 AS n FROM ({contents}) GROUP BY {when} HAVING count(*) > 1 AND min(a) <> max(b)"
    )
    batches = seen.lake.store.query(
        f"SELECT count(*) AS n FROM ({query})", {"t": (source.table, source.loaded.version)}
    )
    return sum(batch.columns[0][0].as_py() for batch in batches)


def _skew(seen: _LakeState) -> Answer:
    """The most frequent key of each table that others group or join is known, and bounded."""
    days = known_days(seen.states.view)
    reads = (
        {n: {i.table: [days] for i in c.inputs if i.by} for n, c in seen.states.contracts.items()}
        if days
        else {}
    )
    count_shares: CountShares | None = offered("key_shares")
    shares = count_shares(seen.lake, seen.states, reads) if count_shares is not None else ()
    beyond = [
        f"{s.table} {ranges(s.beyond)} exceed max_key_share = {s.bound:g}"
        for s in shares
        if s.bound and s.beyond
    ]
    unbounded = sorted({s.table for s in shares if s.bound is None})
    keyed = sorted({i.table for c in seen.states.contracts.values() for i in c.inputs if i.by})
    evidence = (
        "; ".join(beyond) or "; ".join(map(str, shares[:2])) or "no receipt counted a greatest key"
    )
    if not keyed:
        evidence = "no input says by which columns a table groups or joins it"
        mend = "name them (`by` of an input): backfill-assets guide skew"
    elif not shares:
        mend = f"backfill-assets plan --force --from DAY --to DAY --tables {','.join(keyed)}"
    else:
        mend = (
            f"set [gates.tables.{(unbounded or [s.table for s in shares])[0]}] max_key_share in "
            "lake.toml"
        )
    return bool(shares) and not beyond and not unbounded, evidence, mend


LOADS: dict[str, Callable[[_LakeState], Answer]] = {
    "a rerun changes nothing": _idempotent,
    "a load is seen whole or not at all": _atomic,
    "one load path": _one_path,
    "event time, however late a row comes": _event_time,
    "one row per key, the latest wins": _deduplicated,
    "skew is known and bounded": _skew,
}
