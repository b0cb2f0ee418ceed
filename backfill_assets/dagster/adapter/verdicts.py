"""One evaluation per check of a table and run, which names every day that stands failed, not only
days of the run.

Here: which days these are, and what people read of them. Not here: the rules
(`kernel.write.gates`), what a check's button does (`checks`), and a day's own figures (`metadata`).

A day stands *warned of* by its receipt. It stands *refused* since the newest attempt to write it
was refused: its rows are older, or there are none. Receipts know nothing of refusals, so the newest
evaluation in Dagster carries them on to the next one, and everything else that was judged up to its
version of the table: a run of one day judges no years.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import dagster as dg

from backfill_assets.dagster.adapter.context import PLAIN, Naming
from backfill_assets.dagster.adapter.dagster_private import newest_evaluation, newest_target
from backfill_assets.dagster.adapter.metadata import markdown_table
from backfill_assets.dagster.adapter.printed_commands import commands_with_lake
from backfill_assets.kernel.core.commands import mending_advice, show_command
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import contiguous_ranges, parse_span, ranges_text
from backfill_assets.kernel.core.digests import digest_of
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.profiles import Finding
from backfill_assets.kernel.core.states import States
from backfill_assets.kernel.core.view import (
    NO_VERSION,
    exists_at,
)
from backfill_assets.kernel.place.port import LOCKS
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.gates import checks_of
from backfill_assets.kernel.write.rebuild import Rebuild
from backfill_assets.reading.check_history import judged_days

LISTED_DAYS = 10
VERDICT = "verdict"
NOT_WRITTEN = "not written"  # what a red day's own page says of it
CARRIED_STANDING = "backfill_assets/carried_on"  # what the next evaluation reads of this one
STANDING_BEFORE = "standing"  # its name in evaluations by earlier releases


@dataclass(frozen=True)
class RunFindings:
    """What a run found in its days of a table."""

    findings: Sequence[Finding] = ()  # of every check and day that the run judged
    # days that the run wrote, or left because they were right; other days keep older rows
    written: Collection[date] = ()
    samples: Sequence[str] = ()  # keys of rows that the first refusing finding names


@dataclass(frozen=True)
class Standing:
    """The days of a table that a check finds wrong, each with its cause."""

    refused: Mapping[date, str] = field(default_factory=dict)  # days whose newest write was refused
    # Days whose rows break the check as they are.
    warned: Mapping[date, str] = field(default_factory=dict)
    version: int = NO_VERSION  # of the table, up to which days were judged; `NO_VERSION`: none were
    lake: str = ""  # its folder: one instance of Dagster may serve several lakes
    bounds: str = ""  # a digest of [gates]; with other bounds all days are judged again

    @property
    def days(self) -> dict[date, str]:
        """Every day that stands failed, ascending, with its cause; of two causes, the refusal's."""
        return dict(sorted({**self.warned, **self.refused}.items()))

    @property
    def severity(self) -> dg.AssetCheckSeverity:
        """How Dagster shows a failed check: red where days were refused."""
        return dg.AssetCheckSeverity.ERROR if self.refused else dg.AssetCheckSeverity.WARN

    def to_json(self) -> dict[str, Any]:
        """As JSON values: days with the same cause stand together."""
        return {
            **vars(self),
            "refused": _days_by_cause(self.refused),
            "warned": _days_by_cause(self.warned),
        }

    @classmethod
    def of(cls, evaluation: dg.AssetCheckEvaluation | None) -> "Standing":
        """The standing that an evaluation holds; an empty one for evaluations made elsewhere."""
        metadata = evaluation.metadata if evaluation else {}
        carried = metadata.get(CARRIED_STANDING, metadata.get(STANDING_BEFORE))
        if carried is None:
            return cls()
        values: Any = carried.value
        refused = _causes_by_day(values.get("refused", {}))
        warned = _causes_by_day(values.get("warned", {}))
        return cls(**{**values, "refused": refused, "warned": warned})


