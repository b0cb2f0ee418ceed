"""The pipeline of a lake: its tables, with what lake.toml and a candidate change about them.

Not here: which tables these are (`pipeline.chosen`), and a pipeline of any tables
(`kernel.write.model`).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.kernel.write.model import Pipeline, Table, make_pipeline, spark_sql_settings


def pipeline_of(lake: Lake, tables: Iterable[Table]) -> Pipeline:
    """The pipeline of a lake. Raises SettingsError for a setting that names an unknown table."""
    pipeline = make_pipeline(tables, spark_sql_settings(lake))
    if reads := lake.settings.gates.reads:
        with_reads = tuple(_with_reads(table, reads) for table in pipeline.tables)
        pipeline = replace(pipeline, tables=with_reads)
    _refuse_unknown_gates(lake, pipeline)
    return pipeline if lake.shared is None else _without_followers(pipeline, lake.own)


def _with_reads(table: Table, reads: Iterable[str]) -> Table:
    """The table with the SELECTs that name it. A name in a text or a comment only makes one more
    SELECT be tried."""
    named = tuple(q for q in reads if re.search(rf"\b{table.name}\b", q, re.IGNORECASE))
    if not named:
        return table
    return replace(table, contract=replace(table.contract, consumer_queries=named))


def _refuse_unknown_gates(lake: Lake, pipeline: Pipeline) -> None:
    """Raise SettingsError where `[gates.tables]` names what the pipeline does not have."""
    gates = lake.settings.gates.tables
    contracts = {c.name: c for c in pipeline.contracts}
    _refuse_unknown_names(lake, "[gates.tables]", gates, [*contracts], "the lake has no such table")
    keyed = [c.name for c in pipeline.contracts if c.read_by]
    for name, bounds in gates.items():
        _refuse_unknown_names(
            lake,
            f"[gates.tables.{name}.columns]",
            bounds.columns,
            contracts[name].column_names,
            "the table has no such column",
        )
        if bounds.max_key_share is not None:
            why = "no table groups or joins it by a key (`by` of an input)"
            _refuse_unknown_names(lake, "[gates.tables] max_key_share", [name], keyed, why)


def _refuse_unknown_names(
    lake: Lake, key: str, named: Iterable[str], known: Sequence[str], why: str
) -> None:
    """Raise SettingsError, with `why`, where the section `key` of lake.toml has names that are none
    of the `known` ones."""
    if strangers := sorted(set(named) - set(known)):
        raise SettingsError(
            lake.place.uri(FILE_NAME),
            f"{key} names {', '.join(strangers)}, and {why}",
            "Nothing was done",
            f"Name one of {', '.join(known)}" if known else "Take it out",
        )


def _without_followers(pipeline: Pipeline, own: frozenset[str]) -> Pipeline:
    """Pipeline of a candidate: without the lake's tables that read the candidate's own tables,
    `own`."""
    made_from_own, followers = set(own), list[Contract]()
    for contract in pipeline.contracts:
        reads_own = any(wanted.table in made_from_own for wanted in contract.inputs)
        if reads_own and contract.name not in own:
            made_from_own.add(contract.name)
            followers.append(contract)
    left_out = made_from_own - own
    tables = tuple(t for t in pipeline.tables if t.name not in left_out)
    return replace(pipeline, tables=tables, followers=tuple(followers))
