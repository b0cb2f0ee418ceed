"""Standing checks: what the last run of each left for a person, in small files of the lake: proofs,
controls, sensors.

Not here: proving (`prove`), judging (`reconcile`), sensors (`dagster.adapter`), and what receipts
answer: stale days (`status`) and gates (`check_history`). Imports no engine: `status` reads it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from pathlib import Path

from backfill_assets.kernel.core.days import parse_day
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.place.port import LOCKS, read_json, write_json
from backfill_assets.kernel.tables.folder import RECONCILED
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.sections import ControlSettings
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.queries import QUERY, named_tables

PROOFS, OUTCOMES = "proofs.json", "controls.json"
KEPT = 1000  # proofs, some 200 bytes each; two a day are more than a year
EQUAL, DIFFERS, PASSED_OVER, NOT_COMPUTED = "equal", "differs", "passed over", "not computed"
SECOND = timedelta(seconds=1)  # outcomes are dated to the second
FOLDER = ".attention"
BEFORE = (
    "engines ",
    "lake ",
)  # files of earlier versions: receipts, proofs and outcomes say it since


@dataclass(frozen=True)
class Proof:
    """One day of a table, computed again."""

    table: str
    day: str
    at: str  # an instant
    outcome: str
    words: str = ""  # what differs, or why there is no outcome
    write_id: str = ""  # the write that was proven
    seconds: float = 0.0  # of the computation; 0.0: a person asked for it

    def __str__(self) -> str:
        """The proof as one line."""
        more = f": {self.words}" if self.words else ""
        return (
            f"{self.table} {self.day} {self.outcome} when computed again from the same inputs{more}"
        )

    @property
    def alarm(self) -> str:
        """The proof as a line for a person."""
        return (
            f"{self}. Once mended: `backfill-assets prove --from {self.day} --tables {self.table}`"
        )


def proofs(lake: Lake) -> list[Proof]:
    """Return the proofs that are kept, oldest first; reads one small file."""
    return [Proof(**p) for p in read_json(lake.place, f"{RECONCILED}/{PROOFS}").get("proofs", ())]


def unproven(lake: Lake, pipeline: Pipeline) -> dict[str, list[Proof]]:
    """Return, by table, the newest proofs that failed, of days that were not written since."""
    newest = {(p.table, p.day): p for p in proofs(lake) if p.outcome != PASSED_OVER}
    found: dict[str, list[Proof]] = {}
    for (table, day), p in newest.items():
        if p.outcome != EQUAL and p.write_id == newest_writes(lake, pipeline, table).get(
            parse_day(day), ""
        ):
            found.setdefault(table, []).append(p)
    return found


def newest_writes(lake: Lake, pipeline: Pipeline, table: str) -> Mapping[date, str]:
    """Return the id of the newest write of every day of a table; none for a table that the pipeline
    lacks."""
    contract = next((c for c in pipeline.contracts if c.name == table), None)
    return (
        {d: r.write_id for d, r in lake.store.view(table, contract.day_column).latest.items()}
        if contract
        else {}
    )


def proof_alarms(lake: Lake, pipeline: Pipeline) -> dict[str, str]:
    """Return the lines for a person about days that differ or cannot be computed, by name."""
    return {
        f"proof {p.table} {p.day}": p.alarm for of in unproven(lake, pipeline).values() for p in of
    }


def keep_proofs(lake: Lake, found: list[Proof]) -> None:
    """Add proofs to the history."""
    kept = [*proofs(lake), *found][-KEPT:]
    write_json(lake.place, f"{RECONCILED}/{PROOFS}", {"proofs": [asdict(p) for p in kept]})


@dataclass(frozen=True)
class ControlOutcome:
    """The outcome of a control."""

    name: str
    holds: bool
    broken: int = 0  # number of values that differ; all expected ones where the query has none
    words: str = ""  # the first of them
    error: str = ""  # why it could not be judged; "": it was
    at: str = ""

    def __str__(self) -> str:
        """The outcome as one line."""
        return f"control {self.name}: {self.message}"

    @property
    def message(self) -> str:
        """The outcome without the control's name."""
        if self.error:
            return f"could not be judged: {self.error}"
        return "holds" if self.holds else f"{self.broken} value(s) differ: {self.words}"


