"""What tests of a project's own tables need: a lake in a folder, landed rows, runs of days, rows of
a day, a clock.

Lives here: the few verbs of such a test, over the doors that production takes; nothing is replaced
at run time. Does not live here: reading rows for any other purpose (`reading`).
"""

import json
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from backfill_assets.engines.lake_session import ReorderedSession
from backfill_assets.engines.server import stop_server
from backfill_assets.engines.session import drop_session
from backfill_assets.kernel.core.clock import SECONDS, utc_now
from backfill_assets.kernel.core.days import inclusive_range, parse_day
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.settings import FILE_NAME, load_settings
from backfill_assets.kernel.write.candidate import RebuildRequest
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.pipeline.chosen import TablesOf, chosen_pipeline, tables_at
from backfill_assets.reading.opening import open_lake
from backfill_assets.reading.reader import instant_of

if TYPE_CHECKING:  # it is imported where something runs
    import dagster as dg

__all__ = [
    "Replayed",
    "assert_rows",
    "frozen_clock",
    "land",
    "materialize",
    "new_lake",
    "replay",
    "rows_of",
    "run_days",
    "temporary_lake",
]

LONG_AGO = 1_700_000_000  # files this old are not waited for
Day = date | str
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Replayed:
    """A day computed again by today's code from the inputs that its receipt names, beside what is
    written."""

    day: date
    added: int = 0  # rows that only today's code gives
    removed: int = 0  # rows that only the table has
    changed: int = 0  # rows of one key with other values
    columns: tuple[str, ...] = ()  # whose values these are
    passed_over: str = ""  # why the day cannot be computed again; "" where it was

    @property
    def equal(self) -> bool:
        """Whether the day was computed again and has the same rows."""
        return not (self.added or self.removed or self.changed or self.passed_over)


