"""Audit: figures per day of the files that a write would publish, or that a table holds, without a
JVM.

Not here: judging the figures (`kernel.write.gates`) and the text of a fingerprint (`fingerprints`).
An embedded columnar engine (DuckDB) reads Parquet in pieces and spills what does not fit. Rules are
written once, in Spark SQL; the queries once, in DuckDB's (`Counter`), whoever runs them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.profiles import DayProfile, key_name
from backfill_assets.kernel.core.readings import Sets
from backfill_assets.kernel.core.texts import shortened
from backfill_assets.kernel.tables.columns import read_footer, type_of_arrow
from backfill_assets.kernel.tables.data_files import damaged, whole_files
from backfill_assets.kernel.tables.embedded import (
    connection,
    explaining_unreadable,
    file_batches,
    selection,
)
from backfill_assets.kernel.tables.fingerprints import (
    PIECES,
    Counted,
    Found,
    bucket,
    distinct,
    fingerprint_text,
    frequent_texts,
    part_hashes,
    pieces,
    quoted,
    row_hash,
    texts_of_rows,
)
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.gates import NOT_NULL, UNIQUE_KEY, check_of
from backfill_assets.kernel.write.rules import breaking, breaking_groups

Profiles = Mapping[date | None, DayProfile]
Figures = dict[date | None, dict[str, Any]]  # per day (None: rows without one) by their names
SAMPLE_KEYS = 10
ROW = "__row"  # the hash of a row
SAMPLE_KEY_CHARS = 200


def audit(
    lake: Lake, files: Sequence[str], contract: Contract, parts: Sets | None = None
) -> Profiles:
    """Profile every day that occurs in the files (None: rows whose day is NULL), with the
    fingerprints of the column sets `parts`. Raises ContractBroken if a file cannot be read as the
    contract's columns, e.g. text that is not UTF-8.
    """
    by_batch = (
        _audit_files(lake, batch, contract, parts or {}) for batch in file_batches(files, contract)
    )
    return {day: profile for profiles in by_batch for day, profile in profiles.items()}


@dataclass(frozen=True)
class Counter:
    """Queries over the rows of some files of a table, and who runs them."""

    fetched: Callable[[str], list[tuple[Any, ...]]]  # the rows of a query in DuckDB's SQL
    rows: str  # the query of the files' rows
    contract: Contract
    parts: Sets
    described: Sequence[str]  # the columns whose frequent texts receipts keep
    as_key: Callable[[Column], str]  # a column as a part of a key that groups rows

    @property
    def hashed(self) -> str:
        """The query of the rows with the hash of each, and those of the column sets."""
        hashes = {ROW: row_hash(self.contract.columns), **part_hashes(self.contract, self.parts)}
        named = ", ".join(f"{text} AS {name}" for name, text in hashes.items())
        return f"SELECT *, {named} FROM ({self.rows})"

    def day_figures(self, more: Mapping[str, str]) -> Figures:
        """Per day (None: rows without one) its figures by their names, with those of `more`
        aggregates of one's own."""
        figures = {**_aggregates(self.contract, self.parts, self.described), **more}
        texts = ", ".join(f"{text} AS figure_{i}" for i, text in enumerate(figures.values()))
        day = quoted(self.contract.day_column)
        found = self.fetched(f"SELECT {day}, {texts} FROM ({self.hashed}) GROUP BY 1")
        return {on: dict(zip(figures, cells, strict=True)) for on, *cells in found}

    def counted_texts(self, figures: Figures) -> Counted:
        """Per described column and day the rows that are not NULL, and about how many texts a
        sample of them has."""
        return {
            c: {on: (f["rows"] - f[f"nulls {c}"], f[f"distinct {c}"]) for on, f in figures.items()}
            for c in self.described
        }

    def profiles(self, figures: Figures, texts: Mapping[str, Found]) -> Profiles:
        """The profile of each day, as receipts keep it, from its figures and the rows of frequent
        texts by column. Here the groups are counted, each by a narrow query."""
        repeated = self._per_day(self._repeated_keys()) if self.contract.key else {}
        broken = {name: self._per_day(query) for name, query in self._broken_groups().items()}
        most = {key_name(k): self._per_day(self._frequent_key(k)) for k in self.contract.read_by}
        profiles: dict[date | None, DayProfile] = {}
        for on, of_day in figures.items():
            groups = {rule: counts[on] for rule, counts in broken.items() if on in counts}
            profile = _profile(of_day, self.contract, self.parts, repeated.get(on, 0), groups)
            frequent = {c: found[on] for c, found in texts.items() if on in found}
            profiles[on] = replace(
                profile,
                histograms={**profile.histograms, **frequent},
                most={key: counts.get(on, 0) for key, counts in most.items()},
            )
        return profiles

    def _per_day(self, query: str) -> dict[date | None, int]:
        return {day: int(n) for day, n in self.fetched(query)}

    def _groups(self, columns: Iterable[str], having: str, n: str, where: str = "true") -> str:
        """Query of the day `d` and the number `n` of each group of a day's rows which has something
        in common."""
        day = self.contract.day_column
        by = (self.as_key(self.contract.column(c)) for c in dict.fromkeys((day, *columns)))
        return (
            f"SELECT {quoted(day)} AS d, {n} AS n FROM ({self.rows}) WHERE {where} "
            f"GROUP BY {', '.join(by)} HAVING {having}"
        )

    def _repeated_keys(self) -> str:
        """Query of the rows per day beyond the first of each key."""
        groups = self._groups(self.contract.key, "count(*) > 1", "count(*) - 1")
        return f"SELECT d, CAST(sum(n) AS BIGINT) FROM ({groups}) GROUP BY 1"

    def _frequent_key(self, key: Sequence[str]) -> str:
        """Query of the rows per day of the most frequent key without a NULL."""
        known = " AND ".join(f"{quoted(c)} IS NOT NULL" for c in key)
        return f"SELECT d, max(n) FROM ({self._groups(key, 'true', 'count(*)', known)}) GROUP BY 1"

    def _broken_groups(self) -> dict[str, str]:
        """Per rule of groups the query that counts the groups which break it, per day."""
        broken = breaking_groups(self.contract)
        return {
            rule.name: "SELECT d, count(*) FROM "
            f"({self._groups(rule.per, broken[rule.name][1], '1')}) GROUP BY 1"
            for rule in self.contract.group_rules
        }