def last_outcomes(lake: Lake) -> list[ControlOutcome]:
    """Return the newest outcome of every control that was judged and is still declared; reads one
    small file."""
    outcomes = (
        ControlOutcome(**o) for o in read_json(lake.place, f"{RECONCILED}/{OUTCOMES}").values()
    )
    return [outcome for outcome in outcomes if outcome.name in lake.settings.controls]


def keep_outcomes(lake: Lake, outcomes: Iterable[ControlOutcome]) -> None:
    """Keep the newest outcome of each control."""
    with lake.place.lock(
        f"{LOCKS}/{OUTCOMES}", "the outcomes of controls"
    ):  # another process may judge others
        newest = {o.name: o for o in (*last_outcomes(lake), *outcomes)}
        write_json(
            lake.place, f"{RECONCILED}/{OUTCOMES}", {name: asdict(o) for name, o in newest.items()}
        )


def broken_controls(lake: Lake, pipeline: Pipeline) -> Iterator[str]:
    """Yield a line per control that did not hold when it was last judged: when that was, and
    whether a table that it reads was written since."""
    for outcome in (o for o in last_outcomes(lake) if not o.holds):
        at, read = (
            datetime.fromisoformat(outcome.at),
            tables_read(lake.settings.controls[outcome.name]),
        )
        tables = [c.name for c in pipeline.contracts if read is None or c.name in read]
        newer = ", ".join(t for t in tables if _last_write(lake, t, at) >= at + SECOND)
        since = (
            f", before the last write of {newer}: `backfill-assets controls` judges again"
            if newer
            else ""
        )
        yield f"{outcome}; judged {at:%Y-%m-%d %H:%M} UTC{since}"


def _last_write(lake: Lake, table: str, since: datetime) -> datetime:
    """The time of the newest commit that wrote days or is another program's; `since` without
    any."""
    writes = (c.at for c in lake.store.newest_commits(table) if c.receipt is None or c.receipt.days)
    return next(writes, since)


def tables_read(control: ControlSettings) -> frozenset[str] | None:
    """Return the names of tables in a control's two sides; None where they cannot be parsed."""
    query, expected = named_tables(control.query), control.expected
    side = (
        named_tables(expected.removeprefix(QUERY))
        if expected.startswith(QUERY)
        else {expected.partition("@")[0]}
    )
    return None if query is None or side is None else query | side


def keep_attention(root: Path, instance: str, sensor: str, alarms: Mapping[str, str]) -> None:
    """Keep the alarms (name: text) of a sensor in the lake at `root`; without alarms, remove its
    file."""
    lake, name = place_at(root), f"{FOLDER}/{instance} {sensor}.json"
    if not alarms:
        lake.delete(name)
    elif read_json(lake, name) != alarms:
        write_json(lake, name, alarms)


def attention(root: Path) -> list[str]:
    """Return the alarms that sensors keep in the lake at `root`, a line each."""
    lake = place_at(root)
    names = (n for n in lake.names(FOLDER) if n.endswith(".json") and not n.startswith(BEFORE))
    found = [read_json(lake, f"{FOLDER}/{name}") for name in sorted(names)]
    return sorted({*(line for alarms in found for line in map(str, alarms.values()))})


def left_for_a_person(lake: Lake, pipeline: Pipeline) -> Iterator[str]:
    """Yield a line per alarm of a sensor, day that no proof could confirm, and broken control."""
    yield from attention(lake.root)
    yield from proof_alarms(lake, pipeline).values()
    yield from broken_controls(lake, pipeline)
