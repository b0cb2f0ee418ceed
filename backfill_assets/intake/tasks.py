"""How the files of a source are taken in, and tasks that do it in other processes, which reach the
store by themselves.

Not here: parsing and proving (`ingest`, `content_store`), and whoever starts the tasks
(`intake.taking`). Engines run them in Python on their machines, so this module imports little and
no Spark.
"""

import hashlib
import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from backfill_assets.intake.content_store import StoredFile, note_mark
from backfill_assets.intake.dialect import Dialect
from backfill_assets.intake.files import LandedFile
from backfill_assets.intake.ingest import ingest, ingest_in_place
from backfill_assets.kernel.place.port import Place, Token

# The columns of a task's rows: a file's name, and `TakenFile`.
TAKEN_COLUMNS = "name string, sha256 string, described string, failed string"
REASON_CHARS = 300


class TakenFile(NamedTuple):
    """The outcome of a file that a task was to take in: a content and its description, or why there
    is none. Either `sha256` and `described` are set, or `failed`."""

    sha256: str | None = None
    described: str | None = None  # the content's description, as JSON
    failed: str | None = None


@dataclass(frozen=True)
class Intake:
    """How the files of a source are taken into a content store."""

    format: str
    dialect: Dialect
    by_path: bool  # a content is named by its path, too
    in_place: bool | int  # Parquet stays where it landed; a number: from so many bytes on
    is_undecoded: bool  # nobody but the engine looks into the pages of Parquet that stays

    def stored(self, file: LandedFile, store: Place, is_local: bool = False) -> StoredFile:
        """Put the content of a landed file into a store; of Parquet that stays perhaps for this
        machine alone (`is_local`). Raises as `ingest` does."""
        if self.in_place and (self.in_place is True or file.size >= self.in_place):
            like = StoredFile(
                sha256="", store=store, name="", is_undecoded=self.is_undecoded, is_local=is_local
            )
            return ingest_in_place(file, like, self.by_path)
        return ingest(file, self.format, store, by_path=self.by_path, dialect=self.dialect)


@dataclass(frozen=True)
class Probe:
    """Whether another process has this code and reaches an object of this token."""

    code: str
    place: Place
    name: str
    token: Token | None  # None: it was gone when the caller looked

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A row for each that arrives: why tasks cannot run in this process; empty if they can."""
        for batch in batches:
            yield _text_rows([(self.why_not(),)] * batch.num_rows, "why string")

    def why_not(self) -> str:
        """Why tasks cannot run in this process; empty if they can."""
        if self.code != code_digest():
            return "another release of backfill-assets is installed there"
        try:
            # This machine's own folder of copies may be another user's.
            with tempfile.TemporaryDirectory(prefix="intake-") as folder:
                is_same = self.place.keeping_copies(folder).token(self.name) == self.token
        except Exception as error:  # noqa: BLE001 - it is the answer
            return f"{type(error).__name__}: {error}"[:REASON_CHARS]
        if self.token is not None and is_same:
            return ""
        return f"they do not find {self.place.uri(self.name)} as it is"


@dataclass(frozen=True)
class Tasks:
    """Tasks, by their numbers from 0: one process takes in the files of a task one after the other,
    if the probe says that it may. Each task asks: machines come and go while others work."""

    intake: Intake
    store: Place
    files: Sequence[Sequence[LandedFile]]
    probe: Probe

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take in the files of the tasks whose numbers arrive; a row of `TAKEN_COLUMNS` for each
        file."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                why_not = self.probe.why_not()
                rows = [
                    (file.name, *self._taken_file(file, why_not)) for file in self.files[number]
                ]
                yield _text_rows(rows, TAKEN_COLUMNS)

    def _taken_file(self, file: LandedFile, why_not: str) -> TakenFile:
        """Take in a file, unless tasks cannot run in this process (`why_not`)."""
        if why_not:
            return TakenFile(failed=why_not)
        # This machine's own folder of copies may be another user's.
        with tempfile.TemporaryDirectory(prefix="intake-") as folder:
            try:
                here = file
                if file.place is not None:
                    here = replace(file, place=file.place.keeping_copies(folder))
                content = self.intake.stored(here, self.store.keeping_copies(folder))
                return TakenFile(content.sha256, json.dumps(note_mark(content)))
            except Exception as error:  # noqa: BLE001 - the process that started the task meets it again
                return TakenFile(failed=f"{type(error).__name__}: {error}"[:REASON_CHARS])


def code_digest() -> str:
    """A digest of the code of this room, by which files are judged."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def _text_rows(rows: Sequence[Sequence[str | None]], schema: str) -> pa.RecordBatch:
    """Rows of texts as a batch; `schema` as Spark writes it: `name string, …`."""
    names = [column.split()[0] for column in schema.split(", ")]
    columns = [pa.array(values, pa.string()) for values in zip(*rows, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=names)