def described_columns(lake: Lake, contract: Contract) -> list[str]:
    """The columns whose frequent texts receipts keep: not those that name an entity."""
    return [c for c in contract.text_columns if c not in lake.settings.features.entity]


def _audit_files(lake: Lake, files: Sequence[str], contract: Contract, parts: Sets) -> Profiles:
    rows, measured = selection(files, contract), map(contract.column, contract.measured_columns)
    histograms = {f"histogram {c.name}": f"histogram({bucket(c)})" for c in measured}
    with explaining_unreadable(contract), connection(lake) as engine:
        counter = Counter(
            lambda query: engine.execute(query).fetchall(),
            rows,
            contract,
            parts,
            described_columns(lake, contract),
            as_key=lambda column: quoted(column.name),
        )
        figures = counter.day_figures(histograms)
        by_text = partial(texts_of_rows, rows, contract.day_column)
        texts = frequent_texts(engine, by_text, counter.counted_texts(figures))
        return counter.profiles(figures, texts)


def _aggregates(contract: Contract, parts: Sets, described: Collection[str]) -> dict[str, str]:
    """The aggregates of a day by their names, over rows with their hashes."""
    hashes = (ROW, *part_hashes(contract, parts))
    figures = {"rows": "count(*)"}
    figures |= {f"{h} {i}": f"sum({piece})" for h in hashes for i, piece in enumerate(pieces(h))}
    figures |= {f"nulls {c}": f"count(*) - count({quoted(c)})" for c in contract.column_names}
    summed = map(contract.column, contract.summed_columns)
    figures |= {f"sum {c.name}": f"sum({_exact_number(c)})" for c in summed}
    figures |= {
        f"breaks {rule}": f"count(*) FILTER (WHERE {b})" for rule, b in breaking(contract).items()
    }
    return figures | {f"distinct {c}": distinct(c, ROW) for c in described}


def _exact_number(column: Column) -> str:
    """The column as a number whose sum is exact."""
    wide = f"DECIMAL(38, {column.kind.scale})" if column.kind.scale else "HUGEINT"
    return f"CAST({quoted(column.name)} AS {wide})"


def _exact_sum(column: Column, total: Any) -> Any:
    """A sum as receipts keep it: a whole number, or a decimal of the column's scale."""
    return total or 0 if column.kind.scale else int(total or 0)


def _profile(
    figures: Mapping[str, Any],
    contract: Contract,
    parts: Sets,
    duplicates: int,
    groups: Mapping[str, int],
) -> DayProfile:
    """The profile of a day from its figures and the numbers of groups that break each rule."""

    def fingerprint(hashed: str) -> str:
        return fingerprint_text([int(figures[f"{hashed} {i}"] or 0) for i in range(PIECES)])

    def counts(figure: str, names: Collection[str]) -> dict[str, int]:
        return {n: int(figures[f"{figure} {n}"]) for n in names if figures[f"{figure} {n}"]}

    return DayProfile(
        rows=figures["rows"],
        fingerprint=fingerprint(ROW),
        nulls=counts("nulls", contract.column_names),
        duplicates=duplicates,
        sums={
            c: _exact_sum(contract.column(c), figures[f"sum {c}"]) for c in contract.summed_columns
        },
        broken={**counts("breaks", [r.name for r in contract.row_rules]), **groups},
        histograms={c: h for c in contract.measured_columns if (h := figures[f"histogram {c}"])},
        parts={name: fingerprint(f"__part_{i}") for i, name in enumerate(parts)},
    )


def audit_table(
    lake: Lake,
    contract: Contract,
    version: int | None = None,
    days: Collection[date] | None = None,
    altered: bool = False,
) -> Profiles:
    """Profile a table at a version (None: the newest), for all days or `days`; `altered`: accept
    files of any size."""
    profiles = audit(
        lake, lake.store.data_files(contract, version, days, altered=altered), contract
    )
    return profiles if days is None else {d: p for d, p in profiles.items() if d in set(days)}