@dataclass(frozen=True)
class Verdicts:
    """Evaluations of the checks of a lake's tables, after `states`, in one instance of Dagster."""

    instance: dg.DagsterInstance
    lake: Lake
    states: States
    naming: Naming = PLAIN

    def of(
        self, contract: Contract, run: RunFindings | None = None, *, afresh: bool = False
    ) -> Iterator[dg.AssetCheckEvaluation]:
        """One evaluation per check of a table. Record each before the next: meanwhile no other
        process judges.

        `run`: findings that no receipt holds yet. `afresh`: judge all written days again, by their
        receipts.
        """
        found = run or RunFindings()
        with self.lake.place.lock(f"{LOCKS}/verdicts.lock", "the verdicts of the lake"):
            key = self.naming.of(contract)
            before = {name: self._newest_standing(key, name) for name in checks_of(contract)}
            target = newest_target(self.instance, key)
            latest = self.states.view.table(contract.name).latest
            unseen = {*(latest if afresh else self._unjudged_days(contract, before.values()))}
            receipts = judged_days(
                self.lake, self.states, contract, unseen.difference(found.written)
            )
            for name, kept in before.items():
                of_run = [f for f in found.findings if f.check == name]
                standing = [f for f in receipts if f.check == name]
                standing += [f for f in of_run if f.day in found.written]
                now = self._standing_after(contract, kept, of_run, standing)
                metadata = _verdict_metadata(self.lake, contract, name, now, found)
                yield dg.AssetCheckEvaluation(
                    asset_key=key,
                    check_name=name,
                    passed=not now.days,
                    metadata=metadata,
                    severity=now.severity,
                    target_materialization_data=target,
                )

    def results(
        self, contract: Contract, asked: Collection[dg.AssetCheckKey], *, afresh: bool
    ) -> Iterator[dg.AssetCheckResult]:
        """The evaluations of the checks that are `asked` for, as the step of a check yields them;
        `afresh` as for `of`."""
        by_name = {key.name: key for key in asked}
        for found in self.of(contract, afresh=afresh):
            if (key := by_name.get(found.check_name)) is not None:
                yield dg.AssetCheckResult(
                    passed=found.passed,
                    check_name=key.name,
                    asset_key=key.asset_key,
                    metadata=found.metadata,
                    severity=found.severity,
                )

    def refused(self, contract: Contract) -> frozenset[date]:
        """The days of a table whose newest write was refused."""
        key = self.naming.of(contract)
        return frozenset(
            d for name in checks_of(contract) for d in self._newest_standing(key, name).refused
        )

    def are_behind(self, contract: Contract) -> bool:
        """Whether Dagster shows a check of the table as not evaluated, or one that knows no days of
        now."""
        key = self.naming.of(contract)
        table = self.states.view.table(contract.name)
        target = newest_target(self.instance, key)
        for name in checks_of(contract):
            record = self.instance.get_latest_asset_check_evaluation_record(
                dg.AssetCheckKey(key, name)
            )
            newest: object = record.evaluation if record is not None else None
            if not isinstance(newest, dg.AssetCheckEvaluation):
                return table.exists
            if newest.target_materialization_data != target:
                return table.exists
            if self._standing_of(newest).version < table.version:
                return True
        return False

    def _newest_standing(self, key: dg.AssetKey, check: str) -> Standing:
        return self._standing_of(newest_evaluation(self.instance, dg.AssetCheckKey(key, check)))

    def _standing_of(self, evaluation: dg.AssetCheckEvaluation | None) -> Standing:
        """The standing that an evaluation holds; an empty one if it is of another lake."""
        kept = Standing.of(evaluation)
        return kept if kept.lake == self.lake.address else Standing()

    def _unjudged_days(self, contract: Contract, kept: Collection[Standing]) -> list[date]:
        """The written days that a check has not judged yet: all of them by other bounds, or where
        the table was put back to an older version."""
        table = self.states.view.table(contract.name)
        bounds = _bounds_digest(self.lake)
        known = min(standing.version for standing in kept)
        for standing in kept:
            if standing.bounds != bounds or standing.version > table.version:
                known = NO_VERSION
        return [day for day, receipt in table.latest.items() if receipt.version > known]

    def _standing_after(
        self,
        contract: Contract,
        kept: Standing,
        of_run: Sequence[Finding],
        standing: Sequence[Finding],
    ) -> Standing:
        """How a check stands that stood as `kept`, after its findings in a run (`of_run`), of which
        refused days got no rows, and its findings about rows that stand in the table
        (`standing`)."""
        table = self.states.view.table(contract.name)
        newer = {d for d, receipt in table.latest.items() if receipt.version > kept.version}
        still_refused = kept.refused.keys() - newer - {f.day for f in of_run}
        refused = {d: why for d, why in kept.refused.items() if d in still_refused}
        refused |= {f.day: f.message for f in of_run if f.refuses}
        still_warned = (kept.warned.keys() & table.latest.keys()) - {f.day for f in standing}
        warned = {d: why for d, why in kept.warned.items() if d in still_warned}
        warned |= {f.day: f.message for f in standing if not f.passed}
        return Standing(
            refused, warned, table.version, self.lake.address, _bounds_digest(self.lake)
        )


