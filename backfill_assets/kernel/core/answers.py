"""Types of what commands print with `--json`: a text that is a day, and what a type cannot say.

Not here: the documents, each a type beside its command or its record, and their JSON schemas
(`cli.schema_command`).
"""

from typing import Annotated, Any, NamedTuple, TypedDict

__all__ = ["DaySpan", "DayText", "InSchema", "InstantText"]


class InSchema(NamedTuple):
    """What the JSON schema of a type says besides (`Annotated[str, InSchema(format="date")]`)."""

    format: str = ""  # of a text
    description: str = ""
    written_as: Any = None  # the type of what is written in place of a value; None: its own


DayText = Annotated[str, InSchema(format="date")]
InstantText = Annotated[str, InSchema(format="date-time")]
# Days as JSON values, both ends included.
DaySpan = TypedDict("DaySpan", {"from": DayText, "to": DayText})
