"""The parameters that an input digest is taken under: windows, cut and maturity as a day was made with.

Lives here: their values and their text, which receipts carry, so that a day is judged by the windows it was made with:
other settings alone make it outdated, never stale. Does not live here: taking digests (`core.digests`).
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
    """What of a contract and a lake's settings reaches an input digest. `start` is the lake's first day."""

    inputs: tuple[Input, ...]
    waits_for_cut: bool
    matures_after_days: int | None
    grace: timedelta
    start: date

    @property
    def is_landed(self) -> bool:
        """Whether the digest is one of landed files, on which none of these has any influence."""
        return reads(self.inputs, Basis.FILES)

    def to_json(self) -> str:
        """The text for a receipt's tag; empty where no parameter has any influence."""
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
    """The parameters of a receipt's tag; None where it has none (an older receipt) or they are not understood."""
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
    """An input as a list; one that reads every column as receipts told it before they could say which."""
    return [wanted.table, wanted.before, wanted.after, wanted.basis, *([wanted.columns] if wanted.columns else [])]


def _input(table: str, before: int, after: int, basis: str, columns: Sequence[str] = ()) -> Input:
    return Input(str(table), int(before), int(after), Basis(basis), tuple(map(str, columns)) or None)
