"""The errors of the product: what broke, who did it, what did not happen, what to do.

Lives here: the base class and the few kinds that callers tell apart (permanent, transient, finding nothing).
Does not live here: recorded findings (an error is raised when a promise is broken; a finding is kept and reported).
"""

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


class BackfillError(Exception):
    """A broken promise, in four parts so that every message reads the same.

    `object` names the thing (a table, a file, a setting), `culprit` what is wrong with it, `consequence` what did
    not happen because of it, and `fix` the next command or edit. Picklable, because executors ship errors between
    processes. Permanent: retrying the same call cannot help (see `TransientError`).
    """

    def __init__(self, object: str, culprit: str, consequence: str, fix: str) -> None:
        super().__init__(object, culprit, consequence, fix)
        self.object, self.culprit, self.consequence, self.fix = object, culprit, consequence, fix

    def __str__(self) -> str:
        """One line: object: culprit. Consequence. Fix."""
        return f"{self.object}: {self.culprit}. {self.consequence}. {self.fix}."


def section_of(source: str) -> str:
    """The section of `lake.toml` that says what this source delivers; "" is a lake's only one."""
    return f"[sources.{source}]" if source else "[source]"


class TransientError(BackfillError):
    """A failure that a later identical call may survive: a lost server, a commit conflict, a held lock."""


class EngineLost(TransientError):
    """The Spark engine died or cannot be reached."""


class Superseded(TransientError):
    """Another receipt touched the same days since our base version and our inputs are no longer the newest."""


class ContractBroken(BackfillError):
    """A blocking rule failed: nothing was written. The evaluations are kept by the caller."""


class SettingsError(BackfillError):
    """A setting in `lake.toml` or the environment is missing or out of bounds."""

    def of_source(self, name: str) -> "SettingsError":
        """The same of the section that this source has: `[sources.NAME]` instead of `[source]`."""
        return SettingsError(*(part.replace("[source]", section_of(name)) for part in self.args))


class LandingError(BackfillError):
    """The landing folder contradicts the ledger: an altered, vanished or miscounted file."""


class Altered(BackfillError):
    """A data file is not as it was written: something else than this package changed it in place."""


class InputMissing(BackfillError):
    """The day itself does not exist in an input table."""


class DaysHeld(BackfillError):
    """Days that a rollback put back and that are to be left alone."""


@contextmanager
def telling_source(name: str) -> Iterator[None]:
    """Within, what is wrong with settings is told of the section of this source; "" is a lake's only one."""
    try:
        yield
    except SettingsError as error:
        if not name:
            raise
        raise error.of_source(name) from error


def line_in(error: BaseException, file: Path) -> int | None:
    """The line of the file at which the error arose: the innermost that lies in it; None where none does."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return lines[-1] if lines else None


class GateRefused(BackfillError):
    """The gate after a plan's chunk found something. `facts` are for programs and people who act: `plan`, `chunk`, and
    the command that comes next by its name (`rollback`, or `release` where the chunk was put back already)."""

    facts: Mapping[str, str] = {}

    def with_facts(self, **facts: str) -> "GateRefused":
        """The same, with these facts."""
        self.facts = facts
        return self


def unusable(error: OSError, fix: str = "") -> BackfillError:
    """The one line for a file or folder that the system refuses: full, read-only, another user's, not a folder."""
    return BackfillError(
        str(error.filename or "a file"), (error.strerror or str(error)).lower(),
        "What was being done was not finished",
        fix or "Give this user the right to read and write there, and see that its disk has space, then run again",
    )  # fmt: skip
