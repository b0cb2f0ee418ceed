"""Reports of scans of the landing folder, and their sum over several sources.

Not here: scanning (`load.scan`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, TypeVar

FIRST_SCAN_SLACK_DAYS = 1  # clocks of senders may run ahead of ours by a day, not more

K = TypeVar("K", date, tuple[date, date])


@dataclass(frozen=True)
class ScanReport:
    """The outcome of one scan. Paths are below the folder that `[source] files` names.

    `new`: rows and bad rows per file read for the first time; `copies`: path -> the path with the same content;
    `refused` and `waiting`: path -> reason (never read; read at the next scan); `altered` and `missing` stop rebuilds
    of the `blocked` days until `landing accept`; `let_go`: changed or vanished files that no day was computed from;
    `unreadable`: path -> reason (one bad row in quarantine). `known`: the number of files in the ledger before.
    """

    new: dict[str, tuple[int, int]] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    altered: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    blocked: frozenset[date] = frozenset()
    let_go: tuple[str, ...] = ()
    known: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether nothing needs a person: no file altered, missing, refused or unreadable."""
        return not (self.altered or self.missing or self.refused or self.unreadable)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "new": {k: {"rows": r, "bad_rows": b} for k, (r, b) in self.new.items()},
            "copies": self.copies, "refused": self.refused, "waiting": self.waiting, "unreadable": self.unreadable,
            "altered": list(self.altered), "missing": list(self.missing), "let_go": list(self.let_go),
            "blocked_days": sorted(map(str, self.blocked)), "known": self.known,
        }  # fmt: skip


def summed(found: Iterable[Mapping[K, int]]) -> dict[K, int]:
    """Add up counts of several sources by key; keys ascending."""
    counted: dict[K, int] = {}
    for each in found:
        for key, rows in each.items():
            counted[key] = counted.get(key, 0) + rows
    return dict(sorted(counted.items()))


def shown(path: str, source: str) -> str:
    """A landed path for people: after the name of its source, if sources have names."""
    return f"{source}:{path}" if source else path


def together(reports: Mapping[str, ScanReport]) -> ScanReport:
    """The scans of a lake's sources, by name, as one report; each path after the name of its source."""
    found = [(name, r) for name, r in reports.items()]

    def paths(told: Iterable[tuple[str, Iterable[str]]]) -> tuple[str, ...]:
        """The paths of all sources, each after the name of its source."""
        return tuple(shown(path, name) for name, each in told for path in each)

    return ScanReport(
        new={shown(p, n): rows for n, r in found for p, rows in r.new.items()},
        copies={shown(p, n): shown(of, n) for n, r in found for p, of in r.copies.items()},
        refused={shown(p, n): why for n, r in found for p, why in r.refused.items()},
        waiting={shown(p, n): why for n, r in found for p, why in r.waiting.items()},
        unreadable={shown(p, n): why for n, r in found for p, why in r.unreadable.items()},
        altered=paths((n, r.altered) for n, r in found),
        missing=paths((n, r.missing) for n, r in found),
        let_go=paths((n, r.let_go) for n, r in found),
        blocked=frozenset(day for _, r in found for day in r.blocked),
        known=sum(r.known for _, r in found),
    )
