"""How many labels that were mature flipped: which tables are asked, and the errors where they cannot be.

Lives here: finding the tables of versions and of entities that labels are made from. Does not live here: counting
(`lake.label_flips`) and the report that tells it (`lateness`).
"""

from datetime import datetime

from backfill_assets.core.contracts import Basis, first_reading, versions_of
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.view import LakeView
from backfill_assets.lake.home import Lake
from backfill_assets.lake.label_flips import Flip, declared_label, label_by_rule
from backfill_assets.lake.label_flips import label_flips as count_flips
from backfill_assets.lake.model import Pipeline

FLIPS_FROM = (Basis.ARRIVALS, Basis.KNOWN_AT_CUT)  # the tables of versions and of the entities that get labels


def label_flips(
    lake: Lake, pipeline: Pipeline, view: LakeView, since: datetime, frontier: datetime
) -> tuple[Flip, ...]:
    """Per number of maturity days the labels that were mature at `since` and differ now. Raises BackfillError where
    they cannot be counted. `frontier` is that of labels; both instants are aware."""
    labelled = next((t for t in pipeline.tables if declared_label(t.settings)), None)
    label = declared_label(labelled.settings) if labelled else None
    made_from = {i.table for i in labelled.contract.inputs} if labelled else {c.name for c in pipeline.contracts}
    others = [s.table for s in view.sources.values() if lake.settings.labels.source not in (None, s.name)]
    made_from -= {name for name, landed in versions_of(pipeline.contracts).items() if landed in others}
    known = [c for c in pipeline.contracts if c.name in made_from]
    roles = [(first_reading(known, basis), f"read by {basis}") for basis in FLIPS_FROM]
    lacking = [c.name if c else told for c, told in roles if c is None or view.table(c.name).version < 0]
    if lacking:
        raise _uncounted(
            since,
            f"the lake has no table {' and no table '.join(lacking)}",
            "Build these tables with `backfill-assets backfill`, or leave out --since",
        )
    if since > frontier:
        told = f"the frontier is {frontier:%Y-%m-%dT%H:%M:%SZ}, so nothing is known from later on"
        raise _uncounted(since, told, "Give an earlier day to --since")
    versions, asked = ((c, view.table(c.name).version) for c, _ in roles if c)
    return count_flips(lake, label or label_by_rule(lake.settings.labels), (versions, asked), since)


def _uncounted(since: datetime, culprit: str, fix: str) -> BackfillError:
    return BackfillError(f"label flips since {since:%Y-%m-%d}", culprit, "They were not counted", fix)
