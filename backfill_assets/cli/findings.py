"""Findings of checks, as the doctor shows them: how bad each is, what was found, and what to do.

Not here: the checks of a lake (`upkeep.doctor`, and each room's own), which change nothing.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.texts import scrub_secrets

Check = Callable[[], Iterable["Diagnosis"]]


SHOWN_NAMES = 5  # of a list


class Level(StrEnum):
    """How bad it is: `ok`, `warn` (works, but look at it), `error` (a promise of the product is
    broken)."""

    OK = "ok"
    WARN = "warn"
    ERROR = "error"


@dataclass(frozen=True)
class Diagnosis:
    """A finding. None of its texts holds a secret, whatever they were made of."""

    level: Level
    object: str  # that was checked
    what: str  # was found
    advice: str = ""  # what to do; "": nothing; of a good finding a mere hint

    def __post_init__(self) -> None:
        for name in ("object", "what", "advice"):
            object.__setattr__(self, name, scrub_secrets(getattr(self, name)))


def good_finding(object: str, what: str) -> Diagnosis:
    """Return a finding that asks for nothing."""
    return Diagnosis(Level.OK, object, what)


def warning_finding(object: str, what: str, advice: str) -> Diagnosis:
    """Return a finding about something that works and that a person should look at."""
    return Diagnosis(Level.WARN, object, what, advice)


def error_finding(object: str, what: str, advice: str) -> Diagnosis:
    """Return a finding about a broken promise."""
    return Diagnosis(Level.ERROR, object, what, advice)


def first_names(names: Iterable[object]) -> str:
    """Join the first names of a list, and say how many more there are."""
    listed = [str(name) for name in names]
    hidden = len(listed) - SHOWN_NAMES
    more = f" and {hidden} more" if hidden > 0 else ""
    return ", ".join(listed[:SHOWN_NAMES]) + more


def run_checks(checks: Iterable[tuple[str, Check]]) -> list[Diagnosis]:
    """Return the findings of checks, each by the name of what it checks; what stops one is its
    finding."""
    return [finding for name, check in checks for finding in _findings_of(name, check)]


def _findings_of(name: str, check: Check) -> list[Diagnosis]:
    """Return the findings of a check, or the error that stopped it: one sick table must not hide
    the others."""
    try:
        return list(check())
    except BackfillError as error:
        return [finding_of(error)]
    except OSError as error:
        cause = f"{error.filename or name}: {error.strerror or type(error).__name__}"
        return [
            error_finding(
                name,
                f"it cannot be read ({cause})",
                "Give this user the right to read it, then look again",
            )
        ]
    except Exception as error:  # noqa: BLE001  # whatever a damaged file causes is the finding
        return [
            error_finding(
                name,
                f"it cannot be examined ({type(error).__name__}: {error})",
                "Look at the cause",
            )
        ]


def finding_of(error: BackfillError) -> Diagnosis:
    """Return an error of the product as a finding."""
    return error_finding(error.object, error.culprit, error.fix)
