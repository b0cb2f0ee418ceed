"""Audit: figures per day of the files that a write would publish, or that a table holds, without a
JVM.

Not here: judging the figures (`kernel.write.gates`) and the text of a fingerprint (`fingerprints`).
An embedded columnar engine (DuckDB) reads Parquet in pieces and spills what does not fit. Rules are
written once, in Spark SQL; the queries once, in DuckDB's (`RowAudit`), whoever runs them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import Any, TypeVar

from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.profiles import DayProfile, key_name
from backfill_assets.kernel.core.readings import Sets
from backfill_assets.kernel.core.texts import shortened_text
from backfill_assets.kernel.tables.embedded import (
    duckdb_cursor,
    explaining_unreadable,
    file_batches,
    rows_query,
)
from backfill_assets.kernel.tables.fingerprints import (
    PIECES,
    Counted,
    Found,
    approximate_distinct,
    fingerprint_text,
    frequent_texts,
    hash_pieces,
    number_bucket,
    part_hashes,
    quoted_list,
    quoted_name,
    row_hash,
    texts_of_rows,
)
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.gates import NOT_NULL, UNIQUE_KEY, check_name
from backfill_assets.kernel.write.rules import breaking_conditions, group_breaking_conditions

T = TypeVar("T")
Profiles = Mapping[date | None, DayProfile]
Figures = dict[date | None, dict[str, Any]]  # per day (None: rows without one) by their names
SAMPLE_KEYS = 10
ROW = "__row"  # the hash of a row
SAMPLE_KEY_CHARS = 200


def audit_files(
    lake: Lake, files: Sequence[str], contract: Contract, parts: Sets | None = None
) -> Profiles:
    """Profile every day that occurs in the files (None: rows whose day is NULL), with the
    fingerprints of the column sets `parts`. Raises ContractBroken if a file cannot be read as the
    contract's columns, e.g. text that is not UTF-8.
    """
    profiles: dict[date | None, DayProfile] = {}
    for batch in file_batches(files, contract):  # no two of them hold the same day
        profiles |= _audit_batch(lake, batch, contract, parts or {})
    return profiles


def _on_day(by_name: Mapping[str, Mapping[date | None, T]], day: date | None) -> dict[str, T]:
    """What was found on a day, by name; names of which nothing was found there are left out."""
    return {name: by_day[day] for name, by_day in by_name.items() if day in by_day}


@dataclass(frozen=True)
class RowAudit:
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
        aggregates = {**_day_aggregates(self.contract, self.parts, self.described), **more}
        figures = ", ".join(f"{text} AS figure_{i}" for i, text in enumerate(aggregates.values()))
        day = quoted_name(self.contract.day_column)
        found = self.fetched(f"SELECT {day}, {figures} FROM ({self.hashed}) GROUP BY 1")
        return {on: dict(zip(aggregates, cells, strict=True)) for on, *cells in found}

    def counted_texts(self, figures: Figures) -> Counted:
        """Per described column and day the rows that are not NULL, and about how many texts a
        sample of them has."""
        counted: dict[str, dict[date | None, tuple[int, int]]] = {c: {} for c in self.described}
        for column, by_day in counted.items():
            for day, of_day in figures.items():
                with_text = of_day["rows"] - of_day[f"nulls {column}"]
                by_day[day] = (with_text, of_day[f"distinct {column}"])
        return counted

    def profiles(self, figures: Figures, texts: Mapping[str, Found]) -> Profiles:
        """The profile of each day, as receipts keep it, from its figures and the rows of frequent
        texts by column. Here the groups are counted, each by a narrow query."""
        repeated = self._count_per_day(self._repeated_keys()) if self.contract.key else {}
        broken = {name: self._count_per_day(query) for name, query in self._broken_groups().items()}
        most = {
            key_name(k): self._count_per_day(self._frequent_key(k)) for k in self.contract.read_by
        }
        profiles: dict[date | None, DayProfile] = {}
        for day, of_day in figures.items():
            groups = _on_day(broken, day)
            profile = _day_profile(of_day, self.contract, self.parts, repeated.get(day, 0), groups)
            profiles[day] = replace(
                profile,
                histograms={**profile.histograms, **_on_day(texts, day)},
                most={**dict.fromkeys(most, 0), **_on_day(most, day)},
            )
        return profiles

    def _count_per_day(self, query: str) -> dict[date | None, int]:
        return {day: int(n) for day, n in self.fetched(query)}

    def _groups_query(
        self, columns: Iterable[str], having: str, n: str, where: str = "true"
    ) -> str:
        """Query of the day `d` and the number `n` (an aggregate) of each group of rows of a day
        that have equal `columns`: of rows for which `where` holds, and groups for which `having`
        does."""
        day = self.contract.day_column
        by = (self.as_key(self.contract.column(c)) for c in dict.fromkeys((day, *columns)))
        return (
            f"SELECT {quoted_name(day)} AS d, {n} AS n FROM ({self.rows}) WHERE {where} "
            f"GROUP BY {', '.join(by)} HAVING {having}"
        )

    def _repeated_keys(self) -> str:
        """Query of the rows per day beyond the first of each key."""
        groups = self._groups_query(self.contract.key, "count(*) > 1", "count(*) - 1")
        return f"SELECT d, CAST(sum(n) AS BIGINT) FROM ({groups}) GROUP BY 1"

    def _frequent_key(self, key: Sequence[str]) -> str:
        """Query of the rows per day of the most frequent key without a NULL."""
        known = " AND ".join(f"{quoted_name(c)} IS NOT NULL" for c in key)
        return (
            f"SELECT d, max(n) FROM ({self._groups_query(key, 'true', 'count(*)', known)}) GROUP "
            "BY 1"
        )

    def _broken_groups(self) -> dict[str, str]:
        """Per rule of groups the query that counts the groups which break it, per day."""
        queries, conditions = {}, group_breaking_conditions(self.contract)
        for rule in self.contract.group_rules:
            _, condition = conditions[rule.name]
            groups = self._groups_query(rule.per, condition, "1")
            queries[rule.name] = f"SELECT d, count(*) FROM ({groups}) GROUP BY 1"
        return queries


def described_columns(lake: Lake, contract: Contract) -> list[str]:
    """The columns whose frequent texts receipts keep: not those that name an entity."""
    return [c for c in contract.text_columns if c not in lake.settings.features.entity]


def _audit_batch(lake: Lake, files: Sequence[str], contract: Contract, parts: Sets) -> Profiles:
    """The profiles of the days in these files, which have every row of their days: no other batch
    has more of them."""
    rows = rows_query(files, contract)
    measured = map(contract.column, contract.measured_columns)
    histograms = {f"histogram {c.name}": f"histogram({number_bucket(c)})" for c in measured}
    with explaining_unreadable(contract), duckdb_cursor(lake) as engine:
        counter = RowAudit(
            lambda query: engine.execute(query).fetchall(),
            rows,
            contract,
            parts,
            described_columns(lake, contract),
            as_key=lambda column: quoted_name(column.name),
        )
        figures = counter.day_figures(histograms)
        by_text = partial(texts_of_rows, rows, contract.day_column)
        texts = frequent_texts(engine, by_text, counter.counted_texts(figures))
        return counter.profiles(figures, texts)


def _day_aggregates(contract: Contract, parts: Sets, described: Collection[str]) -> dict[str, str]:
    """The aggregates of a day by their names, over rows with their hashes."""
    figures = {"rows": "count(*)"}
    for hashed in (ROW, *part_hashes(contract, parts)):
        for number, piece in enumerate(hash_pieces(hashed)):
            figures[f"{hashed} {number}"] = f"sum({piece})"
    for name in contract.column_names:
        figures[f"nulls {name}"] = f"count(*) - count({quoted_name(name)})"
    for name in contract.summed_columns:
        figures[f"sum {name}"] = f"sum({_exact_number(contract.column(name))})"
    for rule, condition in breaking_conditions(contract).items():
        figures[f"breaks {rule}"] = f"count(*) FILTER (WHERE {condition})"
    for name in described:
        figures[f"distinct {name}"] = approximate_distinct(name, ROW)
    return figures


def _exact_number(column: Column) -> str:
    """The column as a number whose sum is exact."""
    wide = f"DECIMAL(38, {column.kind.scale})" if column.kind.scale else "HUGEINT"
    return f"CAST({quoted_name(column.name)} AS {wide})"


def _exact_sum(column: Column, total: Any) -> Any:
    """A sum as receipts keep it: a whole number, or a decimal of the column's scale."""
    return total or 0 if column.kind.scale else int(total or 0)


