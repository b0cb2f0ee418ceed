"""The parameters under which an input digest is taken: windows, cut and maturity.

Not here: taking digests (`core.digests`). Receipts carry the parameters, so that a day is judged by the windows it was
computed with: other settings make it outdated, never stale.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from backfill_assets.core.contracts import Basis, Contract, Input, reads
from backfill_assets.core.view import LakeView

PARAMETERS = "made with"  # the tag of a receipt that holds the text


@dataclass(frozen=True)
class Parameters:
    """The parts of a contract and of a lake's settings that reach an input digest. `start` is the lake's first day."""

    inputs: tuple[Input, ...]
    waits_for_cut: bool
    matures_after_days: int | None
    grace: timedelta
    start: date

    @property
    def is_landed(self) -> bool:
        """Whether the digest covers landed files, on which no parameter has an influence."""
        return reads(self.inputs, Basis.FILES)

    def to_json(self) -> str:
        """The text for a receipt's tag; empty where no parameter has an influence."""
        if self.is_landed:
            return ""
        return json.dumps(
            {
                "inputs": [_told(i) for i in self.inputs],
                "waits": self.waits_for_cut,
                "matures": self.matures_after_days,
                "grace_s": self.grace // timedelta(seconds=1),
                "start": str(self.start),
            },
            separators=(",", ":"),
        )


def parameters_of(contract: Contract, view: LakeView) -> Parameters:
    """Today's parameters of a table."""
    return Parameters(contract.inputs, contract.waits_for_cut, contract.matures_after_days, view.grace, view.start)


def parse_parameters(text: str) -> Parameters | None:
    """The parameters in a receipt's tag; None for an older receipt without them, and for text that cannot be read."""
    try:
        said = json.loads(text)
        return Parameters(
            tuple(_input(*told) for told in said["inputs"]),
            bool(said["waits"]),
            None if said["matures"] is None else int(said["matures"]),
            timedelta(seconds=int(said["grace_s"])),
            date.fromisoformat(said["start"]),
        )
    except (ValueError, TypeError, KeyError):
        return None


def _told(wanted: Input) -> list[object]:
    """An input as a list; one that reads every column has the form of older receipts, which named no columns."""
    return [wanted.table, wanted.before, wanted.after, wanted.basis, *([wanted.columns] if wanted.columns else [])]


def _input(table: str, before: int, after: int, basis: str, columns: Sequence[str] = ()) -> Input:
    return Input(str(table), int(before), int(after), Basis(basis), tuple(map(str, columns)) or None)
