"""SQL that people write: one SELECT that only reads, reads of consumers, and the aggregates in a
declared label's text.

Not here: answering a query over the lake (`reading.sql`), the effect of a failed read on a write
(`gates`), and which aggregates of a label exist and what they mean (`pipeline.declared`). Reads are
tried before rows are published.
"""

import json
import logging
import re
from collections.abc import Collection, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.tables.embedded import new_engine, rows_query
from backfill_assets.kernel.tables.fingerprints import on_days, quoted_name
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.staging import Staged

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

QUERY = "duckdb:"  # before a query, where also the name of a table or file may stand
WRITING = (
    "COPY",
    "INSERT",
    "UPDATE",
    "DELETE",
    "MERGE",
)  # words in the names of DuckDB's operators that write
# Table functions that read, by DuckDB's names; others switch on files that DuckDB writes
# (`enable_profiling`), or more.
READING = re.compile(
    r"(READ_)?(PARQUET|CSV|JSON|NDJSON)(_SCAN|_AUTO|_OBJECTS|_OBJECTS_AUTO|_SCHEMA|_METADATA|_FILE_METADATA)?"
    r"|READ_(TEXT|BLOB)|GLOB|SNIFF_CSV|RANGE|GENERATE_SERIES|REPEAT(_ROW)?|UNNEST|SUMMARY|JSON_(EACH|TREE)|(PYTHON_)?ARROW_SCAN"
)


def refuse_other_statements(engine: "DuckDBPyConnection", query: str) -> None:
    """Raise BackfillError for anything but a single SELECT."""
    statements = engine.extract_statements(query)
    if len(statements) != 1 or statements[0].type.name != "SELECT":
        kinds = ", ".join(s.type.name for s in statements) or "nothing"
        raise refused_query(
            f"it is {kinds}", "Ask one SELECT; tables change by `backfill-assets backfill` alone"
        )


def named_tables(query: str) -> frozenset[str] | None:
    """Return the tables in a query; None where sqlglot cannot parse it, and all are offered."""
    import sqlglot

    logging.getLogger("sqlglot").setLevel(
        logging.CRITICAL
    )  # its warnings show the query as it is, also to a screen
    try:
        tables = sqlglot.parse_one(query, read="duckdb").find_all(sqlglot.exp.Table)
    except sqlglot.errors.SqlglotError:
        return None
    return frozenset(table.name.lower() for table in tables)


def with_system_tables(query: str, known: Collection[str]) -> tuple[str, frozenset[str]]:
    """Return the query with `system.NAME` as `memory.system.NAME`, for `known` names, and these
    names.

    DuckDB has a catalog `system` of its own, so that the short form is ambiguous there.
    """
    from sqlglot.dialects.duckdb import DuckDB
    from sqlglot.errors import TokenError

    try:
        tokens = DuckDB().tokenize(query)
    except TokenError:
        return query, frozenset()
    found = set[str]()
    for first, dot, second in reversed([*zip(tokens, tokens[1:], tokens[2:], strict=False)]):
        name = second.text.lower()
        if first.text.lower() == "system" and dot.text == "." and name in known:
            found.add(name)
            query = f"{query[: first.start]}memory.{query[first.start :]}"
    return query, frozenset(found)


def refuse_writing(engine: "DuckDBPyConnection", query: str) -> None:
    """Raise BackfillError for a query whose plan writes: DuckDB also calls SELECT a statement that
    writes in a common table expression, or that calls a table function with effects. Runs nothing.

    The configuration of `engine` is locked for its life: it must be of this query's own, not one of
    `connection`.
    """
    if engine.execute("SELECT current_setting('lock_configuration')").fetchall() == [(False,)]:
        engine.execute("SET lock_configuration = true")
    [(_, plan)] = engine.execute(f"EXPLAIN (FORMAT json) {query}").fetchall()
    operators = json.loads(plan)
    for operator in operators:  # which grows meanwhile by those below it
        operators += operator["children"]
        if any(word in operator["name"] for word in WRITING):
            raise refused_query(
                f"it would write ({operator['name']})", "Ask one SELECT that only reads"
            )
        function = _function_of(operator)
        if function and not READING.fullmatch(function.upper()):
            raise refused_query(
                f"the table function {function.lower()} may do more than read",
                "Read tables of the lake and files only",
            )


def _function_of(operator: dict[str, Any]) -> str:
    """The table function of an operator of a plan; empty without one."""
    details = operator["extra_info"]
    return str(
        details.get(
            "Function", details.get("Name", "") if operator["name"] == "INOUT_FUNCTION" else ""
        )
    )


def refused_query(culprit: str, fix: str) -> BackfillError:
    """The error of a query that is not run."""
    return BackfillError("the query", culprit, "Nothing was read", fix)


def failed_reads(
    lake: Lake,
    contracts: Sequence[Contract],
    reads: Collection[str],
    written: Contract | None = None,
    staged: Sequence[str] = (),
    days: Collection[date] = (),
) -> list[str]:
    """Try SELECTs over the lake's tables and return a text for each that fails, where `staged`
    files replace `days` of the table `written`. Answers are read to the end and discarded; an empty
    one is an answer."""
    import duckdb

    failures = []
    for query in reads:
        named = named_tables(query)
        with new_engine(lake.root) as engine:
            try:
                refuse_other_statements(engine, query)
                for contract in contracts:
                    if named is None or contract.name in named:
                        rows = rows_as_published(lake, contract)
                        if written is not None and contract.name == written.name:
                            rows = _with_days(rows, written, staged, days)
                        engine.execute(
                            f"CREATE OR REPLACE TEMP VIEW {quoted_name(contract.name)} AS {rows}"
                        )
                refuse_writing(engine, query)
                for _ in engine.sql(query).to_arrow_reader():
                    pass
            except (duckdb.Error, OSError, BackfillError) as error:
                reason = " ".join(str(error).split("LINE 1:")[0].split())
                failures.append(f"the read `{' '.join(query.split())}` fails: {reason}")
    return failures


def failed_staged_reads(
    lake: Lake,
    contracts: Sequence[Contract],
    written: Contract,
    staged: Staged,
    days: Collection[date],
) -> list[str]:
    """The check of staged rows (`kernel.write.rebuild.StagedCheck`): the SELECTs of consumers that
    name the written table are tried as `failed_reads` does."""
    reads = written.consumer_queries
    return failed_reads(lake, contracts, reads, written, staged.paths, days) if reads else []


def rows_as_published(lake: Lake, contract: Contract) -> str:
    """SELECT of the rows of a table. For a table that a candidate builds, the candidate's days
    replace the lake's."""
    files = lake.store.data_files(contract) if lake.store.exists(contract.name) else []
    if (standing := lake.base_lake) is None or not lake.writes(contract.name):
        return rows_query(files, contract)
    built = lake.store.view(contract.name, contract.day_column).latest
    return _with_days(rows_as_published(standing, contract), contract, files, built)


def _with_days(rows: str, contract: Contract, files: Sequence[str], days: Collection[date]) -> str:
    """The rows, with these days taken from the files."""
    others = f"WHERE NOT ({on_days(contract.day_column, sorted(days))})" if days else ""
    return f"SELECT * FROM ({rows}) {others} UNION ALL BY NAME {rows_query(files, contract)}"
