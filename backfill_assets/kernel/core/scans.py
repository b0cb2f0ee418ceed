"""Reports of scans of the landing folder, and their sum over several sources.

Not here: scanning (`intake.scan`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

PATHS = ("altered", "missing", "lapsed")  # fields of a report: paths, and values by path
BY_PATH = ("new", "refused", "waiting", "unreadable", "contradicted", "vanished", "ahead")


@dataclass(frozen=True)
class ScanReport:
    """The outcome of one scan. Paths are below the folder that `[source] files` names."""

    new: dict[str, tuple[int, int]] = field(
        default_factory=dict
    )  # rows and bad rows per file read for the first time
    copies: dict[str, str] = field(default_factory=dict)  # path -> the path with the same content
    refused: dict[str, str] = field(default_factory=dict)  # path -> why it is never read
    waiting: dict[str, str] = field(default_factory=dict)  # path -> why it is read at a later scan
    # path -> why; one bad row in quarantine; also files that differ from their manifest
    unreadable: dict[str, str] = field(default_factory=dict)
    # path -> why; recorded files that differ from a later manifest; their days are blocked
    contradicted: dict[str, str] = field(default_factory=dict)
    altered: tuple[str, ...] = ()  # recorded files with other bytes
    missing: tuple[str, ...] = ()  # recorded files that are gone
    blocked: frozenset[date] = frozenset()  # days that are not rebuilt until `landing accept`
    # Path -> days of a table's content whose rows vacuum took: they stay as loaded, and cannot be
    # loaded again.
    vanished: dict[str, frozenset[date]] = field(default_factory=dict)
    ahead: dict[str, str] = field(
        default_factory=dict
    )  # path -> why its commit counts as of the look that found it
    lapsed: tuple[str, ...] = ()  # changed or vanished files that no day was computed from
    known: int = 0  # number of files in the ledger before
    example: str = ""  # why one of the rows that this scan counted is unusable

    @property
    def is_clean(self) -> bool:
        """Whether nothing needs a person: no file altered, missing, refused, unreadable or
        contradicted."""
        found = (self.altered, self.missing, self.refused, self.unreadable, self.contradicted)
        return not any(found)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "new": {k: {"rows": r, "bad_rows": b} for k, (r, b) in self.new.items()},
            "copies": self.copies,
            "refused": self.refused,
            "waiting": self.waiting,
            "unreadable": self.unreadable,
            "contradicted": self.contradicted,
            "ahead": self.ahead,
            "altered": list(self.altered),
            "missing": list(self.missing),
            "vanished": list(self.vanished),
            "let_go": list(self.lapsed),
            "blocked_days": sorted(map(str, self.blocked)),
            "known": self.known,
            "example": self.example,
        }


def path_with_source(path: str, source: str) -> str:
    """A landed path for people: after the name of its source, if sources have names."""
    if source:
        return f"{source}:{path}"
    return path


def joined_reports(reports: Mapping[str, ScanReport]) -> ScanReport:
    """The scans of a lake's sources, by name, as one report; each path after the name of its
    source."""
    fields: dict[str, Any] = {name: {} for name in BY_PATH}
    fields |= dict.fromkeys(PATHS, ())
    copies, blocked, known, example = dict[str, str](), frozenset[date](), 0, ""
    for source, report in reports.items():
        for name in BY_PATH:
            for path, value in getattr(report, name).items():
                fields[name][path_with_source(path, source)] = value
        for name in PATHS:
            fields[name] += tuple(path_with_source(path, source) for path in getattr(report, name))
        for path, original in report.copies.items():
            copies[path_with_source(path, source)] = path_with_source(original, source)
        blocked |= report.blocked
        known += report.known
        if report.example and not example:
            example = path_with_source(report.example, source)
    return ScanReport(**fields, copies=copies, blocked=blocked, known=known, example=example)