def log_verdicts(
    step: dg.AssetExecutionContext,
    rebuild: Rebuild,
    written: Iterable[date] = (),
    naming: Naming = PLAIN,
    only: Collection[str] | None = None,
) -> None:
    """Log one evaluation per check of the table of a rebuild (None: all; else of the names `only`),
    once the days `written` are there; none are where the rebuild was refused. Logged, and not
    yielded: the run need not plan the checks, and a refusal stops no later step.

    Each other day of the run gets an observation, which its own page in Dagster shows: an
    evaluation names days of the whole table, and the failure of the step is one for all of its
    days.
    """
    request = rebuild.request
    refusing = next((f for f in rebuild.judged if f.refuses), None)
    samples = rebuild.sample_keys(refusing) if refusing else ()
    run = RunFindings(rebuild.judged, {*written}, samples)
    _log_causes(step, naming.of(rebuild.table.contract), rebuild.causes(run.written))
    verdicts = Verdicts(step.instance, request.lake_session.lake, request.known.states, naming)
    for verdict in verdicts.of(rebuild.table.contract, run):
        if only is None or verdict.check_name in only:
            step.log_event(verdict)


@contextmanager
def logging_refused_days(step: dg.AssetExecutionContext, key: dg.AssetKey) -> Iterator[None]:
    """Log why each day of an asset was not written, where days are refused within before their rows
    are judged. Logs nothing of an error for which no day is to blame."""
    try:
        yield
    except BackfillError as error:
        _log_causes(step, key, error.by_day)
        raise


def _log_causes(
    step: dg.AssetExecutionContext, key: dg.AssetKey, causes: Mapping[date, str]
) -> None:
    for day, cause in causes.items():
        step.log_event(dg.AssetObservation(key, partition=str(day), metadata={NOT_WRITTEN: cause}))


def _bounds_digest(lake: Lake) -> str:
    return digest_of(lake.settings.gates.model_dump(mode="json"))


def _verdict_metadata(
    lake: Lake, contract: Contract, check: str, now: Standing, run: RunFindings
) -> dict[str, Any]:
    """What an evaluation of a check says: the first days that stand failed, their causes, and what
    a person does."""
    facts: dict[str, Any] = {VERDICT: _verdict_text(now, contract)}
    if now.days:
        facts["days"] = markdown_table(["day", "the day is", "cause"], _failed_lines(now))
        facts["next"] = commands_with_lake(_next_step(lake, contract, now), lake.root)
    refusing = next((f for f in run.findings if f.refuses), None)
    if refusing is not None and refusing.check == check and run.samples:
        facts["sample_keys"] = dg.MetadataValue.json({str(refusing.day): list(run.samples)})
    return {**facts, CARRIED_STANDING: dg.MetadataValue.json(now.to_json())}


def _verdict_text(now: Standing, contract: Contract) -> str:
    """The verdict in words, with the first failed day's cause."""
    if not now.days:
        return "no written day fails"
    day = min(now.refused or now.warned)
    sides = (("refused", now.refused), ("warned of", now.warned))
    count_text = contract.calendar.count_text
    counts = "; ".join(
        f"{count_text(len(days))} {word}: {ranges_text(days)}" for word, days in sides if days
    )
    return f"{counts}; {day}: {now.days[day]}"


def _failed_lines(now: Standing) -> Iterator[tuple[str, str, str]]:
    """The first days that stand failed, refused ones before others."""
    listed = [*sorted(now.refused), *sorted(now.warned.keys() - now.refused.keys())]
    for day in listed[:LISTED_DAYS]:
        yield str(day), "refused" if day in now.refused else "warned of", now.days[day]
    if len(listed) > LISTED_DAYS:
        yield f"… {len(listed) - LISTED_DAYS} more", "", ""


def _next_step(lake: Lake, contract: Contract, now: Standing) -> str:
    """What a person does about the days that stand failed, with the commands."""
    first = min(now.refused or now.warned)
    if now.refused:
        can_run = lake.settings.pipeline.definitions is not None
        return mending_advice(
            contract, first, now.refused, is_known=exists_at(now.version), can_run=can_run
        )
    look = f"Look with `{show_command(contract.name, first)}`"
    return (
        f"{look}. If the day is right, do nothing, or move its bound in "
        f"[gates.tables.{contract.name}]"
    )


def _days_by_cause(days: Mapping[date, str]) -> dict[str, list[str]]:
    of_cause = defaultdict[str, list[date]](list)
    for day, why in days.items():
        of_cause[why].append(day)
    return {
        why: [str(span) for span in contiguous_ranges(found)] for why, found in of_cause.items()
    }


def _causes_by_day(causes: Mapping[str, Sequence[str]]) -> dict[date, str]:
    found = dict[date, str]()
    for why, spans in causes.items():
        for span in spans:
            found |= dict.fromkeys(parse_span(span), why)
    return found
