"""Wider columns: the tables whose kept files have a narrower type than today's contracts, and a cast of these files.

Not here: the cast (`lake.widening`). A day whose code and settings are today's but for these types is current
afterwards; others stay `outdated`, such as those of a landed table, of which more rows may be usable now.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import date

from backfill_assets.core.contracts import Contract
from backfill_assets.core.days import ranges
from backfill_assets.core.engines import ENGINE
from backfill_assets.core.ownership import BY, whoami
from backfill_assets.core.receipts import Built, DayEntry, Receipt
from backfill_assets.core.states import States
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline, Table, pipeline_of
from backfill_assets.lake.too_late import too_late_contract
from backfill_assets.lake.view import read_view
from backfill_assets.lake.widening import Wider, widen, wider_columns
from backfill_assets.load.candidate import made_with
from backfill_assets.load.making import version_read
from backfill_assets.operations.maintain import laid_out_again

REASON = "widen"
AS_BUILT = (Built.COMPLETE, Built.INCOMPLETE)


@dataclass(frozen=True)
class Widening:
    """A table whose columns get wider types (`columns`: both types by name), with the days that are then as today's
    code makes them, and the version of its commit (None: not done)."""

    table: str
    columns: Mapping[str, str]
    current: tuple[date, ...]
    version: int | None = None

    def __str__(self) -> str:
        """The widening as one line."""
        columns = ", ".join(f"{name} {types}" for name, types in self.columns.items())
        done = f", by version {self.version}" if self.version is not None else ""
        return f"{self.table}: {columns}; up to date then: {ranges(self.current) or 'no day'}{done}"


def widen_tables(lake: Lake, pipeline: Pipeline, tables: Collection[str] = (), act: bool = False) -> list[Widening]:
    """Widen the columns of these tables (empty: all), one commit per table, upstream first; without `act` only find
    them. Stopped in between, done again, it goes on. Raises what `lake.widening.widen` raises."""
    wider = [(c, columns) for c in _contracts(lake, pipeline, tables) if (columns := wider_columns(lake, c))]
    narrow = _narrow(lake, pipeline, {c.name: columns for c, columns in wider})
    widenings = []
    for contract, columns in wider:
        states = pipeline.states(read_view(lake, pipeline.contracts))
        days = _as_today(contract.name, narrow, states)
        changes = {name: f"{before} -> {wanted}" for name, (before, wanted) in columns.items()}
        version = None
        if act:
            note = ", ".join(f"{name} {types}" for name, types in changes.items())
            receipt = _receipt(pipeline, contract, states, days, note)
            version = laid_out_again(lake, contract, lambda c=contract, r=receipt: widen(lake, c, r))  # type: ignore[misc]
        widenings.append(Widening(contract.name, changes, tuple(days), version))
    return widenings


def _contracts(lake: Lake, pipeline: Pipeline, tables: Collection[str]) -> list[Contract]:
    """The chosen tables that the lake writes, and the deliveries that came too late for a chosen landed one."""
    for name in tables:
        pipeline.contract(name, "Nothing was written")
    chosen = [c for c in pipeline.contracts if (not tables or c.name in tables) and lake.writes(c.name)]
    return [*chosen, *(too_late_contract(c) for c in chosen if c.is_landed)]


def _narrow(lake: Lake, pipeline: Pipeline, wider: Mapping[str, Wider]) -> Pipeline:
    """The pipeline with the types that the kept files have."""

    def before(table: Table) -> Table:
        found = wider.get(table.name, {})
        columns = (replace(c, type=str(found[c.name][0])) if c.name in found else c for c in table.contract.columns)
        return replace(table, contract=replace(table.contract, columns=tuple(columns)))

    return pipeline_of(lake, map(before, pipeline.tables))


def _as_today(name: str, narrow: Pipeline, states: States) -> dict[date, DayEntry]:
    """The days of a table that the narrower code made from today's inputs."""
    view = states.view.table(name)
    return {
        d: s.entry
        for d, s in sorted(view.stamps.items() if name in narrow.codes else ())
        if narrow.codes[name].are_of(s)
        and s.entry.built in AS_BUILT
        and not s.unlike
        and d not in view.foreign
        and states.digests.of(name, d) == s.entry.input_digest
    }


def _receipt(
    pipeline: Pipeline, contract: Contract, states: States, days: Mapping[date, DayEntry], note: str
) -> Receipt:
    """The receipt of days that are made current, or of none."""
    if not days:
        return Receipt("", contract.name, REASON, {}, note=note, tags={BY: whoami()})
    codes, view = pipeline.codes[contract.name], states.view
    engines = {view.table(contract.name).stamps[d].engine for d in days}
    engine = {ENGINE: engines.pop()} if len(engines) == 1 else {}
    return Receipt(
        "", contract.name, REASON, days, note=note, code_digest=codes.code_digest,
        settings_digest=codes.settings_digest, frontier=states.frontier(contract.name),
        inputs={i.table: version_read(view, i) for i in contract.inputs},
        tags={**engine, **made_with(contract, states), BY: whoami()},
    )  # fmt: skip
