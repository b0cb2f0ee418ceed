"""Reasons of quarantined rows, grouped and capped: what a person reads instead of hundreds of lines.

Lives here: grouping. Does not live here: the rules that give reasons (`load.deliveries`, the intake files of `lake`).
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from backfill_assets.core.texts import shortened

MOST_KINDS = 10
MOST_CHARS = 160
VARYING = re.compile(r"'[^']*'|\"[^\"]*\"|\d[\d.,:_-]*\d|\d")


class Kinds(NamedTuple):
    """The most frequent kinds of reasons as (text, rows); the kinds and rows that are left out."""

    shown: Sequence[tuple[str, int]]
    more_kinds: int
    more_rows: int


def kinds(reasons: Mapping[str, int], most: int = MOST_KINDS) -> Kinds:
    """Reasons that differ in numbers and quoted values only are one kind, written with `…` in their places.

    `reasons` are rows by reason. The most frequent kinds come first, of equally many rows in the order of their text.
    """
    grouped: dict[str, dict[str, int]] = defaultdict(dict)
    for reason, rows in reasons.items():
        grouped[VARYING.sub("…", reason)][reason] = rows
    told = [(_text_of(kind, found), sum(found.values())) for kind, found in grouped.items()]
    ordered = sorted(told, key=lambda item: (-item[1], item[0]))
    left = ordered[most:]
    return Kinds(ordered[:most], len(left), sum(rows for _, rows in left))


def _text_of(kind: str, found: Mapping[str, int]) -> str:
    text = next(iter(found)) if len(found) == 1 else kind
    return shortened(text, MOST_CHARS)
