"""Rollbacks in receipts: reasons, the version that a day went back to, and other days that become stale by one.

Elsewhere: files (`lake.restore`), which days of which tables (`operations.rollback`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date

from backfill_assets.core.days import DayRange, contiguous, parse_span
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.receipts import DayEntry, Receipt
from backfill_assets.core.states import State, States
from backfill_assets.core.view import Stamp

ROLLBACK, RELEASE = "rollback", "release"  # reasons of receipts
TO_VERSION = "to_version"  # tag of a rollback's receipt: `VERSION`, or `VERSION:FIRST..LAST …` where days differ
NO_DIGEST = ""  # the input digest of a day put back to before it was ever made: equal to no digest
COMING = "rollback to come"


def targets_text(targets: Mapping[date, int]) -> str:
    """The target versions of days, as the text of the tag `TO_VERSION`."""
    chosen = sorted(set(targets.values()))
    if len(chosen) == 1:
        return str(chosen[0])
    spans = [(v, r) for v in chosen for r in contiguous(d for d, at in targets.items() if at == v)]
    return " ".join(f"{version}:{span.start}..{span.last}" for version, span in spans)


def target_of(receipt: Receipt, day: date) -> int | None:
    """The version to which a rollback's receipt restored `day`; None if it names none."""
    text = receipt.tags.get(TO_VERSION, "")
    try:
        if ":" not in text:
            return int(text)
        for part in text.split():
            version, _, span = part.partition(":")
            if ".." in span and day in parse_span(span):
                return int(version)
    except (ValueError, BackfillError):
        return None
    return None


def unheld(states: States, days: Iterable[date]) -> list[DayRange]:
    """The days as ranges, without days that are held in any table: a run of a range with one is refused as a whole."""
    return contiguous(d for d in days if all(states.of(name, d) is not State.HELD for name in states.contracts))


def stale_after(states: States, entries: Mapping[str, Mapping[date, DayEntry]]) -> dict[str, frozenset[date]]:
    """Per table the days that become stale once `entries` are the partition records of these days.

    The days of a rollback are held, and never among them; tables without such days are left out.
    """
    tables = dict(states.view.tables)
    for name, days in entries.items():
        before = states.view.table(name)
        stamps = {**before.stamps, **{d: _stamp(before.stamps.get(d), entry) for d, entry in days.items()}}
        tables[name] = replace(before, stamps=stamps, foreign=before.foreign - set(days))
    then = States(states.contracts.values(), replace(states.view, tables=tables), states.codes)
    found = {
        name: frozenset(
            d
            for d in states.view.table(name).stamps
            if then.of(name, d) is State.STALE and states.of(name, d) is not State.STALE
        )
        for name in states.contracts
    }
    return {name: days for name, days in found.items() if days}


def _stamp(before: Stamp | None, entry: DayEntry) -> Stamp:
    if before is None:
        return Stamp(entry, 0, COMING, "", "", "")
    return replace(before, entry=entry, write_id=COMING)
