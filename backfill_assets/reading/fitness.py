"""Fit days: complete, computed from today's inputs, with the rows that their receipts name.

Held and outdated days are fit, unless their files lack a column of today's contract, which would be
read as NULL. An older version is judged by its own receipts only. Not here: the states
(`kernel.core.states`) and reading rows (`reader`).
"""

import warnings
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Literal

from backfill_assets.kernel.core.contracts import Column, Contract, Input, InputKind
from backfill_assets.kernel.core.days import (
    contiguous_ranges,
    ranges_text,
)
from backfill_assets.kernel.core.digests import input_days_of
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.profiles import DayProfile
from backfill_assets.kernel.core.readings import contract_columns, lacking_columns, set_name
from backfill_assets.kernel.core.receipts import Built, DayEntry
from backfill_assets.kernel.core.states import State, States
from backfill_assets.kernel.core.view import LakeView, TableView
from backfill_assets.kernel.tables.columns import read_footer, type_of_arrow
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.audit import audit_files, audit_table
from backfill_assets.reading.downstream import stale_after_needed

Unfit = Literal["refuse", "warn", "take"]
CHOICES: tuple[Unfit, ...] = ("refuse", "warn", "take")
UNFIT = (State.MISSING, State.STALE, State.INCOMPLETE, State.UNPINNED, State.PENDING)
ORDER = {state.value: number for number, state in enumerate(UNFIT)}
CALLER = 4  # frames between the warning and the code that asked for rows


class UnfitDays(BackfillError):
    """Requested days are missing, stale, incomplete, unpinned or pending, or their files lack a
    column."""


class UnfitDaysWarning(UserWarning):
    """Requested days are missing, stale, incomplete, unpinned or pending, or their files lack a
    column; the caller chose to be warned, and gets their rows."""


def unfit_days_now(states: States, table: str, days: Iterable[date]) -> dict[date, str]:
    """Return the days that are not fit by the states of the lake, each with its state, or the
    columns that it lacks."""
    unfit = {}
    for day in days:
        state = states.of(table, day)
        if state in UNFIT:
            unfit[day] = state.value
        elif reason := lacking_reason(states.lacking_columns(table, day)):
            unfit[day] = reason
    return unfit


def unfit_days_then(view: TableView, contract: Contract, days: Iterable[date]) -> dict[date, str]:
    """Return the days that were not fit by the receipts of a version; a day that another program
    changed is stale."""
    by_receipt = {Built.PENDING: State.PENDING, Built.INCOMPLETE: State.INCOMPLETE}
    unfit = {}
    for day in days:
        receipt = view.latest.get(day)
        if receipt is None:
            unfit[day] = State.MISSING.value
        elif receipt.entry.built in by_receipt:
            unfit[day] = by_receipt[receipt.entry.built].value
        elif day in view.foreign:
            unfit[day] = State.STALE.value
        elif reason := lacking_reason(lacking_columns(receipt.entry, contract.columns)):
            unfit[day] = reason
    return unfit


def lacking_reason(columns: Sequence[str]) -> str:
    """Return the reason of a day whose files lack these columns, in words; empty for none."""
    return f"made without {', '.join(columns)}" if columns else ""


def unfit_text(unfit: Mapping[date, str]) -> str:
    """List unfit days by reason, in words; empty where all are fit."""
    days_of: dict[str, list[date]] = {}
    for day, reason in unfit.items():
        days_of.setdefault(reason, []).append(day)
    # States in their order, then other reasons by their text.
    ordered = sorted(days_of, key=lambda reason: (ORDER.get(reason, len(ORDER)), reason))
    return "; ".join(f"{reason} {ranges_text(days_of[reason])}" for reason in ordered)


def _advice_for_unfit(contract: Contract, unfit: Mapping[date, str]) -> str:
    """Return what makes the days: outdated ones are made by no command that names no days, and
    those before the first day of the table by none at all."""
    command = "`backfill-assets catch-up`"
    # A reason that is no state: their files lack a column, as those of outdated days do alone.
    if lacking := [d for d, reason in unfit.items() if reason not in ORDER]:
        command = f"`backfill-assets backfill --from {min(lacking)} --to {max(lacking)}`"
    if contract.first_day is not None and min(unfit) < contract.first_day:
        early = f"Nothing makes days before {contract.first_day}, its first"
        return f"{early}: move that back and run {command}; leave them out"
    return f"Run {command}, see `backfill-assets status --why`"


