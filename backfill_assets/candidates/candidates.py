"""Candidates: other versions of a lake's tables, with code or settings of their own.

A candidate is a lake of its own, `LAKE/.candidates/NAME`, that writes its own tables and reads all
others from the lake beside it, as they are now; every command works on it. Not here: its folders
(`kernel.tables.folder`) and making its days current (`publications`).
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from backfill_assets.cli.common import CandidateForm
from backfill_assets.kernel.core.addresses import CANDIDATES, address_of
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import ranges_text
from backfill_assets.kernel.core.digests import with_digest
from backfill_assets.kernel.core.errors import BackfillError, refuse_unknown_names
from backfill_assets.kernel.core.ownership import whoami
from backfill_assets.kernel.core.states import State
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.place.port import AlreadyThere, Changed
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.kernel.tables.table_places import CANDIDATE_FILE
from backfill_assets.kernel.tables.versions import unfinished_switches
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.readable import readable_with
from backfill_assets.reading.whole import candidates_of

CANDIDATE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# A day whose labels are not mature yet is published as it is.
FIT_STATES = (
    State.FRESH,
    State.PROVISIONAL,
    State.INCOMPLETE,
)
# A Python file and all that it imports from beside it, itself first.
Reach = Callable[[Path], tuple[Path, ...]]
NOT_MADE = "Nothing was made"


@dataclass(frozen=True)
class CandidateStatus:
    """What a candidate has built."""

    name: str
    folder: Path
    tables: Mapping[str, tuple[date, ...]]  # per table the days that it has built
    behind: Mapping[str, tuple[date, ...]]  # the built days that `publish` refuses
    error: str = ""  # why nothing is known; "": nothing is wrong

    def __str__(self) -> str:
        """The candidate as one line."""
        built = ", ".join(f"{t} {ranges_text(days) or 'no day'}" for t, days in self.tables.items())
        behind = ", ".join(f"{t} {ranges_text(days)}" for t, days in self.behind.items() if days)
        state = f"behind: {behind}" if behind else "up to date"
        return f"candidate {self.name}: {built}; {self.error or state}"

    def to_dict(self) -> CandidateForm:
        """The candidate as JSON values, days as text."""
        return {
            "name": self.name,
            "error": self.error,
            "folder": address_of(self.folder),
            "tables": [*self.tables],
            "days": {table: ranges_text(days) for table, days in self.tables.items()},
            "behind": {table: ranges_text(days) for table, days in self.behind.items()},
        }


def candidate_status(
    lake: Lake, name: str, pipeline_of: Callable[[Lake], Pipeline]
) -> CandidateStatus:
    """What a candidate has built; `pipeline_of` gives its pipeline. Raises nothing: the status says
    what is wrong."""
    folder = folder_of_candidate(lake, name)
    try:
        candidate = find_candidate(lake, name)
        own_pipeline = pipeline_of(candidate)
        known = readable_with(candidate, own_pipeline, candidate.own)
        states = known.states(read_view(candidate, known.contracts))
    except BackfillError as error:
        facts = lake.place.read_json(f"{CANDIDATES}/{name}/{CANDIDATE_FILE}")
        named = facts.get("tables")
        unread = dict.fromkeys(sorted(map(str, named if isinstance(named, list) else ())), ())
        return CandidateStatus(
            name=name,
            folder=folder,
            tables=unread,
            behind={},
            error=f"it cannot be read: {error.culprit}",
        )
    built, behind = dict[str, tuple[date, ...]](), dict[str, tuple[date, ...]]()
    for table in sorted(candidate.own):
        built[table] = tuple(sorted(states.view.table(table).latest))
        if unfit := tuple(day for day in built[table] if states.of(table, day) not in FIT_STATES):
            behind[table] = unfit
    return CandidateStatus(name, folder, built, behind)


def folder_of_candidate(lake: Lake, name: str) -> Path:
    """The folder of a candidate of that name; it need not exist."""
    return lake.root / CANDIDATES / name


def candidate_names(lake: Lake) -> list[str]:
    """The names of a lake's candidates, ascending."""
    return candidates_of(lake.place).names()


def candidate_statuses(
    lake: Lake, pipeline_of: Callable[[Lake], Pipeline]
) -> list[CandidateStatus]:
    """The status of each candidate of the lake; `pipeline_of` as for `candidate_status`."""
    return [candidate_status(lake, name, pipeline_of) for name in candidate_names(lake)]


def find_candidate(lake: Lake, name: str) -> Lake:
    """Open a candidate; raises UnknownName if there is none of that name."""
    refuse_unknown_names("candidate", [name], candidate_names(lake), "Nothing was done")
    return open_lake(folder_of_candidate(lake, name), is_further=True)


