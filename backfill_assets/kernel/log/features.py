"""What Delta's protocol lets a table ask of its readers and writers, and what each door of a lake
makes of it: one line per feature, which the guide's table repeats.

Not here: how a feature is read (`deleted_rows`, `intake.stored_names`), and what a door
refuses for other reasons. A source is a table of others whose commits are loaded, an input one
whose days tables are made from, an adopted table one that the lake writes from then on.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Door = Literal["source", "input", "adopted"]
READ = "read"  # its rows are as the table's own engine gives them
IGNORED = "ignored"  # it changes no row that a reader sees
REFUSED = "refused"  # by its name, before anything is read or written


@dataclass(frozen=True)
class Feature:
    """A feature of Delta's protocol."""

    name: str  # as the protocol of a table names it
    source: str
    input: str
    adopted: str

    def of_door(self, door: Door) -> str:
        """What a door makes of it."""
        return {"source": self.source, "input": self.input, "adopted": self.adopted}[door]


FEATURES = (
    Feature("appendOnly", IGNORED, IGNORED, IGNORED),  # adopted: refused where it is switched on
    Feature("invariants", IGNORED, IGNORED, IGNORED),  # the same
    Feature("checkConstraints", IGNORED, IGNORED, IGNORED),  # the same
    Feature("generatedColumns", IGNORED, IGNORED, IGNORED),  # the same
    Feature("changeDataFeed", READ, IGNORED, IGNORED),
    Feature("deletionVectors", READ, READ, REFUSED),
    Feature("columnMapping", READ, READ, REFUSED),
    # A source is refused where it selects one, an input lacks such columns.
    Feature("variantType", IGNORED, IGNORED, REFUSED),
    Feature("variantType-preview", IGNORED, IGNORED, REFUSED),
    Feature("variantShredding", IGNORED, IGNORED, REFUSED),  # how files hold such columns
    Feature("variantShredding-preview", IGNORED, IGNORED, REFUSED),
    Feature("timestampNtz", READ, IGNORED, REFUSED),  # an input lacks such columns
    Feature("v2Checkpoint", READ, READ, REFUSED),
    Feature("vacuumProtocolCheck", IGNORED, IGNORED, REFUSED),
    Feature("typeWidening", READ, READ, REFUSED),
    Feature("typeWidening-preview", READ, READ, REFUSED),
    Feature("identityColumns", IGNORED, IGNORED, REFUSED),
    Feature("allowColumnDefaults", IGNORED, IGNORED, REFUSED),
    Feature("rowTracking", IGNORED, IGNORED, REFUSED),
    Feature("domainMetadata", IGNORED, IGNORED, REFUSED),
    Feature("clustering", IGNORED, IGNORED, REFUSED),
    Feature("inCommitTimestamp", READ, IGNORED, REFUSED),
    # A catalog has the newest commits, and the log does not.
    Feature("catalogManaged", REFUSED, REFUSED, REFUSED),
    Feature("catalogOwned-preview", REFUSED, REFUSED, REFUSED),
)


def refused_features(names: Iterable[str], door: Door) -> list[str]:
    """The features of these that a door refuses, as it does those that are not known."""
    taken = {feature.name for feature in FEATURES if feature.of_door(door) != REFUSED}
    return sorted({*names} - taken)
