"""Templates of plans: named settings that are safe for a kind of correction (`--template NAME`).

Lives here: the templates and what each is for. Does not live here: the settings' meaning (`core.plans.Policy`).
"""

from collections.abc import Mapping

from backfill_assets.core.plans import Policy, Tolerances

TEMPLATES: Mapping[str, tuple[str, Policy]] = {
    "daily-repair": (
        "a few days again that came out wrong by accident: little may differ, and a failed chunk stops at once",
        Policy("1d", 1, tolerances=Tolerances(rows=0.1, nulls=0.05, means=0.1), template="daily-repair"),
    ),
    "feature-fix": (
        "other code for the same rows: keys and rows stay, values may change",
        Policy("7d", 1, tolerances=Tolerances(rows=0.05, nulls=0.2), template="feature-fix"),
    ),
    "late-labels": (
        "truth that came late: rows come in addition, and outcomes flip",
        Policy("month", 1, tolerances=Tolerances(rows=1.0, nulls=0.2, means=0.5), template="late-labels"),
    ),
    "migration": (
        "everything again under new rules: two days first, then weeks; rows may move between days",
        Policy("week", 2, tolerances=Tolerances(rows=None, nulls=0.5), template="migration"),
    ),
}
