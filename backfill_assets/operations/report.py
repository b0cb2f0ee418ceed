"""The report of a whole lake: states of all days, what landed and what became of it, lateness, durations, writes.

Lives here: gathering. Does not live here: each part (`status`, `lateness`, `writes`), what Dagster knows of runs and
checks (`orchestration.history`), and the page (`cli.report_page`). No JVM, no Dagster.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from backfill_assets.core.days import midnight
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.states import State, States
from backfill_assets.lake.home import Lake
from backfill_assets.lake.ledger import FILES, QUARANTINE, FileRecord, read_arrow, read_files
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.too_late import TOO_LATE
from backfill_assets.lake.view import read_view
from backfill_assets.operations.lateness import Asked, LatenessReport, lateness
from backfill_assets.operations.status import StatusReport, status
from backfill_assets.operations.writes import Durations, Written, durations, writes

PER = 1000


@dataclass(frozen=True)
class Delivered:
    """What landed, and what became of its rows on loaded arrival days: in raw, in quarantine by reason (the most
    frequent first), kept back as too late, and duplicates: what is in none of these. `waiting` are the rows of days
    that are not loaded, or not as they landed."""

    files: int
    rows: int
    waiting: int
    raw: int
    quarantine: Mapping[str, int]
    too_late: int

    @property
    def quarantined(self) -> int:
        """Rows in quarantine."""
        return sum(self.quarantine.values())

    @property
    def duplicates(self) -> int:
        """Loaded rows that repeat others: rows = raw + quarantine + too late + duplicates."""
        return self.rows - self.waiting - self.raw - self.quarantined - self.too_late

    @property
    def duplicates_per_1000(self) -> float | None:
        """Duplicates per 1,000 loaded rows; None where nothing is loaded."""
        loaded = self.rows - self.waiting
        return PER * self.duplicates / loaded if loaded else None

    def to_dict(self) -> dict[str, Any]:
        """The account as JSON values."""
        return {
            "files": self.files, "rows": self.rows, "waiting": self.waiting, "raw": self.raw,
            "quarantine": dict(self.quarantine), "too_late": self.too_late, "duplicates": self.duplicates,
            "duplicates_per_1000": self.duplicates_per_1000,
        }  # fmt: skip


@dataclass(frozen=True)
class LakeReport:
    """A lake at one instant (`made_at`, the clock). `lateness` is None where nothing is loaded."""

    made_at: datetime
    status: StatusReport
    delivered: Delivered
    lateness: LatenessReport | None
    durations: tuple[Durations, ...]
    writes: tuple[Written, ...]

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "made_at": self.made_at.isoformat(),
            "status": self.status.to_dict(),
            "delivered": self.delivered.to_dict(),
            "lateness": self.lateness.to_dict() if self.lateness else None,
            "durations": [d.to_dict() for d in self.durations],
            "writes": [w.to_dict() for w in self.writes],
        }


def report(lake: Lake, pipeline: Pipeline, now: datetime) -> LakeReport:
    """The report of the lake; `now` is the clock (aware)."""
    written = writes(lake, pipeline)
    return LakeReport(
        now,
        status(lake, pipeline),
        delivered(lake, pipeline.states(read_view(lake, pipeline.contracts))),
        _lateness(lake, pipeline, now),
        durations(written, [t.name for t in pipeline.tables]),
        written,
    )


def delivered(lake: Lake, states: States) -> Delivered:
    """The account of everything that landed and was not withdrawn; a content at two paths is one file.

    Only arrival days that hold what landed for them can add up: the rows of all others count as `waiting`.
    """
    view = states.view
    contents: dict[str, FileRecord] = {r.sha256: r for r in read_files(lake.table_path(FILES.name)) if not r.withdrawn}
    landed = {(r.sha256, day): rows for r in contents.values() for day, (rows, _, _) in r.days.items()}
    whole = {day for _, day in landed if _is_whole(states, day)}
    refused = read_arrow(lake.table_path(QUARANTINE.name), columns=("arrival_date", "reason"))
    kept = read_arrow(lake.table_path(TOO_LATE), columns=("arrival_date",))
    return Delivered(
        files=len(contents),
        rows=sum(landed.values()),
        waiting=sum(rows for (_, day), rows in landed.items() if day not in whole),
        raw=sum(stamp.entry.rows for day, stamp in view.table("raw").stamps.items() if day in whole),
        quarantine=dict(Counter(r["reason"] for r in refused if r["arrival_date"] in whole).most_common()),
        too_late=sum(r["arrival_date"] in whole for r in kept),
    )


def _is_whole(states: States, day: date) -> bool:
    """Whether raw holds all that landed for the day: not stale or missing, and not cut in two by `as_of`."""
    as_of = states.view.as_of
    cut = as_of is not None and as_of.date() == day and as_of > midnight(day)
    return not cut and states.of("raw", day) in (State.FRESH, State.OUTDATED)


def _lateness(lake: Lake, pipeline: Pipeline, now: datetime) -> LatenessReport | None:
    try:
        return lateness(lake, pipeline, Asked(share=lake.settings.lateness.watermark_share), now)
    except BackfillError:
        return None  # nothing is loaded, which the rest of the report says
