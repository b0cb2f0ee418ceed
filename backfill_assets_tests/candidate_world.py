"""A lake without an engine, and a candidate beside it that builds tables of it by newer code.
Here: `CandidateWorld`. Not here: any assertion."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from backfill_assets.candidates.candidates import create_candidate, find_candidate
from backfill_assets.candidates.publications import (
    Publication,
    PublishRequest,
    publish_candidate_days,
)
from backfill_assets.kernel.core.states import Codes
from backfill_assets.kernel.tables.home import Lake
from backfill_assets_tests.planned import BUILT, DAYS, Planned

NEW_CODE = Codes("code-2", "settings-1")


@dataclass
class CandidateWorld:
    """A lake, and a candidate of it (`there`) that builds tables of it by newer code."""

    made: Planned
    there: Planned

    @classmethod
    def of(cls, made: Planned, *own: str) -> "CandidateWorld":
        """An empty candidate of some tables."""
        candidate = create_candidate(
            made.lake, made.pipeline, "v2", own, lambda path: (path,), "newer code"
        )
        return cls._of(made, candidate)

    @classmethod
    def reopened(cls, root: Path) -> "CandidateWorld":
        """A lake with its candidate, as another process made them."""
        made = Planned.reopened(root)
        return cls._of(made, find_candidate(made.lake, "v2"))

    @classmethod
    def _of(cls, made: Planned, candidate: Lake) -> "CandidateWorld":
        there, own = Planned.__new__(Planned), candidate.own
        there.lake, there.root = candidate, candidate.root
        there.pipeline = replace(
            made.pipeline, codes={**made.pipeline.codes, **dict.fromkeys(own, NEW_CODE)}
        )
        return cls(made, there)

    def build_all(self, value: int) -> None:
        for table in BUILT:
            self.there.write(table, dict.fromkeys(range(DAYS), value))

    def request(self, deployed: bool = True, **more: Any) -> PublishRequest:
        """A publication; `deployed`: the lake has the candidate's code."""
        pipeline = (
            replace(self.made.pipeline, codes=self.there.pipeline.codes)
            if deployed
            else self.made.pipeline
        )
        return replace(
            PublishRequest(self.made.lake, pipeline, self.there.lake, self.there.pipeline), **more
        )

    def publish(self, **more: Any) -> Publication:
        return publish_candidate_days(self.request(**more), act=True)
