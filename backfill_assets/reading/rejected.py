"""Rows that landed and are not in raw: quarantine, too late, files refused as wholes, with reasons;
by receipts.

Not here: the account of all rows (`account`), one day's reasons (`show`), and the rules that give
reasons (`intake.deliveries`). No JVM; of quarantined rows only the newest days are read.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, NamedTuple

from backfill_assets.intake.column_kinds import changed_kinds, columns_told_as_text
from backfill_assets.intake.forgotten import erasures
from backfill_assets.intake.ledger import (
    ARRIVALS,
    FILES,
    QUARANTINE,
    FileRecord,
    of_source,
    read_arrivals,
    read_files,
)
from backfill_assets.intake.too_late import too_late_contract
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import section_of
from backfill_assets.kernel.core.ledgers import LOAD_LEDGERS, TOO_LATE, named
from backfill_assets.kernel.core.scans import shown
from backfill_assets.kernel.core.texts import plain, shortened
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
        of_source(QUARANTINE, raw.source),
        too_late_contract(raw),
        of_source(ARRIVALS, raw.source),
    )


def ledgers_of(contracts: Iterable[Contract]) -> list[Contract]:
    """Return the ledgers of each source that the landed tables among `contracts` load."""
    sources = dict.fromkeys(c.source for c in contracts if c.is_landed)
    return [of_source(ledger, name) for name in sources for ledger in (QUARANTINE, ARRIVALS, FILES)]


def undeclared(lake: Lake, contracts: Iterable[Contract]) -> list[str]:
    """Return the tables in the lake's folder that are neither among `contracts` (of all tables) nor
    their ledgers, such as tables of a source that was renamed."""
    known = {
        name
        for c in contracts
        for name in (c.name, *(named(n, c.source) for n in (*LOAD_LEDGERS, FILES.name)))
    }
    return sorted(
        name for name in lake.place.names(TABLES) if name not in known and lake.store.exists(name)
    )


def ledger_counts(
    lake: Lake, raw: Contract, known: Mapping[str, int] | None = None
) -> list[LedgerCount]:
    """Return the counts of all three ledgers, without ledgers that were never written or whose
    version is `known` already."""
    tables = []
    for contract in ledger_contracts(raw):
        view = lake.store.view(contract.name, contract.day_column)
        if view.version < 0 or view.version == (known or {}).get(contract.name):
            continue
        days, reasons = _with_rows(view), list[Reason]()
        if contract.columns == ARRIVALS.columns:
            found = read_arrivals(lake.store, view.version, raw.source).values()
            days = Counter(day for arrivals in found for day, _ in arrivals)
        elif contract.columns == QUARANTINE.columns and days:
            reasons = newest_reasons(lake, (contract.name, view.version), days)
        tables.append(
            LedgerCount(
                contract, view.version, sum(days.values()), max(days, default=None), reasons
            )
        )
    return tables


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
    rows = lake.store.rows(named(QUARANTINE.name, source), columns=("reason",), where=where)
    return dict(Counter(row["reason"] for row in rows).most_common())


def _with_rows(view: TableView) -> dict[date, int]:
    return {day: receipt.entry.rows for day, receipt in view.latest.items() if receipt.entry.rows}


@dataclass(frozen=True)
class Unusable:
    """Landed rows that no table gets, and files that their manifests speak of."""

    rows: int = 0  # unusable ones
    files: int = 0  # of these, how many stand for a whole file each
    reasons: Mapping[str, int] = field(
        default_factory=dict
    )  # rows, as far as reasons are known; whole files first
    queries: tuple[str, ...] = ()  # which show all of them
    late: int = 0  # rows that came too late
    as_declared: int = 0  # files that are what their manifests declare
    contradicted: tuple[
        str, ...
    ] = ()  # a line per file that was recorded before its manifest declared otherwise
    fruitless: tuple[
        str, ...
    ] = ()  # sections of lake.toml whose sources have rows, and none that is usable
    retyped: tuple[
        str, ...
    ] = ()  # a line per landed column that becomes a text and changed its type between files

    def __str__(self) -> str:
        """Return one line; empty where every row can be used."""
        none = (f"{section} in lake.toml gives not one usable row" for section in self.fruitless)
        late = (
            f"too late: {self.late:,} landed row(s) wait in {TOO_LATE} for `replay-late`"
            if self.late
            else ""
        )
        return "; ".join(filter(None, (*none, self._quarantine_in_words(), late, *self.retyped)))

    def _quarantine_in_words(self) -> str:
        if not self.rows:
            return ""
        whole = f", {self.files} of them a whole file each" if self.files else ""
        reasons = [*self.reasons.items()]
        refused, of_rows = reasons[: self.files], kinds(dict(reasons[self.files :]), MOST_SAID)
        named = [*refused[:MOST_FILES], *of_rows.shown]
        why = "; ".join(f"{rows:,} x {shortened(text, EXAMPLE_CHARS)}" for text, rows in named)
        more = (len(refused) - MOST_FILES, "file"), (of_rows.more_kinds, "reason")
        further = "".join(f"; and {number} more {what}(s)" for number, what in more if number > 0)
        commands = " and ".join(f'`backfill-assets sql "{query}"`' for query in self.queries)
        whole_only = len(self.reasons) == self.files  # the reasons of rows were not read
        newest = (
            "of the newest days "
            if sum(self.reasons.values()) < self.rows and not whole_only
            else ""
        )
        listed = f": {newest}{why}{further}" if why else ""
        show = "shows" if len(self.queries) == 1 else "show"
        return (
            f"quarantine: {self.rows:,} landed row(s) are unusable{whole}{listed}; {commands} "
            f"{show} them"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the counts and the reasons as JSON values."""
        first = max(self.reasons, key=lambda reason: self.reasons[reason], default=None)
        counts = {
            "rows": self.rows,
            "files": self.files,
            "reason": first,
            "reasons": dict(self.reasons),
        }
        return {
            **counts,
            "too_late": self.late,
            "files_as_declared": self.as_declared,
            "retyped": self.retyped,
        }


