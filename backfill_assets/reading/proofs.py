"""Proofs: what the last computations of days again found, in a small file of the lake.

Not here: proving (`prove`). Imports no engine: `status` reads it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.kernel.core.days import parse_day
from backfill_assets.kernel.core.records import json_of, record_of
from backfill_assets.kernel.tables.folder import RECONCILED
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Pipeline

if TYPE_CHECKING:
    from backfill_assets.reading.system_tables import CheckedDay, LakeLook

PROOFS = "proofs.json"


MOST_KEPT_PROOFS = 1000  # proofs, some 200 bytes each; two a day are more than a year


EQUAL, DIFFERS, PASSED_OVER, NOT_COMPUTED = "equal", "differs", "passed over", "not computed"


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


def recorded_proofs(lake: Lake) -> list[Proof]:
    """Return the proofs that are kept, oldest first; reads one small file."""
    return lake.place.read_record(
        f"{RECONCILED}/{PROOFS}",
        lambda body: [record_of(Proof, p) for p in body.get("proofs", ())],
        "Delete it: the next `backfill-assets prove` begins anew",
    )


def failed_proofs(lake: Lake, pipeline: Pipeline) -> dict[str, list[Proof]]:
    """Return, by table, the newest proofs that failed, of days that were not written since."""
    newest = {(p.table, p.day): p for p in recorded_proofs(lake) if p.outcome != PASSED_OVER}
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
        f"proof {p.table} {p.day}": p.alarm
        for of in failed_proofs(lake, pipeline).values()
        for p in of
    }


def proof_lines(lake: Lake, pipeline: Pipeline) -> Iterable[str]:
    """Return a line for a person per day that differs or cannot be computed."""
    return proof_alarms(lake, pipeline).values()


def keep_proofs(lake: Lake, found: list[Proof]) -> None:
    """Add proofs to the history."""
    kept = [*recorded_proofs(lake), *found][-MOST_KEPT_PROOFS:]
    lake.place.write_json(f"{RECONCILED}/{PROOFS}", {"proofs": json_of(kept)})


def checked_proofs(look: "LakeLook") -> Iterator["CheckedDay"]:
    """Yield the rows of `system.checks` of the newest proofs: those that are equal, and those that
    failed and still stand."""
    from backfill_assets.reading.system_tables import CheckedDay

    newest = {(p.table, p.day): p for p in recorded_proofs(look.lake) if p.outcome != PASSED_OVER}
    failed = {
        (p.table, p.day)
        for found in failed_proofs(look.lake, look.pipeline).values()
        for p in found
    }
    for key, proof in newest.items():
        if proof.outcome == EQUAL or key in failed:
            outcome = "fail" if key in failed else "pass"
            yield CheckedDay(
                table=proof.table,
                check="proof",
                day=parse_day(proof.day),
                outcome=outcome,
                what=str(proof),
            )
