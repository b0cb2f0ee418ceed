"""Work of this package that the machines of an engine elsewhere do in Python, where they reach a
lake's bucket.

Here: tasks, their results as text, and whether an engine can run them. Not here: what is worked on
(`machine_audit`, `upkeep.housekeeping`), and landed files (`intake.tasks`). Machines import this
module and what the work needs: a task tells if their code is another. What they cannot do the
caller does in its own process: nothing is refused for it.
"""

import json
import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from backfill_assets.engines.loss import is_engine_loss
from backfill_assets.kernel.core.texts import printable_text
from backfill_assets.kernel.place.port import Place
from backfill_assets.kernel.tables.settings import FILE_NAME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Work = Callable[[Any, str], Any]  # of an item and a folder that is deleted afterwards
ANSWER_COLUMNS = "answer string, failed string"
REASON_CHARS = 300
AT_ONCE = 256  # tasks of one query: each is sent the list of all
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MachineTasks:
    """Tasks by their numbers from 0: each does `work` on its item, in a process whose code is the
    caller's."""

    code: str
    work: Work
    items: Sequence[Any]

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A row of `ANSWER_COLUMNS` for each number that arrives."""
        for batch in batches:
            found = [self._answer(number) for number in batch.column(0).to_pylist()]
            columns = [pa.array(texts, pa.string()) for texts in zip(*found, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, names=["answer", "failed"])

    def _answer(self, number: int) -> tuple[str | None, str | None]:
        """The result of a task as text, or else why there is none."""
        if self.code != code_digest():
            return None, "another release of backfill-assets or of DuckDB is installed there"
        # The machine's own folder of copies may be another user's.
        with tempfile.TemporaryDirectory(prefix="task-") as folder:
            try:
                return as_text(self.work(self.items[number], folder)), None
            except Exception as error:  # noqa: BLE001 - the caller, who does the work itself, meets it again
                return None, f"{type(error).__name__}: {error}"[:REASON_CHARS]


def answers_there(
    session: "SparkSession",
    place: Place,
    work: Work,
    items: Sequence[Any],
    what: str,
    at_once: int = AT_ONCE,
) -> list[Any] | None:
    """The results of `work` on these items, in their order, from tasks on the machines of a
    session's engine, which reach the lake's `place`. None where one of them has none, with a
    warning that names `what` this process has to do. Raises the loss of the engine.

    `work` is a function of a module, which changes nothing but what its item names. A result is
    made of numbers, texts, days, instants, lists and mappings.
    """
    if machines_fault(session, place):
        return None
    found = list[Any]()
    try:
        for first in range(0, len(items), at_once):
            found += _answers_of(session, work, items[first : first + at_once])
    except Exception as error:
        if is_engine_loss(error):
            raise
        why = printable_text(last_error_line(error))
        log.warning("no task of the engine did %s (%s): this process does", what, why)
        return None
    return found


@lru_cache(maxsize=4)
def machines_fault(session: "SparkSession", place: Place) -> str:
    """Why the Python of one of the session's machines does no work on a lake; empty if it does.
    Asked once for a session; each task looks at the code of its own machine."""
    wanted = place.token(FILE_NAME)
    try:
        (token,) = _answers_of(session, settings_mark, [place])
        why = "" if wanted and token == str(wanted.mark) else f"it does not find {place.uri()}"
    except Exception as error:
        if is_engine_loss(error):
            raise
        why = last_error_line(error)
    if why:
        told = printable_text(why)
        log.warning("the engine's machines run no tasks (%s): what they would do passes here", told)
    return why


def settings_mark(place: Place, folder: str) -> str:
    """The mark of the settings of the lake at a place, as a machine finds it."""
    token = place.keeping_copies(folder).token(FILE_NAME)
    return "" if token is None else str(token.mark)


class _NoAnswer(Exception):
    """A task gave none; the text says why."""


def _answers_of(session: "SparkSession", work: Work, items: Sequence[Any]) -> list[Any]:
    tasks, many = MachineTasks(code_digest(), work, items), len(items)
    numbered = session.range(0, many, 1, many)
    found = numbered.mapInArrow(tasks.run, ANSWER_COLUMNS).collect()
    for row in found:
        if row["failed"]:
            raise _NoAnswer(row["failed"])
    return [from_text(row["answer"]) for row in found]


def last_error_line(error: Exception) -> str:
    """The last line of an error of Python on another machine, which says more than the first."""
    lines = [line for line in str(error).splitlines() if not line.startswith("\tat ")]
    said = [line.strip() for line in lines if line.strip()]
    return (said or [type(error).__name__])[-1][:REASON_CHARS]


@lru_cache(maxsize=1)
def code_digest() -> str:
    """A digest of the code of this package, and of the DuckDB that it asks."""
    top = Path(__file__).parent.parent
    contents = (path.read_bytes() for path in sorted(top.rglob("*.py")))
    return sha256(b"".join(contents) + version("duckdb").encode()).hexdigest()


def as_text(value: Any) -> str:
    """A result as text. Raises TypeError for what a result cannot be made of."""
    return json.dumps(_plain_value(value))


def from_text(text: str) -> Any:
    """The result whose text `as_text` gave; sequences are lists."""
    return _read_value(json.loads(text))


def _plain_value(value: Any) -> Any:
    """A value as JSON keeps it: what it has no word for is an object of its kind and content."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {"map": [[_plain_value(key), _plain_value(item)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        return [_plain_value(item) for item in value]
    for kind, name, text in KINDS:
        if isinstance(value, kind):
            return {name: text(value)}
    raise TypeError(f"a result holds a {type(value).__name__}")


# An instant is a date, too, and so comes first.
KINDS: tuple[tuple[type, str, Callable[[Any], str]], ...] = (
    (Decimal, "decimal", str),
    (datetime, "instant", datetime.isoformat),
    (date, "day", date.isoformat),
)
READ: Mapping[str, Callable[[Any], Any]] = {
    "decimal": Decimal,
    "instant": datetime.fromisoformat,
    "day": date.fromisoformat,
}


def _read_value(found: Any) -> Any:
    if isinstance(found, list):
        return [_read_value(item) for item in found]
    if not isinstance(found, dict):
        return found
    ((name, content),) = found.items()
    if name == "map":
        return {_read_value(key): _read_value(item) for key, item in content}
    return READ[name](content)
