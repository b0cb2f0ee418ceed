"""Landed contents that erasures rewrote: what became of each, and where its records stood before.

Not here: the record of erasures (`forgotten`) and the rewriting (`erasure.landed_files`).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from backfill_assets.intake.content_store import content_name_by_path
from backfill_assets.intake.forgotten import all_erasures
from backfill_assets.kernel.tables.folder import LakeFolder

# A content as it landed, and the numbers (from 1, ascending) of lost records.
Place = tuple[str, tuple[int, ...]]
# SHA-256 of the rewritten file, whatever names its content.
BYTES_BEFORE = "bytes_before"
BYTES_AFTER = "bytes_after"


def with_heirs(lake: LakeFolder, contents: Iterable[str]) -> frozenset[str]:
    """These landed contents (SHA-256) and the contents that erasures made of them, each by all its
    names."""
    found = set(contents)
    for entry in _landed_entries(lake):
        if found & {*_content_names(entry, BYTES_BEFORE)}:
            found.update(_content_names(entry, BYTES_AFTER))
    return frozenset(found)


def _landed_entries(lake: LakeFolder) -> Iterator[dict[str, Any]]:
    """The entries of all erasures for landed files, the oldest first."""
    for erasure in all_erasures(lake):
        yield from (entry for entry in erasure.done["landed"] if BYTES_AFTER in entry)


def _content_names(entry: Mapping[str, Any], which: str) -> list[str]:
    """The names of a file's content before or after it was rewritten."""
    return [entry[which], content_name_by_path(entry[which], entry["path"])]


@dataclass(frozen=True)
class Origins:
    """The entries of all erasures for landed files, by every name of the content that they left;
    and the SHA-256 of the bytes of these contents."""

    entries: Mapping[str, Collection[dict[str, Any]]]
    left: Collection[str]

    def of(self, name: str, others: Iterable[str] = (), path: str = "") -> Place | None:
        """Where the records of a content stood as it landed: they keep their order among the
        records of all files, and their default `seq`. None for a content that no erasure left.

        The content as it landed is named as this one is: by its bytes, or by these and the path.
        `others`: other names of the content. `path`: of its file, if `select` uses it.
        """
        moved = list[str]()
        if path and name not in self.entries:
            moved = [
                content for content in self.left if content_name_by_path(content, path) == name
            ]
        place = self._earliest_place(name, {name, *others, *moved}, path, frozenset())
        return None if place == (name, ()) else place

    def _earliest_place(
        self, name: str, names: Collection[str], path: str, behind: frozenset[str]
    ) -> Place:
        """Where the records of a content stood before the first erasure that led to it; of several
        files that erasures made equal, the file that comes last in order counts.

        `names`: all names of the content; `path`: as `of` has it; `behind`: names on the way here,
        which are not entered again.
        """
        steps = {(was, gone): known for was, known, gone in self._erasure_steps(name, names, path)}
        found = []
        for (was, gone), known in steps.items():
            if was not in behind:
                first, lost = self._earliest_place(was, known, path, behind | {name})
                gone_as_landed = {number_before(number, lost) for number in gone}
                found.append((first, tuple(sorted({*lost, *gone_as_landed}))))
        return max(found, default=(name, ()))

    def _erasure_steps(
        self, name: str, names: Collection[str], path: str
    ) -> Iterator[tuple[str, set[str], tuple[int, ...]]]:
        """The content before each erasure: its name, all its names, and the numbers of the erased
        records."""
        for left in names:
            for entry in self.entries.get(left, ()):
                content = entry[BYTES_BEFORE]
                by_path = content_name_by_path(content, path or entry["path"])
                was = content if name == entry[BYTES_AFTER] else by_path
                yield was, {by_path, *_content_names(entry, BYTES_BEFORE)}, tuple(entry["gone"])


def erased_origins(lake: LakeFolder) -> Origins:
    """Where the records of files that erasures rewrote stood before. Raises as `erasures` does."""
    entries, left = defaultdict[str, list[dict[str, Any]]](list), set[str]()
    for entry in _landed_entries(lake):
        left.add(entry[BYTES_AFTER])
        for name in _content_names(entry, BYTES_AFTER):
            entries[name].append(entry)
    return Origins(entries, left)


def number_before(number: int, lost: Iterable[int]) -> int:
    """The number that a record had before records of the numbers `lost` (ascending) went."""
    for gone in lost:
        number += gone <= number
    return number
