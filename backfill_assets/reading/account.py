"""The account of every landed row: in raw, in quarantine, a duplicate, too late, or not loaded yet.

The ledger `files` has the parser's counts; receipts of raw, quarantine and `too_late` have the
load's. Two origins, so that the account can fail. Not here: printing it (`cli`).
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import date
from typing import Any, TypedDict

from backfill_assets.intake.ledger import QUARANTINE, FileRecord, read_files, sum_by_key
from backfill_assets.kernel.core.days import midnight
from backfill_assets.kernel.core.frontier import is_loaded
from backfill_assets.kernel.core.ledgers import TOO_LATE, source_table_name
from backfill_assets.kernel.core.payload import CLOCKS, LANDED, log_columns
from backfill_assets.kernel.core.receipts import DayEntry
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.core.view import LakeView, Source
from backfill_assets.kernel.tables.fingerprints import quoted_name
from backfill_assets.kernel.tables.home import Lake

DUPLICATES = "duplicates"
VANISHED = "vanished"  # a count of raw's receipts, as `intake.raw` writes it
# What two deliveries of the same row differ in.
OF_DELIVERY = ("seq", "arrival_ts", "version_ts", *LANDED, *log_columns(CLOCKS))


class AccountForm(TypedDict):
    """An account as JSON values: numbers of rows, but for `files`."""

    files: int
    rows: int
    raw: int
    too_late: int
    duplicates: int | None
    uncounted: int
    waiting: int
    surplus: int
    vanished: int
    quarantined: int
    duplicates_per_1000: float | None
    wrong_days: Mapping[str, int]


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
        is_known = loaded > 0 and not self.uncounted
        return 1000 * self.duplicates / loaded if is_known else None

    def to_dict(self) -> AccountForm:
        """Return the account as JSON values; duplicates are null where a loaded day did not count
        them."""
        return {
            "files": self.files,
            "rows": self.rows,
            "raw": self.raw,
            "too_late": self.too_late,
            "duplicates": None if self.uncounted else self.duplicates,
            "uncounted": sum(self.uncounted.values()),
            "waiting": sum(self.waiting.values()),
            "surplus": sum(self.surplus.values()),
            "vanished": self.vanished,
            "quarantined": self.quarantine,
            "duplicates_per_1000": self.duplicates_per_1000,
            "wrong_days": {str(day): rows for day, rows in self.wrong.items()},
        }


def accounts_by_table(lake: Lake, view: LakeView) -> dict[str, Account]:
    """Return the account of every source, by its landed table."""
    return {
        s.table: account_of_source(lake, s, read_files(lake.store, s.name))
        for s in view.sources.values()
    }


def account_of_source(lake: Lake, source: Source, records: Iterable[FileRecord]) -> Account:
    """Return the account of a source by the `records` of its ledger `files`. A content at two paths
    is one file."""
    contents = {r.sha256: r for r in records if not r.withdrawn}
    landed = landed_rows(contents.values())
    loaded = {day: receipt.entry for day, receipt in source.loaded.latest.items()}
    raw = {day: entry.rows for day, entry in loaded.items()}
    quarantine = _rows_of_ledger(lake, source_table_name(QUARANTINE.name, source.name))
    too_late = _rows_of_ledger(lake, source_table_name(TOO_LATE, source.name))
    counts = {day: entry.counts.get(DUPLICATES) for day, entry in loaded.items()}
    duplicates = {day: n for day, n in counts.items() if n is not None}
    vanished = vanished_keys(loaded)
    explained = sum_by_key([raw, quarantine, too_late, duplicates])
    differences = {}
    for day in sorted({*landed, *loaded}):
        rows = explained.get(day, 0) - vanished.get(day, 0)
        differences[day] = landed.get(day, 0) - rows
    return Account(
        files=len(contents),
        rows=sum(landed.values()),
        raw=sum(raw.values()),
        quarantine=sum(quarantine.get(day, 0) for day in loaded),
        too_late=sum(too_late.get(day, 0) for day in loaded),
        duplicates=sum(duplicates.values()),
        vanished=sum(vanished.values()),
        **_explained_differences(source, differences, counted={*duplicates}),
    )


def _rows_of_ledger(lake: Lake, ledger: str) -> dict[date, int]:
    """Return the rows of a ledger by arrival day, by its receipts."""
    latest = lake.store.view(ledger, "arrival_date").latest
    return {day: receipt.entry.rows for day, receipt in latest.items()}


def _explained_differences(
    source: Source, differences: Mapping[date, int], counted: Set[date]
) -> dict[str, dict[date, int]]:
    """Return, by the field of `Account`, the days on which more or fewer rows landed than are
    accounted for (`differences`: landed minus accounted for). `counted`: the days whose load
    counted duplicates."""
    parts: dict[str, dict[date, int]] = {"uncounted": {}, "waiting": {}, "surplus": {}, "wrong": {}}
    for day, difference in differences.items():
        lacks_rows, is_loaded_day = difference > 0, day in source.loaded.latest
        if is_whole(source, day):
            has_no_count = day not in counted
            kind = "uncounted" if lacks_rows and has_no_count else "wrong"
        else:
            kind = "waiting" if lacks_rows else "surplus"
        if lacks_rows:
            parts[kind][day] = difference
        elif difference and is_loaded_day:
            parts[kind][day] = abs(difference) if kind == "surplus" else difference
    return parts


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
    if day not in source.loaded.latest or day in source.loaded.foreign:
        return False
    as_of = source.view.as_of
    is_cut = as_of is not None and as_of.date() == day and as_of > midnight(day)
    return not is_cut and is_loaded(day, source)


def sum_of_accounts(parts: Iterable[Account]) -> Account:
    """Return the sum of the accounts of several sources."""
    fields = [vars(account) for account in parts]
    sums: dict[str, Any] = {}
    for name, empty in vars(Account()).items():
        values = [of_source[name] for of_source in fields]
        sums[name] = sum_by_key(values) if isinstance(empty, Mapping) else sum(values)
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
    columns = states.contracts[source.table].column_names
    own = ", ".join(quoted_name(name) for name in columns if name not in OF_DELIVERY)
    content = (
        "SELECT event_key, count(*) AS times FROM t "
        f"WHERE arrival_date >= DATE '{days[0]}' GROUP BY {own}"
    )
    counts = "sum(times) AS n, count(*) AS contents, count(DISTINCT event_key) AS keys"
    query = f"SELECT {counts} FROM ({content})"
    try:
        (batch,) = lake.store.query(query, {"t": (source.table, source.loaded.version)})
    except Exception:  # noqa: BLE001  # whatever a damaged file causes
        return Repeats()
    rows, contents, keys = (int(column[0].as_py() or 0) for column in batch.columns)
    return Repeats(rows, rows - contents, rows - keys)
