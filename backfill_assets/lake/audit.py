"""The audit: what the very files say that would be published, or that stand in a table, per day, without a JVM.

Lives here: rows, NULLs, sums, repeated keys, rows of other days or of none, and the fingerprint, by an embedded
columnar engine (DuckDB) that reads Parquet in pieces and spills what does not fit. Does not live here: judging them
(`lake.gates`), and the same figures by Spark (`profile`, equal by a test) for what is too large for one machine.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from backfill_assets.core.contracts import Column, Contract
from backfill_assets.core.profiles import DayProfile
from backfill_assets.core.readings import Sets
from backfill_assets.core.texts import shortened
from backfill_assets.lake.embedded import connection, file_batches, selection, telling_unreadable
from backfill_assets.lake.fingerprints import (
    PIECES,
    Dialect,
    bucket,
    fingerprint_text,
    part_hashes,
    part_texts,
    pieces,
    quoted,
    row_hash,
)
from backfill_assets.lake.gates import NOT_NULL, RULES, UNIQUE_KEY
from backfill_assets.lake.home import Lake
from backfill_assets.lake.rules import breaking, breaking_groups
from backfill_assets.lake.type_names import type_of_arrow

Profiles = Mapping[date | None, DayProfile]
SAMPLE_KEYS = 10
SAMPLE_KEY_CHARS = 200


def _name(column: str) -> str:
    return quoted(column, Dialect.DUCKDB)


def audit(lake: Lake, files: Sequence[str], contract: Contract, parts: Sets | None = None) -> Profiles:
    """The profile of every day that occurs in the files (None: rows whose day is NULL), with the fingerprints of these
    sets of columns. Raises ContractBroken where a file cannot be read as the contract's columns, e.g. text that is not
    UTF-8."""
    by_batch = (_audited(lake, some, contract, parts) for some in file_batches(files, contract))
    return {day: profile for found in by_batch for day, profile in found.items()}


def _audited(lake: Lake, files: Sequence[str], contract: Contract, parts: Sets | None) -> Profiles:
    hashes = part_hashes(contract, parts or {}, Dialect.DUCKDB)
    figures = [*_figures(contract), *(f"sum({p})" for hashed in hashes for p in pieces(hashed, Dialect.DUCKDB))]
    hashes["hashed"] = row_hash(contract.columns, Dialect.DUCKDB)
    day, rows = _name(contract.day_column), selection(files, contract)
    query = (
        f"SELECT {day}, {', '.join(figures)} FROM "
        f"(SELECT *, {', '.join(f'{h} AS {n}' for n, h in hashes.items())} FROM ({rows})) GROUP BY 1"
    )
    with telling_unreadable(contract), connection(lake) as engine:
        found = engine.execute(query).fetchall()
        repeated = dict(engine.execute(_repeated(contract, rows)).fetchall())
        groups = {rule: dict(engine.execute(q).fetchall()) for rule, q in _broken_groups(contract, rows).items()}
    measured, names = contract.measured_columns, tuple(parts or {})
    end = 1 + len(figures) - PIECES * len(names)  # of what is not of a part
    begin = end - len(measured)
    return {
        row[0]: replace(
            _profile(row, contract, repeated, groups),
            histograms={c: h for c, h in zip(measured, row[begin:end], strict=True) if h},
            parts=part_texts(names, row[end:]),
        )
        for row in found
    }


def _figures(contract: Contract) -> list[str]:
    """What is counted of a day, in the order that `_profile` and histograms are taken from."""
    numbers = [contract.column(c) for c in contract.summed_columns]
    figures = ["count(*)", *(f"sum({p})" for p in pieces("hashed", Dialect.DUCKDB))]
    figures += [f"count(*) - count({_name(c)})" for c in contract.column_names]
    figures += [f"sum({_name(c.name) if c.kind.scale else f'CAST({_name(c.name)} AS HUGEINT)'})" for c in numbers]
    figures += [f"count(*) FILTER (WHERE {b})" for b in breaking(contract, Dialect.DUCKDB).values()]
    figures += [f"histogram({bucket(contract.column(c), Dialect.DUCKDB)})" for c in contract.measured_columns]
    return figures


def audit_table(
    lake: Lake, contract: Contract, version: int | None = None, days: Collection[date] | None = None,
    altered: bool = False,
) -> Profiles:  # fmt: skip
    """The profile of a table at a version (None: the newest), of all days or of these; `altered`: of any files."""
    found = audit(lake, lake.store.data_files(contract, version, days, altered=altered), contract)
    return found if days is None else {d: p for d, p in found.items() if d in set(days)}


def audit_as_written(lake: Lake, contract: Contract, days: Collection[date]) -> dict[date, DayProfile]:
    """The profiles of these days by the columns that their files have; none where files are not laid out by day."""
    import pyarrow.parquet as pq

    if contract.partition_column != contract.day_column:
        return {}
    kinds: dict[tuple[tuple[str, str], ...], list[date]] = defaultdict(list)
    for day in days:
        files = lake.store.data_files(contract, None, [day])
        if files:
            kinds[_columns(pq.read_schema(files[0]))].append(day)
    found: dict[date, DayProfile] = {}
    for kind, alike in kinds.items():
        columns = (*(Column(n, k, n, nullable=True) for n, k in kind), contract.column(contract.partition_column))
        then = replace(contract, columns=columns, key=(), rules=(), inputs=())
        found |= {d: p for d, p in audit_table(lake, then, None, alike).items() if d is not None}
    return found


def _columns(schema: Any) -> tuple[tuple[str, str], ...]:
    """The columns of a data file as name and type; those of no type of ours are left out."""
    kinds = ((f.name, type_of_arrow(f.type)) for f in schema)
    return tuple((name, str(kind)) for name, kind in kinds if kind is not None)


def count_rows(lake: Lake, files: Sequence[str], contract: Contract, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """The rows of these files per day and value of the columns: the day, the values, then how many."""
    by = ", ".join(map(_name, (contract.day_column, *columns)))
    selected = (selection(some, contract) for some in file_batches(files, contract))
    with connection(lake) as engine:
        return [
            r for s in selected for r in engine.execute(f"SELECT {by}, count(*) FROM ({s}) GROUP BY ALL").fetchall()
        ]


def _profile(
    row: Sequence[Any], contract: Contract, repeated: Mapping[Any, int], groups: Mapping[str, Mapping[Any, int]]
) -> DayProfile:
    """Of a day and its figures, of which those after the counts of broken rules are left alone."""
    day, figures = row[0], row[1:]
    columns, numbers = contract.column_names, contract.summed_columns
    after = 1 + PIECES + len(columns)
    sums = [f or 0 for f in figures[after : after + len(numbers)]]
    end = after + len(numbers) + len(contract.row_rules)
    whole = [int(f or 0) for f in figures[:end]]
    broken = zip((r.name for r in contract.row_rules), whole[after + len(numbers) :], strict=True)
    nulls = dict(zip(columns, whole[1 + PIECES :], strict=False))
    return DayProfile(
        rows=whole[0],
        fingerprint=fingerprint_text(whole[1 : 1 + PIECES]),
        nulls={c: n for c, n in nulls.items() if n},
        duplicates=repeated.get(day, 0),
        sums=dict(zip(numbers, sums, strict=True)),
        broken={**{rule: n for rule, n in broken if n}, **{rule: n[day] for rule, n in groups.items() if day in n}},
    )


def _repeated(contract: Contract, rows: str) -> str:
    """Rows per day beyond the first of each key: a narrow grouping, apart from the wide one."""
    keys = ", ".join(_name(c) for c in dict.fromkeys((contract.day_column, *contract.key)))
    day = _name(contract.day_column)
    per_key = f"SELECT {keys}, count(*) AS times FROM ({rows}) GROUP BY {keys} HAVING count(*) > 1"
    return f"SELECT {day}, CAST(sum(times - 1) AS BIGINT) FROM ({per_key}) GROUP BY 1"


def _broken_groups(contract: Contract, rows: str) -> dict[str, str]:
    """Per rule of groups the query of how many break it, per day."""
    day, found = _name(contract.day_column), {}
    for rule, (columns, broken) in breaking_groups(contract, Dialect.DUCKDB).items():
        by = ", ".join(map(_name, columns))
        found[rule] = (
            f"SELECT {day}, count(*) FROM (SELECT {by} FROM ({rows}) GROUP BY {by} HAVING {broken}) GROUP BY 1"
        )
    return found


def sample_keys(lake: Lake, files: Sequence[str], contract: Contract, day: date | None, check: str) -> list[str]:
    """Up to ten keys (as JSON, cut to 200 characters) of the rows of `day` because of which `check` fails.

    A check is `unique_key`, `not_null`, `rules` (those that refuse); for another name any rows are taken.
    Keys go into events and alerts: a key of a megabyte must not.
    """
    names = [_name(c) for c in dict.fromkeys(contract.key or (contract.day_column,))]
    where = f"{_name(contract.day_column)} IS NOT DISTINCT FROM " + (f"DATE '{day.isoformat()}'" if day else "NULL")
    if check == NOT_NULL:
        where += f" AND ({' OR '.join(f'{_name(c)} IS NULL' for c in contract.required_columns)})"
    if check == RULES:
        where += f" AND ({' OR '.join(_breaks(contract, files))})"
    keys, having = ", ".join(names), "HAVING count(*) > 1" if check == UNIQUE_KEY else ""
    packed = ", ".join(f"{n} := {n}" for n in names)
    query = (
        f"SELECT left(CAST(to_json(struct_pack({packed})) AS VARCHAR), {SAMPLE_KEY_CHARS + 1}) FROM (SELECT {keys} "
        f"FROM ({selection(files, contract)}) WHERE {where} GROUP BY {keys} {having}) ORDER BY 1 LIMIT {SAMPLE_KEYS}"
    )
    with connection(lake) as engine:
        return [shortened(row[0], SAMPLE_KEY_CHARS) for row in engine.execute(query).fetchall()]


def _breaks(contract: Contract, files: Sequence[str]) -> list[str]:
    """The conditions under which a row, or its group, breaks a rule that refuses."""
    strict = replace(contract, rules=tuple(r for r in contract.rules if not r.only_warns))
    found = list(breaking(strict, Dialect.DUCKDB).values())
    for columns, broken in breaking_groups(strict, Dialect.DUCKDB).values():
        by, rows = ", ".join(map(_name, columns)), selection(files, contract)
        found.append(f"({by}) IN (SELECT {by} FROM ({rows}) GROUP BY {by} HAVING {broken})")
    return found
