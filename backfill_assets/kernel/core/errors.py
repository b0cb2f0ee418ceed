"""The errors of the product, in four parts: what broke, why, what did not happen, what to do.

Not here: findings that are kept and reported instead of raised (`upkeep.doctor_tables`).
"""

import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path

from backfill_assets.kernel.core.texts import known_names_advice, one_line, scrub_secrets

NOT_RUN = "The transform was not run, and nothing was written"
OTHER_ROWS_ALONE = "computed alone has other rows than among"
OTHER_ROWS_AGAIN = "computed again, from its inputs in another order, has other rows"
OTHER_TYPE = "a column's type cannot change but to a wider one"
# Texts in errors that tell a fault of code or contracts, whatever the days.
CODE_FAULTS = (NOT_RUN, OTHER_ROWS_ALONE, OTHER_ROWS_AGAIN, OTHER_TYPE)
ALSO = " Also: "  # between the causes of one failure, each of which ends with a full stop


class BackfillError(Exception):
    """An error that a retry cannot help (else: `TransientError`); picklable, as executors ship it
    between processes.

    `object` names the thing (a table, a file, a setting), `culprit` what is wrong with it,
    `consequence` what did not happen because of it, and `fix` the next command or edit. None of
    them holds a secret, whatever it was made of. `by_day`: of a request that was refused as a
    whole, why each day was not written; empty where no day is to blame.
    """

    by_day: Mapping[date, str] = {}
    also: Sequence["BackfillError"] = ()  # errors of other sources, each to be shown after this one

    def __init__(self, object: str, culprit: str, consequence: str, fix: str) -> None:
        parts = [scrub_secrets(part) for part in (object, culprit, consequence, fix)]
        super().__init__(*parts)
        self.object, self.culprit, self.consequence, self.fix = parts

    def __str__(self) -> str:
        """One line, whatever it quotes: object: culprit. Consequence. Fix."""
        culprit = self.culprit
        if not culprit.endswith((".", "?", "!")):  # as another program's words may
            culprit += "."
        return one_line(f"{self.object}: {culprit} {self.consequence}. {self.fix}.")


def never_written_error(what: str, consequence: str) -> BackfillError:
    """The error about work (`what`) on days of which none was ever written."""
    return BackfillError(
        what,
        "none of these days was written",
        consequence,
        "`backfill-assets status` shows which days are",
    )


def source_section(source: str) -> str:
    """The section of `lake.toml` that says what this source delivers; "" is a lake's only one."""
    if source:
        return f"[sources.{source}]"
    return "[source]"


class TransientError(BackfillError):
    """A failure that an identical call may survive later: a lost server, a commit conflict, a held
    lock."""


class EngineLost(TransientError):
    """The Spark engine died or cannot be reached."""


class Superseded(TransientError):
    """Another write touched the same days since our base version, and our inputs are no longer the
    newest."""


class ContractBroken(BackfillError):
    """A blocking rule failed, and nothing was written."""


class DaysKeptBack(ContractBroken):
    """Some days of a run were refused and stayed as they were; its other days were written."""


class SettingsError(BackfillError):
    """A setting in `lake.toml` or the environment is missing or out of bounds."""

    def of_source(self, name: str) -> "SettingsError":
        """The same error with the section of this source: `[sources.NAME]` instead of
        `[source]`."""
        return SettingsError(
            *(part.replace("[source]", source_section(name)) for part in self.args)
        )


class UnknownName(SettingsError):
    """A table, plan, candidate or the like that a person named and that does not exist: wrong
    usage."""


def refuse_unknown_names(
    kind: str, names: Iterable[str], known: Collection[str], consequence: str
) -> None:
    """Raise UnknownName with that `consequence` for the first name that is none of the `known` ones
    of its kind."""
    for name in names:
        if name not in known:
            raise UnknownName(
                f"the {kind} {name!r}",
                f"there is no such {kind}",
                consequence,
                known_names_advice(name, known),
            )


class Altered(BackfillError):
    """Another program changed a data file in place, or removed it."""


class InputMissing(BackfillError):
    """The day itself does not exist in an input table. `lacking`: the input days that were never
    made, by table; empty where others are to blame."""

    lacking: Mapping[str, Collection[date]] = {}


class DaysHeld(BackfillError):
    """Days that nobody may write before a person says so: a rollback holds them, or they are
    closed."""


@contextmanager
def errors_of_source(name: str) -> Iterator[None]:
    """Make SettingsErrors raised within name the section of this source; "" is a lake's only
    one."""
    try:
        yield
    except SettingsError as error:
        if not name:
            raise
        raise error.of_source(name) from error.__cause__


def place_of_error(error: BaseException, files: Collection[Path]) -> tuple[Path, int | None] | None:
    """The innermost of these files in the error's traceback, and the line in it; of a SyntaxError
    its own place."""
    if isinstance(error, SyntaxError) and error.filename:
        return Path(error.filename), error.lineno
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename) in files:
            return Path(frame.filename), frame.lineno
    return None


class GateRefused(BackfillError):
    """The gate after a plan's chunk found something; `facts` name the `plan`, the `chunk` and the
    next command (`rollback`, or `release` where the chunk was put back already)."""

    facts: Mapping[str, str] = {}

    def with_facts(self, **facts: str) -> "GateRefused":
        """The error with these facts."""
        self.facts = facts
        return self


def unusable_file_error(error: OSError, fix: str = "") -> BackfillError:
    """The error about a file or folder that the system refuses: full, read-only, another user's,
    not a folder."""
    usual_fix = (
        "Give this user the right to read and write there, and see that its disk has space, then "
        "run again"
    )
    return BackfillError(
        str(error.filename or "a file"),
        (error.strerror or str(error)).lower(),
        "What was being done was not finished",
        fix or usual_fix,
    )


def raise_first_error(failed: Sequence[BackfillError]) -> None:
    """Raise the first of some errors, if there is one; it names the others `also`."""
    for error in failed:
        error.also = failed[1:]
        raise error
