"""How a plan is run, declared once: options of `plan` and fields of the job `backfill_range` are
made of these models.

Elsewhere: the plan and its file (`model`), click's options of a model (`cli.output`), templates
(`plans.plan`).
"""

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

from backfill_assets.kernel.core.answers import DayText, InSchema
from backfill_assets.kernel.core.days import DayRange, inclusive_range
from backfill_assets.kernel.core.write_mode import OnBadDays, WriteMode

Order = Literal["ascending", "newest-first"]


def _parsed_days(value: Any) -> Any:
    """The range of `[first, last]`, both included."""
    if not isinstance(value, list):
        return value
    first, last = map(date.fromisoformat, value)
    return inclusive_range(first, last)


Days = Annotated[
    DayRange,
    BeforeValidator(_parsed_days),
    PlainSerializer(lambda days: [str(days.start), str(days.last)]),
    InSchema(written_as=tuple[DayText, DayText]),
]


class Tolerances(BaseModel, frozen=True):
    """How far a day may differ from what it was before a gate stops the plan; None: no bound. All
    are shares."""

    rows: float | None = Field(  # of days with at least 20 rows
        default=0.5,
        description="Share by which a day's rows may change.",
        json_schema_extra={"option": "max-row-change", "range": [0]},
    )
    nulls: float | None = Field(  # over what is usual
        default=0.2,
        description="Rise of a column's NULL share.",
        json_schema_extra={"option": "max-null-jump", "range": [0, 1]},
    )
    means: float | None = Field(
        default=None,
        description="Share by which a column's mean may change on a day.",
        json_schema_extra={"option": "max-mean-change", "range": [0]},
    )
    drift: float | None = Field(  # against the receipts before the plan, beyond what is chance
        default=None,
        description="Population stability index of a column; 0.25 is large.",
        json_schema_extra={"option": "max-drift", "range": [0]},
    )


class PolicyOptions(BaseModel):
    """What a person chooses of a policy, by command or in the launchpad. `json_schema_extra` is for
    the command."""

    chunk: str = Field(
        default="7d",
        description="How many days one run makes.",
        json_schema_extra={"metavar": "7d|week|month|N"},
    )
    canary: int = Field(
        default=1,
        description="Days that are made first, alone: so many, or these.",
        json_schema_extra={"default": "1; with --look: where most rows change"},
    )
    order: Order = Field(default="ascending", description="Which days are made first.")
    write_mode: Literal["overwrite", "merge", "append"] = Field(
        default="overwrite", description="merge: upserted by key. append is refused."
    )
    keep_removed: bool = Field(
        default=False, description="merge: keep rows that the new ones lack, instead of refusing."
    )
    max_parallel: int = Field(
        default=1,
        description="Chunks at once.",
        json_schema_extra={"default": "by cores and memory", "range": [1]},
    )
    retries: int = Field(
        default=0, description="Of a chunk that fails.", json_schema_extra={"range": [0, 9]}
    )
    expect: list[str] = Field(
        default=[], description="What each chunk must give: 'staging.rows ±0'; again."
    )
    stop_after: str = Field(
        default="",
        description="Wait there for `plan resume`: run ends with 3.",
        json_schema_extra={"metavar": "canary|chunk|DAY"},
    )
    force: bool = Field(default=False, description="Make even what is known to be right.")
    keep_good_days: bool = Field(
        default=False, description="Write the days that pass though others are refused."
    )


class Policy(PolicyOptions):
    """How a plan is run. A chunk with days that are refused although `keep_good_days` is set has
    its other days written before the plan stops there."""

    model_config = ConfigDict(frozen=True)

    # A failed gate leaves the chunk as it is, or rolls it back.
    on_failure: Literal["stop", "rollback"] = "stop"
    template: str = ""
    tolerances: Tolerances = Tolerances()
    canary_days: Days | None = None  # None: the `canary` days at the end at which the work begins

    @model_validator(mode="after")
    def _within_bounds(self) -> "Policy":
        if self.canary < 0 or self.max_parallel < 1 or self.retries < 0:
            raise ValueError(
                f"canary and retries are at least 0, max_parallel at least 1, got {self}"
            )
        return self

    @property
    def mode(self) -> WriteMode:
        """How each run changes its days."""
        merges = self.write_mode == "merge"
        on_bad_days = OnBadDays.KEEP_GOOD if self.keep_good_days else None
        return WriteMode(merges, merges and self.keep_removed, on_bad_days)


class ReleaseOptions(BaseModel):
    """What a rollback or a release is of, by command or in the launchpad."""

    plan: str = Field(
        default="",
        description="All that this plan wrote, through all its tables.",
        json_schema_extra={"metavar": "ID"},
    )
    chunk: str = Field(default="", description="Only this chunk of the plan.")
    table: str = Field(default="", description="One table, instead of a plan.")
    note: str = Field(default="", description="Why; it is kept in the receipts.")


class RollbackOptions(ReleaseOptions):
    """What a rollback is of, and to what it goes back."""

    to_version: int | None = Field(
        default=None,
        description="The version of the table whose content they get.",
        json_schema_extra={"range": [0]},
    )
    over_newer: bool = Field(default=False, description="Also days that another run wrote since.")
