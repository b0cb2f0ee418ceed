"""A finding of the doctor about one thing: fine, odd or broken, and what to do.

Not here: the checks that find it (`doctor`, `doctor_tables`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

SHOWN = 5


class Level(StrEnum):
    """How bad it is: `ok`, `warn` (works, but look at it), `error` (a promise of the product is broken)."""

    OK = "ok"
    WARN = "warn"
    ERROR = "error"


@dataclass(frozen=True)
class Diagnosis:
    """A finding: the object checked, what was found, and what to do about it (empty where there is nothing to do)."""

    level: Level
    object: str
    what: str
    advice: str = ""

    def to_dict(self) -> dict[str, str]:
        """Return the finding as JSON values."""
        return {"level": self.level.value, "object": self.object, "what": self.what, "advice": self.advice}


def fine(object: str, what: str) -> Diagnosis:
    """Return a finding that asks for nothing."""
    return Diagnosis(Level.OK, object, what)


def odd(object: str, what: str, advice: str) -> Diagnosis:
    """Return a finding about something that works and that a person should look at."""
    return Diagnosis(Level.WARN, object, what, advice)


def broken(object: str, what: str, advice: str) -> Diagnosis:
    """Return a finding about a broken promise."""
    return Diagnosis(Level.ERROR, object, what, advice)


def some(names: Iterable[object]) -> str:
    """Join the first names of a list, and say how many more there are."""
    listed = [str(n) for n in names]
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return ", ".join(listed[:SHOWN]) + more