def create_candidate(
    lake: Lake,
    pipeline: Pipeline,
    name: str,
    tables: Collection[str],
    reached: Reach,
    note: str = "",
) -> Lake:
    """Make an empty candidate of some tables, with copies of lake.toml and of the user's own
    pipeline files; `reached` gives a file and its imports. Raises BackfillError for a name that is
    taken or not allowed, and unknown tables."""
    _refuse_bad_name(lake, name)
    own = [pipeline.contract(t, NOT_MADE) for t in tables]
    _refuse_unfit_tables(pipeline, name, own)
    by, at = whoami(), utc_now().isoformat()
    facts = {"tables": [c.name for c in own], "by": by, "at": at, "note": note}
    candidates = candidates_of(lake.place)
    try:
        with candidates.alone(), candidates.making(name) as finish:
            for file in _own_files(lake, reached):
                copy = f"{name}/{file.relative_to(lake.root).as_posix()}"
                candidates.place.write(copy, file.read_bytes())
            finish(json.dumps(with_digest(facts)).encode())
    except AlreadyThere:
        fix = f"Choose another name, or `backfill-assets candidate discard {name} --yes`"
        raise candidate_error(name, "it is there already", NOT_MADE, fix) from None
    except Changed:
        culprit = "another command took it for one that was stopped"
        raise candidate_error(name, culprit, NOT_MADE, "Do it again") from None
    return open_lake(folder_of_candidate(lake, name), is_further=True)


def _refuse_bad_name(lake: Lake, name: str) -> None:
    """Raise BackfillError for a name with other signs, and for a candidate of a candidate."""
    why = ""
    if not CANDIDATE_NAME.fullmatch(name):
        why = "it is no name of letters, digits, `.`, `_` and `-`"
    if lake.shared is not None:
        why = "the lake is one itself"
    if why:
        raise candidate_error(name, why, NOT_MADE, "Choose another name, or the lake beside it")


def _refuse_unfit_tables(pipeline: Pipeline, name: str, own: Collection[Contract]) -> None:
    """Raise BackfillError where a candidate cannot build these tables, or not without others."""
    if unfit := [c.name for c in own if c.is_landed or c.is_given or not c.is_by_day]:
        others = "returned by an asset of a project, written by others"
        why = f"{', '.join(unfit)} is loaded from files, {others}, or not laid out by its day"
        fix = "Choose tables that are made from other tables, one folder a day"
        raise candidate_error(name, why, NOT_MADE, fix)
    if between := _tables_between(pipeline, {c.name for c in own}):
        why = f"{', '.join(between)} is made from one of these tables, and another of them reads it"
        raise candidate_error(name, why, NOT_MADE, f"Name {', '.join(between)} in --tables, too")


def _tables_between(pipeline: Pipeline, own: Collection[str]) -> list[str]:
    """The other tables that are made from one of these and read by one of these, directly or
    through others."""
    downstream, upstream = set(own), set(own)
    for contract in pipeline.contracts:
        if any(wanted.table in downstream for wanted in contract.inputs):
            downstream.add(contract.name)
    for contract in reversed(pipeline.contracts):
        if contract.name in upstream:
            upstream.update(wanted.table for wanted in contract.inputs)
    between = (downstream & upstream) - set(own)
    return [c.name for c in pipeline.contracts if c.name in between]


def _own_files(lake: Lake, reached: Reach) -> Iterator[Path]:
    """The files of the lake's folder that say what its tables are."""
    yield lake.root / FILE_NAME
    place = (lake.settings.pipeline.tables or "").rpartition(":")[0]
    if place.endswith(".py"):
        for file in reached(lake.root / place):
            if file.is_relative_to(lake.root):
                yield file
    if lake.settings.pipeline.sql:
        yield from sorted(lake.root.glob(lake.settings.pipeline.sql))


def discard_candidate(lake: Lake, name: str, act: bool = True) -> None:
    """Delete a candidate with all that it built (without `act` only say what hinders it); days that
    were published stay. Raises BackfillError if a publication of it was stopped.

    Killed meanwhile, the candidate is gone; the next call deletes what is left of its folder.
    """
    candidates = candidates_of(lake.place)
    refuse_unknown_names(
        "candidate", [name], [*candidates.names(), *candidates.leftovers()], "Nothing was deleted"
    )
    for work in unfinished_switches(lake):
        if work.what.split(" of ")[0] == publication_text(name):
            raise candidate_error(name, str(work), "Nothing was deleted", "Then discard it")
    if act:
        with candidates.alone():
            candidates.delete(name)
            # In a bucket: what this machine keeps of it.
            Folder(str(lake.root)).delete_below(f"{CANDIDATES}/{name}")


def publication_text(name: str) -> str:
    """The publication of a candidate in words."""
    return f"publish {name}"


def candidate_error(name: str, culprit: str, consequence: str, fix: str) -> BackfillError:
    """The refusal to do something with a candidate."""
    return BackfillError(f"the candidate {name}", culprit, consequence, fix)