def settle_unfit_days(contract: Contract, unfit: Mapping[date, str], chosen: Unfit) -> None:
    """Raise UnfitDays for unfit days (`refuse`), warn with UnfitDaysWarning (`warn`), or do nothing
    (`take`)."""
    if chosen not in CHOICES:
        raise ValueError(f"unfit is one of {', '.join(CHOICES)}, got {chosen!r}")
    if not unfit or chosen == "take":
        return
    error = UnfitDays(
        f"the table {contract.name}",
        f"{len(unfit)} of the days asked for are not fit to be used: {unfit_text(unfit)}",
        "Nothing was read" if chosen == "refuse" else "They were read all the same",
        f'{_advice_for_unfit(contract, unfit)}; or ask with unfit="warn" or "take", which reads '
        "NULL "
        "for a column that days lack (a command: --unfit)",
    )
    if chosen == "refuse":
        raise error
    warnings.warn(str(error), UnfitDaysWarning, stacklevel=CALLER)


def settle_changing_days(
    contract: Contract, states: States, days: Collection[date], chosen: Unfit
) -> None:
    """Raise UnfitDays for days that are outdated, or follow days that are to be made again, or warn
    of them: the next rebuild gives them other rows, and a snapshot keeps today's."""
    outdated = {d for d in days if states.of(contract.name, d) is State.OUTDATED}
    changing = (stale_after_needed(states)[contract.name] | outdated) & {*days}
    if not changing or chosen == "take":
        return
    error = UnfitDays(
        f"the table {contract.name}",
        f"{len(changing)} of {len(days)} {contract.calendar.unit}s will change: "
        f"{ranges_text(sorted(changing))}",
        "Nothing was kept" if chosen == "refuse" else "They are kept all the same",
        "Run `backfill-assets catch-up`, see `backfill-assets status --why`; `--unfit take` keeps "
        "them as they are",
    )
    if chosen == "refuse":
        raise error
    warnings.warn(str(error), UnfitDaysWarning, stacklevel=CALLER)


def differing_days(
    lake: Lake,
    contract: Contract,
    entries: Mapping[date, DayEntry],
    profiles: Mapping[date | None, DayProfile],
) -> list[date]:
    """Return the days, ascending, whose rows differ from their receipts.

    `entries` are the days' entries in receipts, `profiles` the profiles of the rows that were read.
    """
    read = {day: profile for day, profile in profiles.items() if day is not None}
    wrong = _disagreeing_days({*entries, *read}, entries, read)
    if wrong:  # the days may come from a contract with other columns
        wrong = _disagreeing_days(wrong, entries, audit_as_written(lake, contract, wrong))
    return sorted({*wrong} - _days_rewritten_by_others(lake, contract, entries, wrong))


def _disagreeing_days(
    days: Iterable[date],
    entries: Mapping[date, DayEntry],
    profiles: Mapping[date, DayProfile],
) -> list[date]:
    """Return those of the days that have no entry, or one with other rows than their profile."""
    wrong = []
    for day in days:
        entry, profile = entries.get(day), profiles.get(day, DayProfile())
        if entry is None or not entry.agrees_with(profile):
            wrong.append(day)
    return wrong


def _days_rewritten_by_others(
    lake: Lake, contract: Contract, entries: Mapping[date, DayEntry], days: Iterable[date]
) -> set[date]:
    """Return those of the days whose rows others wrote and may have written again since, with
    columns that are NULL in all of their rows."""
    known = {day: entries[day] for day in days if day in entries}
    of_others = {day: entry for day, entry in known.items() if entry.columns is not None}
    if not of_others:
        return set()
    files = lake.store.data_files(contract, None, [*of_others])
    found = audit_files(lake, files, contract, earlier_column_sets(contract, of_others.values()))
    return {
        day
        for day, entry in of_others.items()
        if has_same_rows(contract, entry, found.get(day, DayProfile()))
    }