def audit_readable(
    lake: Lake, contract: Contract, days: Collection[date] | None, decoded: bool = False
) -> tuple[Profiles, Sequence[str]]:
    """Profiles of days of a table (None: all) without damaged files, and the other days (of a table
    that is not laid out by day: the files), ascending. `decoded`: Arrow reads every file to find
    damaged ones."""
    damaged_files = damaged(lake, contract, days, decoded)
    try:
        profiles = audit(lake, whole_files(lake, contract, days, damaged_files), contract)
    except (BackfillError, OSError):
        if decoded:
            raise
        return audit_readable(lake, contract, days, decoded=True)
    return profiles, sorted({f.partition or f.path for f in damaged_files})


def audit_as_written(
    lake: Lake, contract: Contract, days: Collection[date]
) -> dict[date, DayProfile]:
    """Profile these days by the columns that their files have; empty where files are not laid out
    by day."""
    if not contract.is_by_day:
        return {}
    kinds: dict[tuple[tuple[str, str], ...], tuple[Contract, list[date]]] = {}
    for day in days:
        if files := lake.store.data_files(contract, None, [day]):
            written = as_written(contract, files[0])
            _, alike = kinds.setdefault(
                tuple((c.name, c.type) for c in written.columns), (written, [])
            )
            alike.append(day)
    profiles: dict[date, DayProfile] = {}
    for written, alike in kinds.values():
        profiles |= {
            d: p for d, p in audit_table(lake, written, None, alike).items() if d is not None
        }
    return profiles


def as_written(contract: Contract, file: str) -> Contract:
    """The contract of the columns that a data file of the table has, in a wider type where the
    contract has one, by which no canonical text differs. It judges no row."""
    wanted, by = {c.name: c.kind for c in contract.columns}, contract.partition_column
    schema = (
        f for f in read_footer(Path(file)).schema if f.name != by
    )  # others' files may hold it, too
    written = {f.name: kind for f in schema if (kind := type_of_arrow(f.type)) is not None}
    written |= {name: kind for name, kind in wanted.items() if kind.holds(written.get(name))}
    columns = [Column(name, str(kind), name, nullable=True) for name, kind in written.items()]
    laid_out = [contract.column(contract.partition_column)] if contract.partition_column else []
    return replace(contract, columns=(*columns, *laid_out), key=(), rules=(), inputs=(), read_by=())


def count_rows(
    lake: Lake, files: Sequence[str], contract: Contract, columns: Sequence[str]
) -> list[tuple[Any, ...]]:
    """The rows of these files per day and value of the columns: the day, the values, then how
    many."""
    by = ", ".join(map(quoted, (contract.day_column, *columns)))
    selected = (selection(some, contract) for some in file_batches(files, contract))
    with connection(lake) as engine:
        return [
            r
            for s in selected
            for r in engine.execute(f"SELECT {by}, count(*) FROM ({s}) GROUP BY ALL").fetchall()
        ]


def sample_keys(
    lake: Lake, files: Sequence[str], contract: Contract, day: date | None, check: str
) -> list[str]:
    """Up to ten keys (as JSON, cut to 200 characters) of the rows of `day` because of which `check`
    fails: `unique_key`, `not_null` or that of a rule; for another name any rows are taken. They are
    cut, and of an entity only the first eight digits of its MD5 are shown, because they go into
    events and alerts."""
    names, rows = (
        [quoted(c) for c in dict.fromkeys(contract.key or (contract.day_column,))],
        selection(files, contract),
    )
    where = f"{quoted(contract.day_column)} IS NOT DISTINCT FROM " + (
        f"DATE '{day.isoformat()}'" if day else "NULL"
    )
    if check == NOT_NULL:
        where += f" AND ({' OR '.join(f'{quoted(c)} IS NULL' for c in contract.required_columns)})"
    if rules := tuple(rule for rule in contract.rules if check_of(rule) == check):
        strict = replace(contract, rules=rules)
        broken = [*breaking(strict).values()]
        for by, breaks in breaking_groups(strict).values():
            broken.append(f"({by}) IN (SELECT {by} FROM ({rows}) GROUP BY {by} HAVING {breaks})")
        where += f" AND ({' OR '.join(broken)})"
    keys, having = ", ".join(names), "HAVING count(*) > 1" if check == UNIQUE_KEY else ""
    entity = {*map(quoted, lake.settings.features.entity)}
    packed = ", ".join(
        f"{n} := {f'left(md5(CAST({n} AS VARCHAR)), 8)' if n in entity else n}" for n in names
    )
    query = (
        f"SELECT left(CAST(to_json(struct_pack({packed})) AS VARCHAR), {SAMPLE_KEY_CHARS + 1}) "
        f"FROM (SELECT {keys} "
        f"FROM ({rows}) WHERE {where} GROUP BY {keys} {having}) ORDER BY 1 LIMIT {SAMPLE_KEYS}"
    )
    with connection(lake) as engine:
        return [shortened(row[0], SAMPLE_KEY_CHARS) for row in engine.execute(query).fetchall()]
