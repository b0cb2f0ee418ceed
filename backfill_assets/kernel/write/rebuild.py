"""One table's rebuild, steps 12 to 19 of *How it works*: the same for Dagster, the commands and
tests.

    12  settle    `kernel.write.derived.build_candidate`:
                  days that are right are left; days that cannot be made are refused
    13  compute   `kernel.write.computing.plan_rows`:
                  the table's own pure function over all input days, pinned at the versions of 8
    14  stage     `engines.frame_files.stage_frame`:
                  Parquet files that no log names, so that no reader sees them
    15  audit     `kernel.write.session.Auditor`, DuckDB or the engine where rows lie elsewhere:
                  rows, NULLs, repeated keys and a fingerprint per day, of exactly these files
    16  judge     `kernel.write.judging.QualityContext.judge`:
                  each day by each check; a refusal ends here, or takes out the refused days
    18  fence     `kernel.write.replace.replace_days_locked`:
                  were newer inputs published meanwhile (`Superseded`), 8 to 16 are done again
    19  commit    `kernel.tables.committer.commit_files`:
                  once, with the receipt; days that do not differ keep their files

For raw, the way of a late file (1 to 5) takes the place of 12 and 13, and 20 notes the event days
that the commit touched.

Here: that order, and its failures as callers see them. Not here: any step (each has its file
above), steps of Dagster (11, 17, 21) and the look at receipts that comes before (8).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from operator import attrgetter
from typing import Protocol

import stamina

from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import DayRange, some_days
from backfill_assets.kernel.core.engines import rebuild_disagreement
from backfill_assets.kernel.core.errors import ContractBroken, DaysKeptBack, Superseded
from backfill_assets.kernel.core.profiles import Finding, with_warning
from backfill_assets.kernel.core.rooms import added_by_rooms
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.staging import Staged
from backfill_assets.kernel.write.audit import sample_keys
from backfill_assets.kernel.write.candidate import Candidate, RebuildRequest
from backfill_assets.kernel.write.derived import build_candidate
from backfill_assets.kernel.write.gates import PROFILE, gates_of
from backfill_assets.kernel.write.judging import (
    KeptBack,
    causes_by_day,
    quality_context,
    refusal_error,
)
from backfill_assets.kernel.write.model import Table
from backfill_assets.kernel.write.replace import WriteResult

SUPERSEDED_ATTEMPTS = 3  # each one reads the newest inputs; more would mean writers that never rest


class Loader(Protocol):
    """How a table of landed rows is loaded (`Room.loaders`; there is one)."""

    def __call__(self, request: RebuildRequest) -> Candidate:
        """The candidate of the asked arrival days, as `kernel.write.derived.build_candidate` gives
        that of any other table."""


class StagedCheck(Protocol):
    """What a room asks of staged rows, which no reader sees yet (`Room.staged_checks`)."""

    def __call__(
        self,
        lake: Lake,
        contracts: Sequence[Contract],
        written: Contract,
        staged: Staged,
        days: Collection[date],
    ) -> list[str]:
        """A text for each failure, where `staged` files replace `days` of the table `written`. Who
        asks nothing leaves the files where they lie: their paths bring them to this machine."""


@dataclass
class Rebuild:
    """One table, one range of days, one run. A candidate that newer inputs overtook is replaced by
    the next."""

    request: RebuildRequest
    candidate: Candidate | None = None
    # Of the days that are written; of all days where none can be.
    findings: list[Finding] = field(default_factory=list)
    # days whose rows differ from what the same inputs, code and settings gave before; each with the
    # difference
    disagreements: Mapping[date, str] = field(default_factory=dict)
    # The days that are not written with the good ones.
    kept_back: KeptBack = field(default_factory=KeptBack)
    _samples: dict[tuple[str, date], list[str]] = field(default_factory=dict, repr=False)

    def prepare(self) -> list[Finding]:
        """Compute, stage and judge the days (steps 12 to 16 in *How it works*); returns the
        findings, refusing ones, too. Raises BackfillError where days cannot be computed."""
        with self.request.lake_session.explaining_losses():
            return self._prepare_candidate()

    def _prepare_candidate(self) -> list[Finding]:
        """Compute, stage and judge the days anew, and give the findings. Where the mode keeps good
        days, the days that are refused are left out of what is committed."""
        self._samples.clear()
        self.kept_back = KeptBack()
        (load,) = added_by_rooms("loaders")
        make: Loader = load if self.table.is_landed else build_candidate
        self.candidate = make(self.request)
        self._refuse_other_days()
        with self.request.phases.phase("gate"):
            self.disagreements = self._find_disagreements()
            self.findings = self._judge_days(self.ready.chunk)
            if self.request.mode.keeps_good_days:
                self._keep_good_days()
        return self.findings

    def publish(self) -> WriteResult:
        """Commit the days (steps 18 and 19 in *How it works*); where newer inputs overtook the
        candidate, make and judge it again (8 to 16), three times at most. Given rows are tried
        once: only another run of their asset makes newer ones."""
        with self.request.lake_session.explaining_losses():
            return self._publish_candidate()

    def _publish_candidate(self) -> WriteResult:
        """Commit the days. Where newer inputs overtook the candidate, make and judge it again, up
        to `SUPERSEDED_ATTEMPTS` times in all; given rows are tried once. Raises where it is refused
        then, or was overtaken each time."""
        attempts = 1 if self.request.given is not None else SUPERSEDED_ATTEMPTS
        for attempt in stamina.retry_context(on=Superseded, attempts=attempts):
            with attempt:
                if attempt.num > 1:
                    self.release()
                    self.request.known.read()
                    if any(f.refuses for f in self.prepare()):
                        raise self.refusal()
                with self.request.phases.phase("publish"):
                    return self._commit_candidate()
        raise AssertionError("unreachable: the retry context returns or raises")

    def _commit_candidate(self) -> WriteResult:
        try:
            return self.ready.commit(self.kept_back.days)
        finally:
            self.request.known.wrote(self.table.name)

    def release(self) -> None:
        """Delete the candidate's staged files; harmless when the engine is gone."""
        if self.candidate is not None:
            self.candidate.release()

    @property
    def table(self) -> Table:
        """The table to rebuild."""
        return self.request.table

    @property
    def days(self) -> DayRange:
        """The days to rebuild; once prepared, without the days kept back."""
        return self.request.days if self.candidate is None else self.candidate.chunk

    @property
    def judged(self) -> list[Finding]:
        """The findings of all judged days, also of days kept back."""
        return [*self.findings, *self.kept_back.findings]

    @property
    def ready(self) -> Candidate:
        """The candidate; raises RuntimeError before `prepare`."""
        if self.candidate is None:
            raise RuntimeError("prepare the rebuild first")
        return self.candidate

    def refusal(self) -> ContractBroken:
        """Error for the refusing findings: days, gates, counts, sample keys, the next command."""
        return self._refusal_error(self.findings)

    def causes(self, written: Collection[date]) -> Mapping[date, str]:
        """Why each other day of the request than those `written` was not, once the rebuild was
        refused or published."""
        days = (d for d in self.request.days if d not in written)
        return causes_by_day(days, self.judged, self.ready.unready)

    def sample_keys(self, finding: Finding) -> list[str]:
        """Up to ten keys of the rows that a finding names. Of days kept back they are known after
        the write, too."""
        staged, contract = self.ready.staged, self.table.contract
        gate = next((g for g in gates_of(contract) if g.name == finding.check), None)
        if staged is None or gate is None or not gate.names_rows:
            return []
        about = (finding.check, finding.day)
        if about not in self._samples:
            lake = self.request.lake_session.lake
            self._samples[about] = sample_keys(lake, staged.paths, contract, finding.day, gate.name)
        return self._samples[about]

    def _refusal_error(self, findings: Sequence[Finding], others: int = 0) -> ContractBroken:
        refusing = [f for f in findings if f.refuses]
        samples = self.sample_keys(refusing[0]) if refusing else []
        return refusal_error(self.request, refusing, self.ready.unready, samples, others)

    def _keep_good_days(self) -> None:
        """Take the refused days out of the candidate, if others stay. The others are judged again
        as if the request had never named the refused days, whose rows must not count as usual."""
        candidate, refused = self.ready, list[Finding]()
        while bad := {f.day for f in self.findings if f.refuses}:
            good = {*self.ready.chunk} - bad
            if not good:  # nothing is left to write
                self.candidate = candidate
                self.findings = sorted([*refused, *self.findings], key=attrgetter("day"))
                return
            refused += [f for f in self.findings if f.day in bad]
            self.candidate = replace(self.ready, chunk=some_days(good))
            self.findings = self._judge_days(self.ready.chunk)
        if refused or candidate.unready:
            for finding in {f.check: f for f in reversed(refused) if f.refuses}.values():
                self.sample_keys(finding)  # the write deletes their rows
            error = DaysKeptBack(*self._refusal_error(refused, len(self.days)).args)
            self.kept_back = KeptBack(tuple(refused), candidate.unready, error)

    def _refuse_other_days(self) -> None:
        """Raise ContractBroken where rows came that lie on no day of the request."""
        others = self.ready.outside_chunk()
        rows = {d: p.rows for d, p in others.items() if d not in self.ready.unready}
        if not rows:
            return
        without_day = rows.pop(None, 0)
        days = sorted(map(str, rows))  # a text for the year 12000
        parts, advice = list[str](), "correct it"
        if days:
            span = days[0] if len(days) == 1 else f"{days[0]}..{days[-1]}"
            parts.append(f"{sum(rows.values())} row(s) of {span}")
            first, last = str(self.days.start), str(self.days.last)
            advice = f"run the range {min(days[0], first)}..{max(days[-1], last)}"
        if without_day:
            parts.append(f"{without_day} row(s) without a day")
        maker = "the asset returned" if self.table.contract.made_by else "the transform gave"
        raise ContractBroken(
            f"the table {self.table.name}",
            f"asked for {self.days}, {maker} {' and '.join(parts)}",
            "Nothing was written",
            f"Return rows of the asked days only; if those days are meant, {advice}",
        )

    def _judge_days(self, days: DayRange) -> list[Finding]:
        """The findings of these days, against each other and the days before."""
        candidate = self.ready
        known = {d: r.entry for d, r in candidate.before.latest.items()}
        profiles = {d: candidate.profiles[d] for d in days}
        settings = self.request.lake_session.lake.settings
        quality = quality_context(
            settings, self.table.contract, known, profiles, candidate.frontier
        )
        failed, findings = self._failed_checks(), list[Finding]()
        for day, profile in profiles.items():
            built = candidate.entries[day].built
            absent = candidate.absent.get(day, ())
            failed_there = () if day in candidate.settled else failed
            for finding in quality.judge(day, profile, built, absent, failed_there):
                disagrees = finding.check == PROFILE and day in self.disagreements
                findings.append(
                    with_warning(finding, self.disagreements[day]) if disagrees else finding
                )
        return findings

    def _failed_checks(self) -> list[str]:
        """What rooms refuse about the staged rows of the days that are computed."""
        candidate, contract, lake = self.ready, self.table.contract, self.request.lake_session.lake
        if candidate.staged is None:
            return []
        pipeline, days = self.request.pipeline, {*self.days} - candidate.settled
        contracts = (*pipeline.contracts, *pipeline.followers)
        checks: tuple[StagedCheck, ...] = added_by_rooms("staged_checks")
        failed = list[str]()
        for check in checks:
            failed += check(lake, contracts, contract, candidate.staged, days)
        return failed

    def _find_disagreements(self) -> dict[date, str]:
        """How the rows of days differ from what the same inputs, code and settings gave before."""
        if not self.request.mode.gives_what_inputs_say:
            return {}
        candidate = self.ready
        codes = self.request.pipeline.codes[self.table.name]
        code = (codes.code_digest, codes.settings_digest)
        engine = self.request.engine
        differences = {}
        for day in self.days:
            receipt = candidate.before.latest.get(day)
            if receipt is None or day in candidate.settled:
                continue
            if text := rebuild_disagreement(receipt, candidate.entries[day], code, engine):
                differences[day] = text
        return differences
