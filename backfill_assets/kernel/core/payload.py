"""The payload of a delivery: the columns that travel unchanged from a landed file through raw and
staging.

Not here: the settings that declare it (`kernel.tables.sections`), applying it to files
(`intake.mapping`) and judging rows by it (`intake.deliveries`).
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from backfill_assets.kernel.core.column_types import read_type

# What the machinery needs of every delivery, in the order of raw's columns, with Spark's types.
MACHINERY = {
    "seq": "BIGINT",
    "arrival_ts": "TIMESTAMP",
    "version_ts": "TIMESTAMP",
    "event_ts": "TIMESTAMP",
    "event_key": "STRING",
    "op": "STRING",
}
# Columns of a delivery that `select` may leave out, and that the commit gives for a row that it
# took from a table.
CLOCKS = ("op", "seq", "arrival_ts", "version_ts")
# What a commit does with a row of a table, in the words of Delta's feed.
INSERTED, TAKEN_AWAY = (
    "insert",
    "delete",
)
LANDED = ("source_file", "arrival_date")  # what raw adds to a delivery
# Names that tables and loads of ours use beside a payload.
TAKEN = frozenset(
    [
        *MACHINERY,
        *LANDED,
        "event_date",
        "known_from",
        "known_until",
        "feature_date",
        "label_date",
        "label",
        "label_state",
        "forward",
        "backward",
        "sha256",
        "row_number",
        "text",
        "reason",
        "first_scan",
        "home_day",
        "usable_arrival",
        "due",
        "outcome",
        "hashed",
    ]
)
NOT_NULL = re.compile(r"\s+NOT\s+NULL\s*$", re.IGNORECASE)
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
# Equality is not what it seems, or no text a person could name it by.
NO_ENTITY = (
    "DOUBLE",
    "BINARY",
    "ARRAY",
)


@dataclass(frozen=True)
class PayloadColumn:
    """One column: name, type as `column_types` spells it, and whether an upsert may have NULL
    (deletes always may)."""

    name: str
    type: str
    nullable: bool = True

    @property
    def is_floating(self) -> bool:
        """Whether its values are floating-point numbers, of which 0.0 and -0.0 are the same."""
        return self.type == "DOUBLE"


# Without a declaration; `value` and `flag` then have bounds of their own (`intake.deliveries`).
DEFAULT_PAYLOAD = (
    PayloadColumn("entity", "STRING"),
    PayloadColumn("value", "BIGINT", nullable=False),
    PayloadColumn("flag", "INT", nullable=False),
)


def log_columns(given: Collection[str]) -> dict[str, str]:
    """What raw keeps of a row of a table that others write, beside the delivery, with Spark's
    types: what the commit did with it (INSERTED, TAKEN_AWAY) and when, and of those of `CLOCKS`
    that `select` gives (`given`) the row's own, which are the commit's in the delivery of a row
    that was taken away. All NULL in what earlier releases loaded."""
    own = {f"row_{name}": MACHINERY[name] for name in CLOCKS if name in given}
    return {"log_change": "STRING", "log_commit_ts": "TIMESTAMP", **own}


def read_payload(declared: Mapping[str, str]) -> tuple[PayloadColumn, ...]:
    """The columns of a declaration (name -> type, perhaps with NOT NULL), in its order.

    Raises ValueError naming the column: a name that is taken, repeated or none, a type that is
    none, no column at all.
    """
    if not declared:
        raise ValueError("it names no column; leave it out, or name at least one")
    _refuse_column_names(declared)
    return tuple(_parse_column(name, text) for name, text in declared.items())


def entity_misfit(entity: Sequence[str], payload: Iterable[PayloadColumn]) -> str:
    """Why these columns cannot name an entity of that payload, in words; empty where they can."""
    types = {c.name: c.type for c in payload}
    unknown = [name for name in entity if name not in types]
    if unknown:
        return (
            f"{', '.join(unknown)} is no column of the payload; name one or several of "
            f"{', '.join(types)} (`forget` needs them without features, too)"
        )
    if len(set(entity)) != len(entity):
        return "a column is named twice; name each once"
    unfit = [f"{name} is {types[name]}" for name in entity if _names_no_entity(types[name])]
    if unfit:
        return (
            f"{', '.join(unfit)}, by which nothing can be found again; name columns of other types"
        )
    return ""


def _names_no_entity(type_name: str) -> bool:
    return read_type(type_name).kind in NO_ENTITY


def _refuse_column_names(names: Iterable[str]) -> None:
    """Raise ValueError for a name with other signs, one that the tables take themselves, and two
    that differ by case only."""
    seen: dict[str, str] = {}
    for name in names:
        if not NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} is no name of a column; write letters, digits and _, a letter first"
            )
        if name.lower() in TAKEN:
            raise ValueError(
                f"{name} is a name of the tables themselves; give it another one, in `select` too"
            )
        if name.lower() in seen:
            raise ValueError(
                f"{seen[name.lower()]} and {name} are one name to SQL; rename one of them"
            )
        seen[name.lower()] = name


def _parse_column(name: str, text: str) -> PayloadColumn:
    kind, count = NOT_NULL.subn("", text)
    try:
        return PayloadColumn(name, str(read_type(kind)), nullable=not count)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