def earlier_column_sets(
    contract: Contract, entries: Iterable[DayEntry]
) -> dict[str, tuple[str, ...]]:
    """By their names the sets of columns, fewer than the contract's, that these entries are of."""
    found = {tuple(entry.columns or ()) for entry in entries}
    return {
        set_name(columns): columns for columns in found if {*columns} < {*contract.column_names}
    }


def has_same_rows(contract: Contract, before: DayEntry, profile: DayProfile) -> bool:
    """Whether a day has the rows that its entry names, by a profile with the parts that
    `earlier_column_sets` names: a column that came since is NULL in all of them."""
    columns, earlier = contract_columns(contract), before.columns
    if earlier is None or earlier == columns or not profile.rows:
        return before.content == profile.content
    still_there = {c: kind for c, kind in columns.items() if c in earlier}
    if still_there != earlier:
        return False
    fingerprint = profile.parts.get(set_name(tuple(earlier)))
    if (before.rows, before.fingerprint) != (profile.rows, fingerprint):
        return False
    added = columns.keys() - earlier.keys()
    return all(profile.nulls.get(column) == profile.rows for column in added)


def input_days(states: States, wanted: Input, day: date) -> list[date]:
    """Return the days of an input that a day is made from; none of landed files."""
    if wanted.kind is InputKind.FILES:
        return []
    if wanted.kind is InputKind.ARRIVALS:
        return [arrival for arrival, _ in states.view.source(wanted.table).arrivals.get(day, ())]
    return list(input_days_of(wanted, day, states.view))


def irreproducible_days(view: LakeView) -> Iterator[tuple[str, str]]:
    """Yield (table, line) for tables with days whose newest receipt has other rows than the same
    inputs, code and settings gave before."""
    for name, table in view.tables.items():
        if days := [d for d, receipt in table.latest.items() if receipt.irreproducible]:
            yield (
                name,
                f"{name} {', '.join(map(str, contiguous_ranges(days)))}: made again from the same "
                "inputs, "
                "code and settings, the rows are others; see "
                f"`backfill-assets compare --table {name}` and `backfill-assets audit --table "
                f"{name}`, mend what the transform reads beside its inputs (nothing if the engine "
                "changed), then make these days again with --force",
            )


def audit_as_written(
    lake: Lake, contract: Contract, days: Collection[date]
) -> dict[date, DayProfile]:
    """Profile these days by the columns that their files have; empty where files are not laid out
    by day."""
    if not contract.is_by_day:
        return {}
    written_by_kinds: dict[tuple[tuple[str, str], ...], Contract] = {}
    days_by_kinds: dict[tuple[tuple[str, str], ...], list[date]] = defaultdict(list)
    for day in days:
        if files := lake.store.data_files(contract, None, [day]):
            written = contract_of_file(contract, files[0])
            kinds = tuple((c.name, c.type) for c in written.columns)
            written_by_kinds[kinds] = written
            days_by_kinds[kinds].append(day)
    profiles: dict[date, DayProfile] = {}
    for kinds, alike in days_by_kinds.items():
        found = audit_table(lake, written_by_kinds[kinds], None, alike)
        profiles |= {day: profile for day, profile in found.items() if day is not None}
    return profiles


def contract_of_file(contract: Contract, file: str) -> Contract:
    """The contract of the columns that a data file of the table has, in a wider type where the
    contract has one, by which no canonical text differs. It judges no row."""
    laid_out_by = contract.partition_column
    written = {f.name: type_of_arrow(f.type) for f in read_footer(Path(file)).schema}
    written.pop(laid_out_by, None)  # others' files may hold it, too
    for column in contract.columns:
        if column.kind.is_wider_than(written.get(column.name)):
            written[column.name] = column.kind
    columns = [Column(n, str(kind), n, nullable=True) for n, kind in written.items() if kind]
    if laid_out_by:
        columns.append(contract.column(laid_out_by))
    return replace(contract, columns=tuple(columns), key=(), rules=(), inputs=(), read_by=())
