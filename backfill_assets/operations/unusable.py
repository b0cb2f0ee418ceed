"""Unusable rows: rows in quarantine and files refused as wholes, counted, in one line, and their reasons by kind.

Not here: the account of all rows (`account`) and the rules that give reasons (`load.deliveries`). No JVM.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

from backfill_assets.core.ledgers import named
from backfill_assets.core.scans import shown
from backfill_assets.core.texts import plain, shortened
from backfill_assets.lake.home import Lake
from backfill_assets.lake.ledger import FILES, QUARANTINE, read_files
from backfill_assets.operations.aside import newest_reasons

REASON_CHARS = 120
MOST_KINDS = 10
MOST_CHARS = 160
VARYING = re.compile(r"'[^']*'|\"[^\"]*\"|\d[\d.,:_-]*\d|\d")


@dataclass(frozen=True)
class Unusable:
    """Unusable rows, of which `files` stand for a whole file each; one `reason`, and the queries that show all."""

    rows: int = 0
    files: int = 0
    reason: str = ""
    queries: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return one line; empty without unusable rows."""
        if not self.rows:
            return ""
        whole = f", {self.files} of them a whole file each" if self.files else ""
        first = f", for example: {shortened(self.reason, REASON_CHARS)}" if self.reason else ""
        commands = " and ".join(f'`backfill-assets sql "{query}"`' for query in self.queries)
        return f"quarantine: {self.rows:,} landed row(s) are unusable{whole}{first}; {commands} shows them"

    def to_dict(self) -> dict[str, Any]:
        """Return the counts and the reason as JSON values."""
        return {"rows": self.rows, "files": self.files, "reason": self.reason or None}


def unusable(lake: Lake, days: Collection[date] | None = None, *, read_rows: bool = True) -> Unusable:
    """Count the unusable rows of all sources on these arrival days (None: all), loaded or not.

    Without `read_rows` no data file is read, and the reason is that of a whole file only.
    """
    found = [one for each in lake.by_source() if (one := _of_source(each, days, read_rows)).rows]
    return Unusable(
        sum(one.rows for one in found),
        sum(one.files for one in found),
        next((one.reason for one in found if one.reason), ""),
        tuple(query for one in found for query in one.queries),
    )


def _of_source(lake: Lake, days: Collection[date] | None, read_rows: bool) -> Unusable:
    ledger = named(QUARANTINE.name, lake.source)
    view = lake.store.view(ledger, QUARANTINE.day_column)
    kept = {d: s.entry.rows for d, s in view.stamps.items() if s.entry.rows and (days is None or d in days)}
    contents = {r.sha256: r for r in read_files(lake.store, lake.source) if not r.withdrawn}
    counted: dict[date, int] = {}
    refused = {}
    for record in contents.values():
        for day, (_, bad, _) in record.days.items():
            if bad and (days is None or day in days):
                counted[day] = counted.get(day, 0) + bad
                if record.refused is not None:
                    refused[record.path] = record.refused
    # A day that is not loaded is known by its files only, one that is by its load, which also finds repeated numbers.
    rows = sum(max(kept.get(day, 0), counted.get(day, 0)) for day in {*kept, *counted})
    reason = next((f"{plain(shown(path, lake.source))}: {plain(why)}" for path, why in sorted(refused.items())), "")
    if not reason and kept and read_rows:
        reason = next((plain(r.text) for r in newest_reasons(lake, (ledger, view.version), kept)), "")
    told = ledger if view.version >= 0 else f"{named(FILES.name, lake.source)} WHERE bad_rows > 0"
    return Unusable(rows, len(refused), reason, (f"SELECT * FROM {told}",))


class Kinds(NamedTuple):
    """The most frequent kinds of reasons as (text, rows), and the number of kinds and rows beyond these."""

    shown: Sequence[tuple[str, int]]
    more_kinds: int
    more_rows: int


def kinds(reasons: Mapping[str, int], most: int = MOST_KINDS) -> Kinds:
    """Group reasons (reason: rows) that differ only in numbers and quoted values; `…` stands in their places.

    The `most` frequent kinds come first, kinds with equally many rows by their text.
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
