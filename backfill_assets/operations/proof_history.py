"""The history of proofs: what came out when days were computed again, in one small file, `.reconciled/proofs.json`.

Not here: computing them again (`prove`). Imports no engine: `status` reads it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date

from backfill_assets.core.days import parse_day
from backfill_assets.lake.files import read_json, write_json
from backfill_assets.lake.folder import RECONCILED
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.operations.status import keep_attention

FILE = "proofs.json"
KEPT = 1000  # proofs, some 200 bytes each; two a day are more than a year
EQUAL, DIFFERS, PASSED_OVER, NOT_COMPUTED = "equal", "differs", "passed over", "not computed"


@dataclass(frozen=True)
class Proof:
    """One day of a table, as it was computed again at an instant: the outcome, and what differs or why there is none.

    `write_id`: the write that was proven; `seconds`: what it took (0.0: a person asked for it).
    """

    table: str
    day: str
    at: str
    outcome: str
    words: str = ""
    write_id: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        """The proof as one line."""
        more = f": {self.words}" if self.words else ""
        return f"{self.table} {self.day} {self.outcome} when computed again from the same inputs{more}"

    @property
    def alarm(self) -> str:
        """The proof as a line for a person."""
        return f"{self}. Once mended: `backfill-assets prove --from {self.day} --tables {self.table}`"


def proofs(lake: Lake) -> list[Proof]:
    """Return the proofs that are kept, oldest first; reads one small file."""
    return [Proof(**p) for p in read_json(lake.root / RECONCILED / FILE).get("proofs", ())]


def unproven(lake: Lake, pipeline: Pipeline) -> dict[str, list[Proof]]:
    """Return, by table, the newest proofs that failed, of days that were not written since."""
    newest = {(p.table, p.day): p for p in proofs(lake) if p.outcome != PASSED_OVER}
    found: dict[str, list[Proof]] = {}
    for (table, day), p in newest.items():
        if p.outcome != EQUAL and p.write_id == newest_writes(lake, pipeline, table).get(parse_day(day), ""):
            found.setdefault(table, []).append(p)
    return found


def newest_writes(lake: Lake, pipeline: Pipeline, table: str) -> Mapping[date, str]:
    """Return the id of the newest write of every day of a table; none for a table that the pipeline lacks."""
    contract = next((c for c in pipeline.contracts if c.name == table), None)
    return {d: s.write_id for d, s in lake.store.view(table, contract.day_column).stamps.items()} if contract else {}


def alarms(lake: Lake, pipeline: Pipeline) -> dict[str, str]:
    """Return the lines for a person about days that differ or cannot be computed, by name."""
    return {f"proof {p.table} {p.day}": p.alarm for of in unproven(lake, pipeline).values() for p in of}


def keep_proofs(lake: Lake, found: list[Proof]) -> None:
    """Add proofs to the history."""
    kept = [*proofs(lake), *found][-KEPT:]
    write_json(lake.root / RECONCILED / FILE, {"proofs": [asdict(p) for p in kept]})
    keep_attention(lake.root, "lake", "proof", {})  # where earlier versions kept the alarms