def _day_profile(
    figures: Mapping[str, Any],
    contract: Contract,
    parts: Sets,
    duplicates: int,
    groups: Mapping[str, int],
) -> DayProfile:
    """The profile of a day from its figures and the numbers of groups that break each rule."""

    def fingerprint(hashed: str) -> str:
        return fingerprint_text([int(figures[f"{hashed} {i}"] or 0) for i in range(PIECES)])

    def of_columns(figure: str, names: Iterable[str]) -> dict[str, Any]:
        """A figure of each of these columns or rules where it is not 0, NULL or empty."""
        found = {name: figures[f"{figure} {name}"] for name in names}
        return {name: value for name, value in found.items() if value}

    sums = {}
    for name in contract.summed_columns:
        sums[name] = _exact_sum(contract.column(name), figures[f"sum {name}"])
    return DayProfile(
        rows=figures["rows"],
        fingerprint=fingerprint(ROW),
        nulls=of_columns("nulls", contract.column_names),
        duplicates=duplicates,
        sums=sums,
        broken={**of_columns("breaks", [r.name for r in contract.row_rules]), **groups},
        histograms=of_columns("histogram", contract.measured_columns),
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
    files = lake.store.data_files(contract, version, days, altered=altered)
    profiles = audit_files(lake, files, contract)
    if days is None:
        return profiles
    asked = set(days)
    return {d: p for d, p in profiles.items() if d in asked}


def count_rows(
    lake: Lake, files: Sequence[str], contract: Contract, columns: Sequence[str]
) -> list[tuple[Any, ...]]:
    """The rows of these files per day and value of the columns: the day, the values, then how
    many."""
    by = quoted_list((contract.day_column, *columns))
    counted = list[tuple[Any, ...]]()
    with duckdb_cursor(lake) as engine:
        for batch in file_batches(files, contract):
            query = f"SELECT {by}, count(*) FROM ({rows_query(batch, contract)}) GROUP BY ALL"
            counted += engine.execute(query).fetchall()
    return counted


def sample_keys(
    lake: Lake, files: Sequence[str], contract: Contract, day: date | None, check: str
) -> list[str]:
    """Up to ten keys (as JSON, cut to 200 characters) of the rows of `day` because of which `check`
    fails: `unique_key`, `not_null` or that of a rule; for another name any rows are taken. They are
    cut, and of an entity only the first eight digits of its MD5 are shown, because they go into
    events and alerts."""
    names = dict.fromkeys(contract.key or (contract.day_column,))
    rows = rows_query(files, contract)
    on_day = "NULL" if day is None else f"DATE '{day.isoformat()}'"
    where = f"{quoted_name(contract.day_column)} IS NOT DISTINCT FROM {on_day}"
    if failing := _failing_conditions(contract, rows, check):
        where += f" AND ({' OR '.join(failing)})"
    keys = quoted_list(names)
    having = "HAVING count(*) > 1" if check == UNIQUE_KEY else ""
    packed = []
    for name in map(quoted_name, names):
        names_entity = name in map(quoted_name, lake.settings.features.entity)
        shown = f"left(md5(CAST({name} AS VARCHAR)), 8)" if names_entity else name
        packed.append(f"{name} := {shown}")
    as_json = f"CAST(to_json(struct_pack({', '.join(packed)})) AS VARCHAR)"
    query = (
        f"SELECT left({as_json}, {SAMPLE_KEY_CHARS + 1}) FROM (SELECT {keys} FROM ({rows}) "
        f"WHERE {where} GROUP BY {keys} {having}) ORDER BY 1 LIMIT {SAMPLE_KEYS}"
    )
    with duckdb_cursor(lake) as engine:
        return [
            shortened_text(row[0], SAMPLE_KEY_CHARS) for row in engine.execute(query).fetchall()
        ]


def _failing_conditions(contract: Contract, rows: str, check: str) -> list[str]:
    """Conditions, one of which holds of each row because of which a check fails; none where any
    row may be shown. `rows`: the query of all rows."""
    if check == NOT_NULL:
        return [f"{quoted_name(c)} IS NULL" for c in contract.required_columns]
    rules = tuple(rule for rule in contract.rules if check_name(rule) == check)
    judged = replace(contract, rules=rules)
    failing = [*breaking_conditions(judged).values()]
    for by, breaks in group_breaking_conditions(judged).values():
        failing.append(f"({by}) IN (SELECT {by} FROM ({rows}) GROUP BY {by} HAVING {breaks})")
    return failing
