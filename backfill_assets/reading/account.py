"""The account of every landed row: in raw, in quarantine, a duplicate, too late, or not loaded yet.

The ledger `files` has the parser's counts; receipts of raw, quarantine and `too_late` have the
load's. Two origins, so that the account can fail. Not here: printing it (`cli`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from backfill_assets.intake.ledger import QUARANTINE, FileRecord, read_files
from backfill_assets.kernel.core.days import midnight
from backfill_assets.kernel.core.frontier import is_loaded
from backfill_assets.kernel.core.ledgers import TOO_LATE, named
from backfill_assets.kernel.core.payload import CLOCKS, LANDED, log_columns
from backfill_assets.kernel.core.receipts import DayEntry
from backfill_assets.kernel.core.scans import sum_by_key
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.core.view import LakeView, Source
from backfill_assets.kernel.tables.fingerprints import quoted
from backfill_assets.kernel.tables.home import Lake

DUPLICATES = "duplicates"
VANISHED = "vanished"  # a count of raw's receipts, as `intake.raw` writes it
# What two deliveries of the same row differ in.
OF_DELIVERY = ("seq", "arrival_ts", "version_ts", *LANDED, *log_columns(CLOCKS))


@dataclass(frozen=True)
class Account:
    """Rows that landed and were not withdrawn, over all days, by where they are."""

    files: int = 0
    rows: int = 0
    raw: int = 0
    quarantine: int = 0
    too_late: int = 0
    duplicates: int = 0  # repeated rows, by the receipts that count them
    # loaded days whose older receipts count no duplicates, with the rows that nothing else explains
    uncounted: Mapping[date, int] = field(default_factory=dict)
    # per day rows that are not loaded; the next load takes them
    waiting: Mapping[date, int] = field(default_factory=dict)
    # per day loaded rows that today's files or settings leave out; the next load drops them
    surplus: Mapping[date, int] = field(default_factory=dict)
    # per loaded day rows that landed minus rows accounted for, where these differ
    wrong: Mapping[date, int] = field(default_factory=dict)
    vanished: int = 0  # rows of raw that did not land: deletes of keys that a dump lacks

    def parts(self) -> list[tuple[int, str]]:
        """Return numbers with words that add up to `rows`, without empty parts after the first
        three."""
        usual = [
            (self.raw, "in raw"),
            (self.quarantine, "in quarantine"),
            (self.duplicates, "duplicates"),
        ]
        others = [
            (self.too_late, "too late"),
            (-self.vanished, "deletes of keys that a dump lacks"),
            (
                sum(self.uncounted.values()),
                f"on {len(self.uncounted)} day(s) loaded before duplicates were counted",
            ),
            (sum(self.waiting.values()), "not loaded yet"),
            (
                -sum(self.surplus.values()),
                "loaded from files, or by settings, that no longer count",
            ),
            (sum(self.wrong.values()), f"that do not add up, on {len(self.wrong)} day(s)"),
        ]
        return usual + [(rows, words) for rows, words in others if rows]

    @property
    def duplicates_per_1000(self) -> float | None:
        """Return duplicates per 1,000 loaded rows; None where nothing is loaded or a day did not
        count them."""
        loaded = self.raw + self.quarantine + self.too_late + self.duplicates
        return 1000 * self.duplicates / loaded if loaded and not self.uncounted else None

    def to_dict(self) -> dict[str, Any]:
        """Return the account as JSON values; duplicates are null where a loaded day did not count
        them."""
        numbers = {
            name: sum(n.values()) if isinstance(n, Mapping) else n for name, n in vars(self).items()
        }
        numbers["quarantined"] = numbers.pop(QUARANTINE.name)
        numbers["duplicates"] = None if self.uncounted else self.duplicates
        del numbers["wrong"]
        wrong = {str(day): rows for day, rows in self.wrong.items()}
        return {**numbers, "duplicates_per_1000": self.duplicates_per_1000, "wrong_days": wrong}


def accounts(lake: Lake, view: LakeView) -> dict[str, Account]:
    """Return the account of every source, by its landed table."""
    return {
        s.table: account(lake, s, read_files(lake.store, s.name)) for s in view.sources.values()
    }


def account(lake: Lake, source: Source, records: Iterable[FileRecord]) -> Account:
    """Return the account of a source by the `records` of its ledger `files`. A content at two paths
    is one file."""
    contents = {r.sha256: r for r in records if not r.withdrawn}
    landed = landed_rows(contents.values())
    loaded = {day: receipt.entry for day, receipt in source.loaded.latest.items()}
    quarantine, too_late = (
        {
            d: r.entry.rows
            for d, r in lake.store.view(named(name, source.name), "arrival_date").latest.items()
        }
        for name in (QUARANTINE.name, TOO_LATE)
    )
    duplicates = {day: entry.counts.get(DUPLICATES) for day, entry in loaded.items()}
    raw = {day: entry.rows for day, entry in loaded.items()}
    vanished = vanished_keys(loaded)
    parts: dict[str, dict[date, int]] = {"uncounted": {}, "waiting": {}, "surplus": {}, "wrong": {}}
    for day in sorted({*landed, *loaded}):
        explained = (
            raw.get(day, 0)
            + quarantine.get(day, 0)
            + too_late.get(day, 0)
            + (duplicates.get(day) or 0)
        )
        explained -= vanished.get(day, 0)
        difference = landed.get(day, 0) - explained
        if is_whole(source, day):
            kind = "uncounted" if duplicates[day] is None and difference > 0 else "wrong"
        else:
            kind = "waiting" if difference > 0 else "surplus"
        if difference and (day in loaded or difference > 0):
            parts[kind][day] = abs(difference) if kind == "surplus" else difference
    return Account(
        files=len(contents),
        rows=sum(landed.values()),
        raw=sum(raw.values()),
        quarantine=sum(quarantine.get(day, 0) for day in loaded),
        too_late=sum(too_late.get(day, 0) for day in loaded),
        duplicates=sum(n or 0 for n in duplicates.values()),
        vanished=sum(vanished.values()),
        **parts,
    )


def vanished_keys(loaded: Mapping[date, DayEntry]) -> dict[date, int]:
    """Return the deletes of raw per day that follow from full dumps."""
    return {
        day: entry.counts[VANISHED] for day, entry in loaded.items() if VANISHED in entry.counts
    }


def landed_rows(records: Iterable[FileRecord]) -> dict[date, int]:
    """Return the rows that landed per arrival day; a content at two paths counts once, a withdrawn
    one not at all."""
    contents = {r.sha256: r for r in records if not r.withdrawn}
    return sum_by_key(
        {day: counts[0] for day, counts in record.days.items()} for record in contents.values()
    )


def is_whole(source: Source, day: date) -> bool:
    """Whether raw holds all that landed for the day so far. Where `as_of` cuts the day in two, the
    later rows wait."""
    as_of = source.view.as_of
    is_cut = as_of is not None and as_of.date() == day and as_of > midnight(day)
    return (
        day in source.loaded.latest
        and not is_cut
        and day not in source.loaded.foreign
        and is_loaded(day, source)
    )


def sum_of_accounts(parts: Iterable[Account]) -> Account:
    """Return the sum of the accounts of several sources."""
    fields = [vars(account) for account in parts]
    sums: dict[str, Any] = {
        name: sum_by_key(a[name] for a in fields)
        if isinstance(value, Mapping)
        else sum(a[name] for a in fields)
        for name, value in vars(Account()).items()
    }
    return Account(**sums)


@dataclass(frozen=True)
class Repeats:
    """Rows of a landed table that repeat others, without rows whose delivery number came twice
    (`Account`)."""

    rows: int = 0
    # Rows that repeat another one in op, event time, key and payload, under whatever delivery
    # number.
    exact: int = 0
    keys: int = 0  # rows that repeat the key of another one: the exact ones, and versions

    @property
    def per_1000(self) -> dict[str, float | None]:
        """Return `exact` and `key` repeats per 1,000 rows; None without rows."""
        counts = {"exact": self.exact, "key": self.keys}
        return {
            kind: 1000 * count / self.rows if self.rows else None for kind, count in counts.items()
        }

    def __str__(self) -> str:
        """E.g. `27,412 rows: 944 repeat another one but for its delivery, 1,797 repeat a key`."""
        return (
            f"{self.rows:,} rows: {self.exact:,} repeat another one but for its delivery, "
            f"{self.keys:,} repeat a key"
        )

    def __add__(self, other: "Repeats") -> "Repeats":
        return Repeats(self.rows + other.rows, self.exact + other.exact, self.keys + other.keys)


def repeats_of(lake: Lake, states: States, source: Source, newest: int | None = None) -> Repeats:
    """Count the rows of a source that repeat others, of all loaded days or the `newest` ones. Reads
    the rows; counts none where a file of them cannot be read, which `verify` names."""
    days = sorted(source.loaded.latest)[-newest if newest else 0 :]
    if not days or source.table not in states.contracts:
        return Repeats()
    own = [name for name in states.contracts[source.table].column_names if name not in OF_DELIVERY]
    content = f"SELECT event_key, count(*) AS times FROM t WHERE arrival_date >= DATE '{days[0]}'"
    content += f" GROUP BY {', '.join(map(quoted, own))}"
    counts = "sum(times) AS n, count(*) AS contents, count(DISTINCT event_key) AS keys"
    query = f"SELECT {counts} FROM ({content})"
    try:
        (batch,) = lake.store.query(query, {"t": (source.table, source.loaded.version)})
    except Exception:  # noqa: BLE001  # whatever a damaged file causes
        return Repeats()
    rows, contents, keys = (int(column[0].as_py() or 0) for column in batch.columns)
    return Repeats(rows, rows - contents, rows - keys)