def unusable(
    lake: Lake, days: Collection[date] | None = None, *, read_rows: bool = True
) -> Unusable:
    """Count the unusable rows of all sources on these arrival days (None: all), loaded or not.

    Without `read_rows` no data file is read, and only whole files have reasons. Reasons of rows are
    of the newest days.
    """
    sources = [_unusable_of_source(each, days, read_rows) for each in lake.by_source()]
    of_sources = [[*part.reasons.items()] for part in sources]
    refused = (
        pair
        for part, pairs in zip(sources, of_sources, strict=True)
        for pair in pairs[: part.files]
    )
    of_rows = sum(
        (
            Counter(dict(pairs[part.files :]))
            for part, pairs in zip(sources, of_sources, strict=True)
        ),
        Counter[str](),
    )
    return Unusable(
        sum(part.rows for part in sources),
        sum(part.files for part in sources),
        {**dict(refused), **dict(of_rows.most_common())},
        tuple(query for part in sources if part.rows for query in part.queries),
        sum(part.late for part in sources),
        sum(part.as_declared for part in sources),
        sum((part.contradicted for part in sources), ()),
        sum((part.fruitless for part in sources), ()),
        tuple(retyped(lake)) if days is None else (),
    )


def retyped(lake: Lake) -> Iterator[str]:
    """Yield a line per landed column that becomes a text and has another type in some files, whose
    texts may differ."""
    for each in lake.by_source():
        live = {r.path for r in read_files(each.store, each.source) if not r.withdrawn}
        if changed := changed_kinds(each.stock, live):
            from backfill_assets.intake.mapping import delivery_types

            source = each.settings.source
            as_text = columns_told_as_text(source.select, delivery_types(source.payload_columns))
            for name, found in ((n, k) for n, k in changed.items() if n in as_text):
                places = " and ".join(
                    f"{kind} in {plain(shown(path, each.source))}" for kind, path in found.items()
                )
                yield (
                    f"types: {plain(name)} is {places}; texts of one value may differ (1, 1.0): "
                    "cast it in select"
                )