def new_lake(folder: Path, start: Day, **settings: Any) -> Lake:
    """A lake at `folder`, which is made, whose first day is `start`. `settings` are keys of
    `lake.toml`; a dict is a section: `pipeline={"tables": "pipeline.py:tables"}`. Called again, it
    writes `lake.toml` anew. Raises SettingsError for settings that no lake takes."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = "\n".join([f"start_date = {start}", *_toml_lines((), settings), ""])
    (folder / FILE_NAME).write_text(lines, encoding="utf-8")
    return _opened_lake(folder)


@contextmanager
def temporary_lake(
    start: Day, copied: Iterable[Path | str] = (), **settings: Any
) -> Iterator[Lake]:
    """A lake by `new_lake` in a folder of its own, with copies of some files (a `pipeline.py`)
    beside its `lake.toml`. At the end its server is stopped and the folder deleted."""
    with TemporaryDirectory(prefix="lake-") as folder:
        for path in copied:
            shutil.copy(path, folder)
        try:
            yield new_lake(Path(folder), start, **settings)
        finally:
            drop_session(Path(folder))
            stop_server(Path(folder), force=True)


def land(lake: Lake, name: str, rows: Iterable[Row]) -> Path:
    """Land a delivery: a file `landing/NAME` with a JSON object per row, old enough to be read at
    once."""
    path = lake.root / "landing" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def run_days(  # noqa: PLR0913 - what a run is asked for, and how it is run here
    lake: Lake,
    first: Day,
    last: Day | None = None,
    *,
    tables: Collection[str] | None = None,
    tables_of: TablesOf | None = None,
    instance: "dg.DagsterInstance | None" = None,
    raise_on_error: bool = True,
) -> "dg.ExecuteInProcessResult":
    """Make the days `first` through `last` (both included; None: `first`) of the lake's own tables,
    or of some `tables`, by one run of the job that the command and the browser run, in this
    process. `tables_of`: in place of the tables that `lake.toml` names. Raises what the run fails
    with."""
    from backfill_assets.dagster.adapter.assemble import assemble
    from backfill_assets.dagster.adapter.runs import REBUILD

    of = tables_of or tables_at(lake.root)
    if tables is None:
        tables = [t.name for t in of(load_settings(lake.root)) if not t.contract.is_given]
    job = assemble(lake.root, of, tables).resolve_job_def(REBUILD)
    with _chosen_instance(instance) as chosen:
        return job.execute_in_process(
            instance=chosen, tags=_range_tags(first, last), raise_on_error=raise_on_error
        )


def materialize(
    assets: Sequence[Any],
    first: Day,
    last: Day | None = None,
    *,
    resources: Mapping[str, Any],
    instance: "dg.DagsterInstance | None" = None,
    raise_on_error: bool = True,
) -> "dg.ExecuteInProcessResult":
    """Materialize the days `first` through `last` (both included; None: `first`) of daily assets in
    one run, in this process; `resources` name a LakeIOManager. Raises what the run fails with."""
    import dagster as dg

    with _chosen_instance(instance) as chosen:
        return dg.materialize(
            assets,
            instance=chosen,
            tags=_range_tags(first, last),
            resources=resources,
            raise_on_error=raise_on_error,
        )


def rows_of(lake: Lake | Path, table: str, day: Day) -> list[dict[str, Any]]:
    """The rows of a day of a table, in the order of its key, whether or not the day is up to
    date."""
    return [
        *open_lake(_lake_folder(lake), newest=True)
        .table(table)
        .days(day, unfit="take")
        .arrow()
        .to_pylist()
    ]


def assert_rows(lake: Lake | Path, table: str, day: Day, expected: Iterable[Row]) -> None:
    """Fail unless the day has these rows, in any order. Rows may name some of the columns: the
    others may have any value. The AssertionError names missing and unexpected rows, and of rows of
    one key the columns that differ."""
    wanted = [dict(row) for row in expected]
    columns = dict.fromkeys(name for row in wanted for name in row)
    found = rows_of(lake, table, day)
    if unknown := [c for c in columns if found and c not in found[0]]:
        raise AssertionError(
            f"{table} of {day} has no column {', '.join(unknown)}, but {', '.join(found[0])}"
        )
    given = [{c: row[c] for c in columns} if columns else row for row in found]
    missing, unexpected = _rows_without(wanted, given), _rows_without(given, wanted)
    key = [
        c
        for c in open_lake(_lake_folder(lake), newest=True).table(table).contract.key
        if c in columns
    ]
    lines = []
    for row in missing:
        twin = next((o for o in unexpected if key and all(o[k] == row.get(k) for k in key)), None)
        if twin is None:
            lines.append(f"missing: {row}")
            continue
        unexpected.remove(twin)
        differing = [
            f"{c} is {twin[c]!r}, not {row.get(c)!r}" for c in columns if twin[c] != row.get(c)
        ]
        lines.append(f"{', '.join(f'{k}={row[k]!r}' for k in key)}: {', '.join(differing)}")
    lines += [f"unexpected: {row}" for row in unexpected]
    if lines:
        raise AssertionError("\n  ".join([f"{table} of {day} has other rows:", *lines]))


@contextmanager
def frozen_clock(at: datetime | str) -> Iterator[None]:
    """Let the product read this instant (ISO text or datetime; UTC without an offset) as the time,
    in this process."""
    seconds = (instant_of(at) or utc_now()).timestamp()
    token = SECONDS.set(lambda: seconds)
    try:
        yield
    finally:
        SECONDS.reset(token)


def replay(lake: Lake, table: str, days: Iterable[Day]) -> list[Replayed]:
    """Compute written days of a table again by today's code and settings, from the inputs that
    their receipts name, in another order of rows, and compare. Commits nothing. Raises
    BackfillError for a day that was never written, for a table whose rows an asset returns, and
    what computing raises."""
    pipeline = chosen_pipeline(lake := _opened_lake(lake.root))
    contract = pipeline.contract(table, "Nothing was computed")
    if contract.made_by:
        culprit, advice = (
            f"the asset {contract.made_by} returns its rows",
            "Materialize its days and compare the rows",
        )
        raise BackfillError(f"the table {table}", culprit, "Nothing was computed", advice)
    asked = sorted({parse_day(str(day)) for day in days})
    written = lake.store.view(contract.name, contract.day_column).latest
    if never := [str(d) for d in asked if d not in written]:
        culprit = f"no receipt names {', '.join(never)}"
        raise BackfillError(
            f"the table {table}", culprit, "Nothing was computed", "Make these days first"
        )
    recompute = _recompute_days(table)
    found, known = [], KnownStates(lake, pipeline)
    for day in asked:
        request = RebuildRequest(
            ReorderedSession(lake),
            known,
            pipeline.table(table),
            inclusive_range(day, day),
            Provenance("replay"),
        )
        verdict = recompute(request, by_any_code=True)
        off = next(iter(verdict.differing), None)
        differing: tuple[int, int, int, tuple[str, ...]] = (
            (off.added, off.removed, off.changed, tuple(off.columns)) if off else (0, 0, 0, ())
        )
        found.append(Replayed(day, *differing, passed_over=verdict.days[0].passed_over))
    return found


def _recompute_days(table: str) -> Callable[..., Any]:
    """What computes days again. Raises BackfillError where its room is not installed."""
    recompute: Callable[..., Any] | None = offered_function("recompute")
    if recompute is None:
        raise BackfillError(
            f"the table {table}",
            "this installation lacks the room compare, which computes days again",
            "Nothing was computed",
            "Install the package whole",
        )
    return recompute


def _opened_lake(folder: Path) -> Lake:
    """The lake as its `lake.toml` is now; the process keeps its umask."""
    return Lake(folder, load_settings(folder))


def _lake_folder(lake: Lake | Path) -> Path:
    return lake.root if isinstance(lake, Lake) else lake


def _range_tags(first: Day, last: Day | None) -> dict[str, str]:
    from backfill_assets.dagster.adapter.runs import RANGE_END, RANGE_START

    return {RANGE_START: str(first), RANGE_END: str(first if last is None else last)}


@contextmanager
def _chosen_instance(given: "dg.DagsterInstance | None") -> "Iterator[dg.DagsterInstance]":
    if given is not None:
        yield given
        return
    import dagster as dg

    with dg.DagsterInstance.ephemeral() as made:
        yield made


def _rows_without(rows: Iterable[Any], others: Iterable[Any]) -> list[Any]:
    """The rows less the others, each as often as it is there."""
    left = list(rows)
    for row in others:
        if row in left:
            left.remove(row)
    return left


def _toml_lines(names: tuple[str, ...], body: Row) -> Iterator[str]:
    """The lines of a section: values first, then the sections in it."""
    yield from (
        f"{key} = {_toml_literal(v)}" for key, v in body.items() if not isinstance(v, Mapping)
    )
    for key, value in body.items():
        if isinstance(value, Mapping):
            yield f"[{'.'.join((*names, key))}]"
            yield from _toml_lines((*names, key), value)


def _toml_literal(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml_literal, value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{k} = {_toml_literal(v)}' for k, v in value.items())} }}"
    return (
        str(value) if isinstance(value, date) else json.dumps(value)
    )  # JSON's literals are TOML's
