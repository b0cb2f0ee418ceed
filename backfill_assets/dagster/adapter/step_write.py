"""`StepWrite`: the one way from days to make to what Dagster shows of them, for a lake's own tables
and for assets of a project.

Not here: what is made (`kernel.write.rebuild`), who calls it in which order (`assets` with
`io_manager`, `LakeIOManager`), and the words of a verdict (`verdicts`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import dagster as dg

from backfill_assets.dagster.adapter.context import PLAIN, Naming
from backfill_assets.dagster.adapter.metadata import day_metadata
from backfill_assets.dagster.adapter.verdicts import log_verdicts, logging_refused_days
from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.write.rebuild import Rebuild
from backfill_assets.kernel.write.replace import WriteResult
from backfill_assets.kernel.write.session import Session

RegisterTable = Callable[[Session, str, int], str]


@dataclass(frozen=True)
class StepWrite:
    """The write of a table's days by a step, whichever IO manager does it: judged, committed and
    told in the same words.

    `naming`: how the lake's tables are called in the project. `checks`: the names of those whose
    verdicts are logged; None: all checks of the table.
    """

    step: dg.AssetExecutionContext
    rebuild: Rebuild
    naming: Naming = PLAIN
    checks: Collection[str] | None = None

    @property
    def key(self) -> dg.AssetKey:
        """The asset key of the table."""
        return self.naming.of(self.rebuild.table.contract)

    def prepare(self) -> None:
        """Compute and judge the days. Raises ContractBroken where no day can be written, once the
        verdicts are logged."""
        with logging_refused_days(self.step, self.key):
            findings = self.rebuild.prepare()
        if any(finding.refuses for finding in findings):
            self.log_verdicts()
            raise self.rebuild.refusal()

    def publish(self) -> WriteResult:
        """Commit the judged days at most once, and name a new table in the session's catalog; a
        warning where that cannot be."""
        published = self.rebuild.publish()
        register: RegisterTable | None = offered_function("register_new_table")
        if register is not None:
            before = self.rebuild.ready.before.version
            table = self.rebuild.table.name
            if unnamed := register(self.rebuild.request.lake_session, table, before):
                self.step.log.warning(unnamed)
        return published

    def show_days(
        self, published: WriteResult, earlier: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        """Add the figures of each day to its materialization, which Dagster makes; `earlier` as of
        `day_metadata`."""
        for day, metadata in day_metadata(
            self.rebuild, published, earlier or {}, self.naming
        ).items():
            self.step.add_asset_metadata(metadata, asset_key=self.key, partition_key=day)

    def log_verdicts(self, written: Iterable[date] = ()) -> None:
        """Log one evaluation per check, after the `written` days; none where all were refused."""
        log_verdicts(self.step, self.rebuild, written, self.naming, self.checks)
