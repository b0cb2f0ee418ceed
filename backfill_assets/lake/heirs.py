"""Landed contents that erasures rewrote: what became of each, and where its records stood before.

Not here: the record of erasures (`forgotten`) and the rewriting (`load.forget`).
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from backfill_assets.lake.folder import LakeFolder
from backfill_assets.lake.forgotten import erasures


def with_heirs(lake: LakeFolder, contents: Iterable[str]) -> frozenset[str]:
    """These landed contents (SHA-256), and what erasures made of them."""
    found = set(contents)
    for erasure in erasures(lake):
        found.update(f["after"] for f in erasure.done["landed"] if f["before"] in found and "after" in f)
    return frozenset(found)


def origins(lake: LakeFolder) -> dict[str, tuple[str, tuple[int, ...]]]:
    """By content that erasures left: the content as it landed, and the numbers of the records (from 1, ascending) that
    it lost: the other records keep their order among the records of all files."""
    steps = defaultdict[str, list[dict[str, Any]]](list)
    for entry in (f for e in erasures(lake) for f in e.done["landed"] if "after" in f and "gone" in f):
        steps[entry["after"]].append(entry)

    def origin(content: str, behind: frozenset[str]) -> tuple[str, tuple[int, ...]]:
        """Of files that became the same one, the file that came last in order counts."""
        found = [(content, tuple[int, ...]())]
        for entry in (e for e in steps[content] if e["before"] not in behind) if content in steps else ():
            first, lost = origin(entry["before"], behind | {content})
            found.append((first, tuple(sorted({*lost, *(before(n, lost) for n in entry["gone"])}))))
        return max(found[1:] or found)

    return {content: origin(content, frozenset()) for content in [*steps]}


def before(number: int, lost: Iterable[int]) -> int:
    """The number that a record had before records of the numbers `lost` (ascending) went."""
    for gone in lost:
        number += gone <= number
    return number
