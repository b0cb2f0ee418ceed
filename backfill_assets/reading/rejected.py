"""Rows that landed and are not in raw, counted by receipts: of the ledgers quarantine and
`too_late`, and of files that are refused as wholes, each with its reasons. Also the counts of the
three ledgers that a load of raw writes, of which the third is arrivals.

Not here: the account of all rows (`account`), one day's reasons (`show`), and the rules that give
reasons (`intake.deliveries`). No JVM; of quarantined rows only the newest days are read.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import NamedTuple, TypedDict

from backfill_assets.intake.column_kinds import changed_kinds, columns_made_text
from backfill_assets.intake.forgotten import all_erasures
from backfill_assets.intake.ledger import (
    ARRIVALS,
    FILES,
    QUARANTINE,
    FileRecord,
    ledger_of_source,
    path_with_source,
    read_arrivals,
    read_files,
)
from backfill_assets.intake.too_late import too_late_contract
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import source_section
from backfill_assets.kernel.core.ledgers import LOAD_LEDGERS, TOO_LATE, source_table_name
from backfill_assets.kernel.core.texts import printable_text, shortened_text
from backfill_assets.kernel.core.view import TableView
from backfill_assets.kernel.tables.folder import TABLES
from backfill_assets.kernel.tables.home import Lake

NEWEST_DAYS = 7  # a week of arrivals shows what is wrong now
MOST_REASONS = MOST_KINDS = 10
MOST_FILES, MOST_SAID = 3, 1  # files refused as wholes, and kinds of reasons of rows, in one line
REASON_CHARS = MOST_CHARS = 160
EXAMPLE_CHARS = 120
VARYING = re.compile(r"'[^']*'|\"[^\"]*\"|\d[\d.,:_-]*\d|\d")


@dataclass(frozen=True)
class Reason:
    """Why rows of the newest days are in quarantine."""

    text: str
    rows: int
    newest: date  # day that has one


class UnusableForm(TypedDict):
    """Rows and files that landed and that no table gets."""

    rows: int
    files: int
    reason: str | None  # the most frequent
    reasons: Mapping[str, int]  # rows by reason
    too_late: int
    files_as_declared: int
    retyped: Sequence[str]  # columns whose kind changed, a line each


@dataclass(frozen=True)
class LedgerCount:
    """The rows of a ledger of raw."""

    contract: Contract
    version: int
    rows: int
    newest: date | None  # arrival day with rows
    reasons: Sequence[Reason] = ()  # of a quarantine


def ledger_contracts(raw: Contract) -> tuple[Contract, ...]:
    """Return the contracts of the ledgers that a load of `raw` writes: quarantine, `too_late`,
    arrivals."""
    return (
        ledger_of_source(QUARANTINE, raw.source),
        too_late_contract(raw),
        ledger_of_source(ARRIVALS, raw.source),
    )


def ledgers_of(contracts: Iterable[Contract]) -> list[Contract]:
    """Return the ledgers of each source that the landed tables among `contracts` load."""
    sources = dict.fromkeys(c.source for c in contracts if c.is_landed)
    return [
        ledger_of_source(ledger, name)
        for name in sources
        for ledger in (QUARANTINE, ARRIVALS, FILES)
    ]


def undeclared_tables(lake: Lake, contracts: Iterable[Contract]) -> list[str]:
    """Return the tables in the lake's folder that are neither among `contracts` (of all tables) nor
    their ledgers, such as tables of a source that was renamed."""
    known = set[str]()
    for contract in contracts:
        known.add(contract.name)
        known.update(
            source_table_name(ledger, contract.source) for ledger in (*LOAD_LEDGERS, FILES.name)
        )
    others = sorted({*lake.place.names(TABLES)} - known)
    return [name for name in others if lake.store.exists(name)]


def ledger_counts(
    lake: Lake, raw: Contract, known: Mapping[str, int] | None = None
) -> list[LedgerCount]:
    """Return the counts of the ledgers that a load of `raw` writes (quarantine, `too_late`,
    arrivals), without ledgers that were never written or whose version is `known` already."""
    known_versions = known or {}
    counts = []
    for contract in ledger_contracts(raw):
        view = lake.store.view(contract.name, contract.day_column)
        if view.exists and view.version != known_versions.get(contract.name):
            counts.append(_count_of_ledger(lake, raw, contract, view))
    return counts


def _count_of_ledger(lake: Lake, raw: Contract, contract: Contract, view: TableView) -> LedgerCount:
    """Return the rows of a ledger and its newest day, with the reasons of a quarantine."""
    days: Mapping[date, int] = _days_with_rows(view)
    reasons: Sequence[Reason] = ()
    if contract.columns == ARRIVALS.columns:
        found = read_arrivals(lake.store, view.version, raw.source).values()
        days = Counter(day for arrivals in found for day, _ in arrivals)
    elif contract.columns == QUARANTINE.columns and days:
        reasons = newest_reasons(lake, (contract.name, view.version), days)
    rows = sum(days.values())
    newest = max(days, default=None)
    return LedgerCount(contract, view.version, rows, newest, reasons)


def newest_reasons(lake: Lake, table: tuple[str, int], days: Iterable[date]) -> list[Reason]:
    """Return the reasons of rows in a quarantine (by name and version) on these arrival days, the
    newest day first."""
    listed = ", ".join(f"DATE '{d}'" for d in sorted(days)[-NEWEST_DAYS:])
    query = (
        f"SELECT substr(reason, 1, {REASON_CHARS}) AS text, count(*) AS n, max(arrival_date) AS "
        "newest FROM q "
        f"WHERE arrival_date IN ({listed}) GROUP BY 1 ORDER BY 3 DESC, 2 DESC, 1 LIMIT "
        f"{MOST_REASONS}"
    )
    batches = lake.store.query(query, {"q": table})
    return [
        Reason(*found)
        for batch in batches
        for found in zip(*(c.to_pylist() for c in batch.columns), strict=True)
    ]


def refused_rows(lake: Lake, source: str, day: date | None = None) -> dict[str, int]:
    """Count the rows in quarantine (None: of all arrival days) by reason, the most frequent
    first."""
    where = f"arrival_date = DATE '{day}'" if day else "true"
    rows = lake.store.rows(
        source_table_name(QUARANTINE.name, source), columns=("reason",), where=where
    )
    return dict(Counter(row["reason"] for row in rows).most_common())


def _days_with_rows(view: TableView) -> dict[date, int]:
    return {day: receipt.entry.rows for day, receipt in view.latest.items() if receipt.entry.rows}


@dataclass(frozen=True)
class Unusable:
    """Landed rows that no table gets, and files that their manifests speak of."""

    rows: int = 0  # unusable ones
    files: int = 0  # of these, how many stand for a whole file each
    # rows, as far as reasons are known; whole files first
    reasons: Mapping[str, int] = field(default_factory=dict)
    queries: tuple[str, ...] = ()  # which show all of them
    late: int = 0  # rows that came too late
    as_declared: int = 0  # files that are what their manifests declare
    # a line per file that was recorded before its manifest declared otherwise
    contradicted: tuple[str, ...] = ()
    # sections of lake.toml whose sources have rows, and none that is usable
    fruitless: tuple[str, ...] = ()
    # a line per landed column that becomes a text and changed its type between files
    retyped: tuple[str, ...] = ()

    @property
    def reasons_of_files(self) -> dict[str, int]:
        """Return the reasons of files that were refused as wholes."""
        return dict([*self.reasons.items()][: self.files])

    @property
    def reasons_of_rows(self) -> dict[str, int]:
        """Return the reasons of single rows."""
        return dict([*self.reasons.items()][self.files :])

    def __str__(self) -> str:
        """Return one line; empty where every row can be used."""
        parts = [f"{section} in lake.toml gives not one usable row" for section in self.fruitless]
        if self.rows:
            parts.append(self._quarantine_in_words())
        if self.late:
            parts.append(
                f"too late: {self.late:,} landed row(s) wait in {TOO_LATE} for `replay-late`"
            )
        return "; ".join([*parts, *self.retyped])

    def _quarantine_in_words(self) -> str:
        """Return how many rows are unusable, the first reasons, and the queries that show them, as
        one sentence."""
        whole = f", {self.files} of them a whole file each" if self.files else ""
        commands = " and ".join(f'`backfill-assets sql "{query}"`' for query in self.queries)
        show = "shows" if len(self.queries) == 1 else "show"
        return (
            f"quarantine: {self.rows:,} landed row(s) are unusable{whole}{self._listed_reasons()}; "
            f"{commands} {show} them"
        )

    def _listed_reasons(self) -> str:
        """Return the first reasons behind a colon, and how many more there are; empty where none is
        known."""
        refused, of_rows = self.reasons_of_files, reason_kinds(self.reasons_of_rows, MOST_SAID)
        named = [*[*refused.items()][:MOST_FILES], *of_rows.shown]
        if not named:
            return ""
        why = "; ".join(f"{rows:,} x {shortened_text(text, EXAMPLE_CHARS)}" for text, rows in named)
        if len(refused) > MOST_FILES:
            why += f"; and {len(refused) - MOST_FILES} more file(s)"
        if of_rows.more_kinds:
            why += f"; and {of_rows.more_kinds} more reason(s)"
        has_reasons_of_rows = len(self.reasons) > self.files  # else they were not read
        are_some_unread = sum(self.reasons.values()) < self.rows
        newest = "of the newest days " if has_reasons_of_rows and are_some_unread else ""
        return f": {newest}{why}"

    def to_dict(self) -> UnusableForm:
        """Return the counts and the reasons as JSON values."""
        return {
            "rows": self.rows,
            "files": self.files,
            "reason": max(self.reasons, key=lambda reason: self.reasons[reason], default=None),
            "reasons": dict(self.reasons),
            "too_late": self.late,
            "files_as_declared": self.as_declared,
            "retyped": self.retyped,
        }


def unusable_rows(
    lake: Lake, days: Collection[date] | None = None, *, read_rows: bool = True
) -> Unusable:
    """Count the unusable rows of all sources on these arrival days (None: all), loaded or not.

    Without `read_rows` no data file is read, and only whole files have reasons. Reasons of rows are
    of the newest days.
    """
    sources = [_unusable_of_source(each, days, read_rows) for each in lake.by_source()]
    refused, of_rows = dict[str, int](), Counter[str]()
    for part in sources:
        refused |= part.reasons_of_files
        of_rows.update(part.reasons_of_rows)
    return Unusable(
        rows=sum(part.rows for part in sources),
        files=sum(part.files for part in sources),
        reasons={**refused, **dict(of_rows.most_common())},
        queries=tuple(query for part in sources if part.rows for query in part.queries),
        late=sum(part.late for part in sources),
        as_declared=sum(part.as_declared for part in sources),
        contradicted=sum((part.contradicted for part in sources), ()),
        fruitless=sum((part.fruitless for part in sources), ()),
        retyped=tuple(retyped_columns(lake)) if days is None else (),
    )


def retyped_columns(lake: Lake) -> Iterator[str]:
    """Yield a line per landed column that becomes a text and has another type in some files, whose
    texts may differ."""
    for each in lake.by_source():
        live = {r.path for r in read_files(each.store, each.source) if not r.withdrawn}
        if changed := changed_kinds(each.stock, live):
            from backfill_assets.intake.mapping import delivery_types

            source = each.settings.source
            as_text = columns_made_text(source.select, delivery_types(source.payload_columns))
            for name in changed:
                if name in as_text:
                    yield _line_of_retyped(each, name, changed[name])


def _line_of_retyped(lake: Lake, name: str, kinds_seen: Mapping[str, str]) -> str:
    """Return the line of a column; `kinds_seen` are its types, each with a file that has it."""
    places = " and ".join(
        f"{kind} in {printable_text(path_with_source(path, lake.source))}"
        for kind, path in kinds_seen.items()
    )
    return (
        f"types: {printable_text(name)} is {places}; texts of one value may differ (1, 1.0): cast "
        "it in "
        "select"
    )


def _unusable_of_source(lake: Lake, days: Collection[date] | None, read_rows: bool) -> Unusable:
    """Return the unusable rows of a source on these arrival days (None: all), from its quarantine
    and its ledger of files. `read_rows`: also the reasons of single rows, which costs a query."""
    ledger = source_table_name(QUARANTINE.name, lake.source)
    view = lake.store.view(ledger, QUARANTINE.day_column)
    loaded_rows = _on_days(_days_with_rows(view), days)
    live = [r for r in read_files(lake.store, lake.source) if not r.withdrawn]
    counted_rows, refused_files = _bad_rows_of_files(live, days)
    # A day that is not loaded is known by its files only, one that is by its load, which also finds
    # repeated numbers.
    rows = 0
    for day in {*loaded_rows, *counted_rows}:
        rows += max(loaded_rows.get(day, 0), counted_rows.get(day, 0))
    reasons = {}
    for path, why in sorted(refused_files.items()):
        file = printable_text(path_with_source(path, lake.source))
        reasons[f"{file}: {printable_text(why)}"] = 1
    if loaded_rows and read_rows:
        # The quarantine holds a row for each refused file, too, with its reason cut.
        of_whole_files = {why[:REASON_CHARS] for why in refused_files.values()}
        newest = newest_reasons(lake, (ledger, view.version), loaded_rows)
        for reason in newest:
            if reason.text not in of_whole_files:
                reasons[printable_text(reason.text)] = reason.rows
    where = f"{source_table_name(FILES.name, lake.source)} WHERE bad_rows > 0"
    if view.exists:
        where = ledger
    too_late = lake.store.view(source_table_name(TOO_LATE, lake.source), QUARANTINE.day_column)
    is_fruitless = rows > 0 and _gives_no_usable_row(lake, live)
    return Unusable(
        rows=rows,
        files=len(refused_files),
        reasons=reasons,
        queries=(f"SELECT * FROM {where}",),
        late=sum(_on_days(_days_with_rows(too_late), days).values()),
        as_declared=sum(r.is_as_declared for r in live),
        contradicted=tuple(_contradicted_lines(lake, live)),
        fruitless=(source_section(lake.source),) if is_fruitless else (),
    )


def _on_days(rows: Mapping[date, int], days: Collection[date] | None) -> Mapping[date, int]:
    """Return the numbers of rows on these days (None: all)."""
    return rows if days is None else {day: n for day, n in rows.items() if day in days}


def _bad_rows_of_files(
    live: Iterable[FileRecord], days: Collection[date] | None
) -> tuple[dict[date, int], dict[str, str]]:
    """Return the unusable rows per arrival day, a content at two paths once, and of each file that
    was refused as a whole the reason, by its path."""
    counted, refused = Counter[date](), dict[str, str]()
    for record in {r.sha256: r for r in live}.values():
        bad_rows = _on_days({day: bad for day, (_, bad, _) in record.days.items() if bad}, days)
        counted.update(bad_rows)
        if bad_rows and record.refused is not None:
            refused[record.path] = record.refused
    return dict(counted), refused


def _gives_no_usable_row(lake: Lake, live: Sequence[FileRecord]) -> bool:
    """Whether files are there, none of them has a usable row, and no erasure took one away."""
    if not live or any(record.usable_rows for record in live):
        return False
    return not all_erasures(lake)


def _contradicted_lines(lake: Lake, live: Iterable[FileRecord]) -> Iterator[str]:
    until = (
        'its manifest is mended or `backfill-assets landing accept --note "why"` sets the file '
        "aside"
    )
    for record in live:
        if why := record.contradicted:
            path = printable_text(path_with_source(record.path, lake.source))
            yield f"{path}: loaded, but {why}; its days are not rebuilt until {until}"


class ReasonKinds(NamedTuple):
    """The most frequent kinds of reasons as (text, rows), and the number of kinds and rows beyond
    these."""

    shown: Sequence[tuple[str, int]]
    more_kinds: int
    more_rows: int


def reason_kinds(reasons: Mapping[str, int], most: int = MOST_KINDS) -> ReasonKinds:
    """Group reasons (reason: rows) that differ only in numbers and quoted values; `…` stands in
    their places.

    The `most` frequent kinds come first, kinds with equally many rows by their text.
    """
    grouped: dict[str, dict[str, int]] = defaultdict(dict)
    for reason, rows in reasons.items():
        grouped[VARYING.sub("…", reason)][reason] = rows
    counted = []
    for kind, found in grouped.items():
        text = kind if len(found) > 1 else next(iter(found))
        counted.append((shortened_text(text, MOST_CHARS), sum(found.values())))
    ordered = sorted(counted, key=lambda item: (-item[1], item[0]))
    hidden = ordered[most:]
    return ReasonKinds(ordered[:most], len(hidden), sum(rows for _, rows in hidden))