def _unusable_of_source(lake: Lake, days: Collection[date] | None, read_rows: bool) -> Unusable:
    ledger = named(QUARANTINE.name, lake.source)
    view = lake.store.view(ledger, QUARANTINE.day_column)
    kept = {day: rows for day, rows in _with_rows(view).items() if days is None or day in days}
    counted: dict[date, int] = {}
    refused = {}
    live = [r for r in read_files(lake.store, lake.source) if not r.withdrawn]
    for record in {r.sha256: r for r in live}.values():
        bad_rows = {
            day: bad
            for day, (_, bad, _) in record.days.items()
            if bad and (days is None or day in days)
        }
        for day, bad in bad_rows.items():
            counted[day] = counted.get(day, 0) + bad
        if bad_rows and record.refused is not None:
            refused[record.path] = record.refused
    # A day that is not loaded is known by its files only, one that is by its load, which also finds
    # repeated numbers.
    rows = sum(max(kept.get(day, 0), counted.get(day, 0)) for day in {*kept, *counted})
    reasons = {
        f"{plain(shown(path, lake.source))}: {plain(why)}": 1
        for path, why in sorted(refused.items())
    }
    if kept and read_rows:
        whole = {why[:REASON_CHARS] for why in refused.values()}
        newest = newest_reasons(lake, (ledger, view.version), kept)
        reasons.update({plain(r.text): r.rows for r in newest if r.text not in whole})
    source = ledger if view.version >= 0 else f"{named(FILES.name, lake.source)} WHERE bad_rows > 0"
    late = _with_rows(lake.store.view(named(TOO_LATE, lake.source), QUARANTINE.day_column))
    late_rows = sum(n for day, n in late.items() if days is None or day in days)
    as_declared = sum(r.is_as_declared for r in live)
    is_fruitless = rows and live and not (any(r.usable_rows for r in live) or erasures(lake))
    return Unusable(
        rows,
        len(refused),
        reasons,
        (f"SELECT * FROM {source}",),
        late_rows,
        as_declared,
        _contradicted(lake, live),
        (section_of(lake.source),) if is_fruitless else (),
    )


def _contradicted(lake: Lake, live: Sequence[FileRecord]) -> tuple[str, ...]:
    files = ((plain(shown(r.path, lake.source)), r.contradicted) for r in live if r.contradicted)
    until = (
        'its manifest is mended or `backfill-assets landing accept --note "why"` sets the file '
        "aside"
    )
    return tuple(
        f"{path}: loaded, but {why}; its days are not rebuilt until {until}" for path, why in files
    )


class Kinds(NamedTuple):
    """The most frequent kinds of reasons as (text, rows), and the number of kinds and rows beyond
    these."""

    shown: Sequence[tuple[str, int]]
    more_kinds: int
    more_rows: int


def kinds(reasons: Mapping[str, int], most: int = MOST_KINDS) -> Kinds:
    """Group reasons (reason: rows) that differ only in numbers and quoted values; `…` stands in
    their places.

    The `most` frequent kinds come first, kinds with equally many rows by their text.
    """
    grouped: dict[str, dict[str, int]] = defaultdict(dict)
    for reason, rows in reasons.items():
        grouped[VARYING.sub("…", reason)][reason] = rows
    texts = {
        kind: next(iter(found)) if len(found) == 1 else kind for kind, found in grouped.items()
    }
    counted = [
        (shortened(texts[kind], MOST_CHARS), sum(found.values())) for kind, found in grouped.items()
    ]
    ordered = sorted(counted, key=lambda item: (-item[1], item[0]))
    hidden = ordered[most:]
    return Kinds(ordered[:most], len(hidden), sum(rows for _, rows in hidden))
