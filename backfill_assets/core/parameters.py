"""The parts of a contract and of a lake's settings that reach an input digest, and their text in a receipt.

Not here: the digests (`digests`).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

from backfill_assets.core.contracts import Contract, Input, InputKind, reads
from backfill_assets.core.view import LakeView

PARAMETERS = "made with"  # the tag of a receipt that holds the parameters as text


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
        return reads(self.inputs, InputKind.FILES)

    def to_json(self) -> str:
        """The text for a receipt's tag; empty where no parameter has an influence."""
        if self.is_landed:
            return ""
        return json.dumps(
            {
                "inputs": [_input_values(i) for i in self.inputs],
                "waits": self.waits_for_cut,
                "matures": self.matures_after_days,
                "grace_s": self.grace // timedelta(seconds=1),
                "start": str(self.start),
            },
            separators=(",", ":"),
        )


def parameters_of(contract: Contract, view: LakeView) -> Parameters:
    """Today's parameters of a table."""
    # An asset of a project names the first day of each input; the lake's may be lowered for another asset.
    start = date.min if contract.made_by else view.start
    return Parameters(contract.inputs, contract.waits_for_cut, contract.matures_after_days, view.grace, start)


def parse_parameters(text: str) -> Parameters | None:
    """The parameters in a receipt's tag; None for an older receipt without them, and for text that cannot be read."""
    try:
        values = json.loads(text)
        return Parameters(
            tuple(_parse_input(*fields) for fields in values["inputs"]),
            bool(values["waits"]),
            None if values["matures"] is None else int(values["matures"]),
            timedelta(seconds=int(values["grace_s"])),
            date.fromisoformat(values["start"]),
        )
    except (ValueError, TypeError, KeyError):
        return None


def _input_values(wanted: Input) -> list[object]:
    """An input as a list; one that reads every column has the form of older receipts, which named no columns."""
    values = [wanted.table, wanted.before, wanted.after, wanted.kind]
    if wanted.first_day is not None:
        return [*values, wanted.columns or [], str(wanted.first_day)]
    return [*values, *([wanted.columns] if wanted.columns else [])]


def _parse_input(
    table: str, before: int, after: int, kind: str, columns: Sequence[str] = (), first_day: str = ""
) -> Input:
    named, first = tuple(map(str, columns)) or None, date.fromisoformat(first_day) if first_day else None
    return Input(str(table), int(before), int(after), InputKind(kind), named, first_day=first)


def whole_of(parameters: Parameters) -> Parameters:
    """The parameters, as if every input were read with all of its columns."""
    return replace(parameters, inputs=tuple(replace(i, columns=None) for i in parameters.inputs))
