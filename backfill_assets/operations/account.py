"""The account of every landed row: in raw, in quarantine, a duplicate, too late, or not loaded yet.

Elsewhere: printing it (`cli`). The ledger `files` has the parser's counts, receipts of raw, quarantine and `too_late`
those of the load: figures of two origins, so that the account can fail. Duplicates are counted where they are found;
days that were loaded before that was done are listed as not counted.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from backfill_assets.core.days import midnight
from backfill_assets.core.frontier import is_loaded
from backfill_assets.core.ledgers import TOO_LATE, named
from backfill_assets.core.scans import summed
from backfill_assets.core.view import LakeView, Source
from backfill_assets.lake.home import Lake
from backfill_assets.lake.ledger import QUARANTINE, FileRecord, read_files

DUPLICATES = "duplicates"
PER = 1000


@dataclass(frozen=True)
class Account:
    """Rows that landed and were not withdrawn, over all days, by where they are.

    `duplicates` are those of days that counted them; `uncounted` maps other loaded days to their remaining rows.
    `waiting` maps days to rows that are not loaded, `surplus` days to loaded rows whose files were withdrawn or altered
    since: both end with the next load. `wrong` maps loaded days to rows that landed minus rows accounted for, where
    these differ.
    """

    files: int = 0
    rows: int = 0
    raw: int = 0
    quarantine: int = 0
    too_late: int = 0
    duplicates: int = 0
    uncounted: Mapping[date, int] = field(default_factory=dict)
    waiting: Mapping[date, int] = field(default_factory=dict)
    surplus: Mapping[date, int] = field(default_factory=dict)
    wrong: Mapping[date, int] = field(default_factory=dict)

    @property
    def loaded(self) -> int:
        """Rows that raw's receipts count."""
        return self.raw + self.quarantine + self.too_late + self.duplicates + sum(self.uncounted.values())

    def parts(self) -> list[tuple[int, str]]:
        """Numbers with words that add up to `rows`, without empty parts after the first three."""
        usual = [(self.raw, "in raw"), (self.quarantine, "in quarantine"), (self.duplicates, "duplicates")]
        others = [
            (self.too_late, "too late"),
            (sum(self.uncounted.values()), f"on {_days(self.uncounted)} loaded before duplicates were counted"),
            (sum(self.waiting.values()), "not loaded yet"),
            (-sum(self.surplus.values()), "loaded from files that were withdrawn or altered since"),
            (sum(self.wrong.values()), f"that do not add up, on {_days(self.wrong)}"),
        ]
        return usual + [(rows, told) for rows, told in others if rows]

    @property
    def duplicates_per_1000(self) -> float | None:
        """Duplicates per 1,000 loaded rows; None where nothing is loaded or a day did not count them."""
        return PER * self.duplicates / self.loaded if self.loaded and not self.uncounted else None

    def to_dict(self) -> dict[str, Any]:
        """The account as JSON values; duplicates are null where a loaded day did not count them."""
        return {
            "files": self.files, "rows": self.rows, "raw": self.raw, "quarantined": self.quarantine,
            "too_late": self.too_late, "duplicates": None if self.uncounted else self.duplicates,
            "duplicates_per_1000": self.duplicates_per_1000, "uncounted": sum(self.uncounted.values()),
            "waiting": sum(self.waiting.values()), "surplus": sum(self.surplus.values()),
            "wrong_days": {str(d): n for d, n in self.wrong.items()},
        }  # fmt: skip


def accounts(lake: Lake, view: LakeView) -> dict[str, Account]:
    """The account of every source, by its landed table."""
    return {s.table: account(lake, s, read_files(lake.store, s.name)) for s in view.sources.values()}


def account(lake: Lake, source: Source, records: Iterable[FileRecord]) -> Account:
    """The account of a source by the `records` of its ledger `files`. A content at two paths is one file."""
    contents = {r.sha256: r for r in records if not r.withdrawn}
    landed: dict[date, int] = {}
    for record in contents.values():
        for day, (rows, _, _) in record.days.items():
            landed[day] = landed.get(day, 0) + rows
    aside = {name: _rows(lake, named(name, source.name)) for name in (QUARANTINE.name, TOO_LATE)}
    stamps = source.loaded.stamps
    days = {day: _Day(source, day, landed.get(day, 0), aside) for day in {*landed, *stamps}}
    loaded = [d for d in days.values() if d.day in stamps]
    whole = [d for d in loaded if d.is_whole]
    return Account(
        files=len(contents),
        rows=sum(landed.values()),
        raw=sum(stamp.entry.rows for stamp in stamps.values()),
        quarantine=sum(d.quarantine for d in loaded),
        too_late=sum(d.too_late for d in loaded),
        duplicates=sum(d.duplicates or 0 for d in loaded),
        uncounted=_nonzero((d.day, d.difference) for d in whole if d.duplicates is None and d.difference > 0),
        waiting=_nonzero((d.day, d.difference) for d in days.values() if not d.is_whole and d.difference > 0),
        surplus=_nonzero((d.day, -d.difference) for d in loaded if not d.is_whole and d.difference < 0),
        wrong=_nonzero((d.day, d.difference) for d in whole if d.duplicates is not None or d.difference < 0),
    )


def together(found: Iterable[Account]) -> Account:
    """The sum of the accounts of several sources."""
    of = tuple(found)
    return Account(
        files=sum(a.files for a in of),
        rows=sum(a.rows for a in of),
        raw=sum(a.raw for a in of),
        quarantine=sum(a.quarantine for a in of),
        too_late=sum(a.too_late for a in of),
        duplicates=sum(a.duplicates for a in of),
        uncounted=summed(a.uncounted for a in of),
        waiting=summed(a.waiting for a in of),
        surplus=summed(a.surplus for a in of),
        wrong=summed(a.wrong for a in of),
    )


def _days(found: Mapping[date, int]) -> str:
    return f"{len(found)} day{'' if len(found) == 1 else 's'}"


def _rows(lake: Lake, table: str) -> dict[date, int]:
    """Rows per arrival day, by the table's own receipts."""
    return {d: s.entry.rows for d, s in lake.store.view(table, "arrival_date").stamps.items()}


def _nonzero(found: Iterable[tuple[date, int]]) -> dict[date, int]:
    return {day: rows for day, rows in sorted(found) if rows}


class _Day:
    """One arrival day: rows that landed for it against those that its load accounts for."""

    def __init__(self, source: Source, day: date, landed: int, aside: Mapping[str, Mapping[date, int]]) -> None:
        stamp, view = source.loaded.stamps.get(day), source.view
        counts = stamp.entry.counts if stamp else {}
        self.day = day
        self.quarantine, self.too_late = aside[QUARANTINE.name].get(day, 0), aside[TOO_LATE].get(day, 0)
        self.duplicates: int | None = counts.get(DUPLICATES)
        raw = stamp.entry.rows if stamp else 0
        told = raw + self.quarantine + self.too_late + (self.duplicates or 0)
        self.difference = landed - told
        # Whole: it holds all that landed for it today. Where `as_of` cuts the day in two, the later rows wait.
        cut = view.as_of is not None and view.as_of.date() == day and view.as_of > midnight(day)
        self.is_whole = stamp is not None and not cut and day not in source.loaded.foreign and is_loaded(day, source)
