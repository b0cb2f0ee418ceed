"""The report of a lake: states of all days, landed rows and their account, lateness, durations, writes, checks, proofs.

Not here: its parts (`status`, `lateness`, `writes`, `check_history`), the runs that Dagster keeps
(`orchestration.history`), and the page (`cli.report_page`).
No JVM, no Dagster.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from backfill_assets.core.errors import BackfillError
from backfill_assets.core.states import States
from backfill_assets.core.texts import json_of
from backfill_assets.lake.home import Lake
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.view import read_view
from backfill_assets.operations.account import Account, Repeats, accounts, repeats_of, sum_of_accounts
from backfill_assets.operations.check_history import CheckHistory, check_history
from backfill_assets.operations.lateness import LatenessReport, LatenessScope, lateness_of
from backfill_assets.operations.rejected import NEWEST_DAYS, refused_rows
from backfill_assets.operations.standing import ControlOutcome, Proof, last_outcomes, proofs
from backfill_assets.operations.status import StatusReport, status_of
from backfill_assets.operations.writes import Durations, TableWrite, durations, writes


@dataclass(frozen=True)
class Delivered:
    """Landed files and the account of their rows."""

    account: Account
    quarantine: Mapping[str, int]  # rows by reason, the most frequent first
    # the same per source, where a lake has several; the other fields are then sums
    sources: Mapping[str, "Delivered"] = field(default_factory=dict)
    repeats: Repeats = field(default_factory=Repeats)  # among the rows of the NEWEST_DAYS

    def to_dict(self) -> dict[str, Any]:
        """Return the account as JSON values."""
        each = {"sources": json_of(self.sources)} if self.sources else {}
        repeated = {f"{kind}_repeats_per_1000": n for kind, n in self.repeats.per_1000.items()}
        return {**self.account.to_dict(), **repeated, "quarantine": dict(self.quarantine), **each}


@dataclass(frozen=True)
class LakeReport:
    """Everything that is reported of a lake."""

    made_at: datetime  # by the clock
    status: StatusReport
    delivered: Delivered
    lateness: LatenessReport | None  # None: nothing is loaded
    durations: tuple[Durations, ...]
    writes: tuple[TableWrite, ...]
    controls: tuple[ControlOutcome, ...] = ()  # the newest outcomes
    checks: tuple[CheckHistory, ...] = ()
    proofs: tuple[Proof, ...] = ()


def report(lake: Lake, pipeline: Pipeline, now: datetime, *, with_checks: bool = True) -> LakeReport:
    """Return the report of the lake; `now` is the clock (aware). All parts share one state of the lake.

    `with_checks`: judge every written day again, too.
    """
    states = pipeline.states(read_view(lake, pipeline.contracts))
    try:
        late = lateness_of(lake, states, LatenessScope(share=lake.settings.lateness.watermark_share), now)
    except BackfillError:
        late = None  # nothing is loaded, which the rest of the report says
    written = writes(lake, pipeline)
    took = durations(written, [t.name for t in pipeline.tables])
    checks = check_history(lake, states) if with_checks else ()
    status, landed, controls = status_of(lake, states), delivered(lake, states), tuple(last_outcomes(lake))
    return LakeReport(now, status, landed, late, took, written, controls, checks, tuple(proofs(lake)))


def delivered(lake: Lake, states: States) -> Delivered:
    """Return the account of all landed rows that were not withdrawn, with reasons of quarantine; per source, too."""
    account_of = accounts(lake, states.view)
    each = {
        s.name: Delivered(
            account_of[s.table], refused_rows(lake, s.name), repeats=repeats_of(lake, states, s, NEWEST_DAYS)
        )
        for s in states.view.sources.values()
    }
    if len(each) == 1:
        return next(iter(each.values()))
    refused = sum((Counter(one.quarantine) for one in each.values()), Counter[str]())
    found = sum((one.repeats for one in each.values()), Repeats())
    return Delivered(sum_of_accounts(account_of.values()), dict(refused.most_common()), each, found)
