"""What the last judgement of each control found, in a small file of the lake.

Not here: judging (`reconcile`). Imports no engine: `status` reads it.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.records import json_of, record_of
from backfill_assets.kernel.core.rooms import offered_function
from backfill_assets.kernel.place.port import LOCKS
from backfill_assets.kernel.tables.folder import RECONCILED
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.queries import QUERY, named_tables
from backfill_assets.reading.settings import ControlSettings, controls_of

if TYPE_CHECKING:
    from backfill_assets.reading.system_tables import CheckedDay, LakeLook

OUTCOMES = "controls.json"
REPORT = re.compile(r"[^.]{8}-[^.]{6}-[^.]{6}\.json")  # of a reconciliation
SECOND = timedelta(seconds=1)  # outcomes are dated to the second


@dataclass(frozen=True)
class ControlOutcome:
    """The outcome of a control."""

    name: str
    holds: bool
    broken: int = 0  # number of values that differ; all expected ones where the query has none
    words: str = ""  # the first of them
    error: str = ""  # why it could not be judged; "": it was
    at: str = ""

    def __str__(self) -> str:
        """The outcome as one line."""
        return f"control {self.name}: {self.message}"

    @property
    def message(self) -> str:
        """The outcome without the control's name."""
        if self.error:
            return f"could not be judged: {self.error}"
        return "holds" if self.holds else f"{self.broken} value(s) differ: {self.words}"


Judge = Callable[..., Sequence[ControlOutcome]]


def last_outcomes(lake: Lake) -> list[ControlOutcome]:
    """Return the newest outcome of every control that was judged and is still declared; reads one
    small file."""
    outcomes = lake.place.read_record(
        f"{RECONCILED}/{OUTCOMES}",
        lambda body: [record_of(ControlOutcome, o) for o in body.values()],
        "Delete it, then `backfill-assets controls` judges again",
    )
    return [outcome for outcome in outcomes if outcome.name in controls_of(lake.settings)]


def judge_all_controls(lake: Lake, pipeline: Pipeline) -> Sequence[ControlOutcome]:
    """Judge all controls now. Raises as `judge_declared_controls`."""
    return judge_declared_controls(offered_function("judge_controls"), lake, pipeline)


def judge_controls_of(
    lake: Lake, pipeline: Pipeline, tables: Collection[str]
) -> Sequence[ControlOutcome]:
    """Judge now the controls that read one of these tables, or a table made from them. Raises as
    `judge_declared_controls`."""
    return judge_declared_controls(offered_function("judge_controls_over"), lake, pipeline, tables)


def judge_declared_controls(
    judge: Judge | None, lake: Lake, *asked: Any
) -> Sequence[ControlOutcome]:
    """What `judge` says of a lake; nothing of one without controls. Raises SettingsError where
    there are controls and no judge: a gate that is not there is not passed."""
    if not controls_of(lake.settings):
        return ()
    if judge is None:
        raise SettingsError(
            f"the controls of {lake.address}/{FILE_NAME}",
            "no room of this installation judges them",
            "Nothing was judged, and no gate was passed",
            "Install backfill_assets with its room `reconcile`, or take [controls] out",
        )
    return judge(lake, *asked)


def keep_outcomes(lake: Lake, outcomes: Iterable[ControlOutcome]) -> None:
    """Keep the newest outcome of each control."""
    with lake.place.lock(
        f"{LOCKS}/{OUTCOMES}", "the outcomes of controls"
    ):  # another process may judge others
        newest = {o.name: o for o in (*last_outcomes(lake), *outcomes)}
        lake.place.write_json(f"{RECONCILED}/{OUTCOMES}", json_of(newest))


def broken_controls(lake: Lake, pipeline: Pipeline) -> Iterator[str]:
    """Yield a line per control that did not hold when it was last judged: when that was, and
    whether a table that it reads was written since."""
    controls = controls_of(lake.settings)
    for outcome in last_outcomes(lake):
        if outcome.holds:
            continue
        at, read = datetime.fromisoformat(outcome.at), tables_read(controls[outcome.name])
        tables = [c.name for c in pipeline.contracts if read is None or c.name in read]
        newer = [name for name in tables if _last_write(lake, name, at) >= at + SECOND]
        since = f", before the last write of {', '.join(newer)}" if newer else ""
        again = ": `backfill-assets controls` judges again" if newer else ""
        yield f"{outcome}; judged {at:%Y-%m-%d %H:%M} UTC{since}{again}"


def _last_write(lake: Lake, table: str, since: datetime) -> datetime:
    """The time of the newest commit that wrote days or is another program's; `since` without
    any."""
    writes = (c.at for c in lake.store.newest_commits(table) if c.receipt is None or c.receipt.days)
    return next(writes, since)


def tables_read(control: ControlSettings) -> frozenset[str] | None:
    """Return the names of tables in a control's two sides; None where they cannot be parsed."""
    query, expected = named_tables(control.query), control.expected
    side: frozenset[str] | None = frozenset({expected.partition("@")[0]})
    if expected.startswith(QUERY):
        side = named_tables(expected.removeprefix(QUERY))
    return None if query is None or side is None else query | side


def checked_controls(look: "LakeLook") -> Iterator["CheckedDay"]:
    """Yield a row of `system.checks` per control that was judged."""
    from backfill_assets.reading.system_tables import CheckedDay

    for o in last_outcomes(look.lake):
        yield CheckedDay(
            table="",
            check=f"control {o.name}",
            day=None,
            outcome="pass" if o.holds else "fail",
            what=o.message,
        )


def recorded_mismatches(lake: Lake, most: int = 100) -> dict[str, int]:
    """Return the mismatches of the newest record of each pair of sides, by both sides; reads the
    newest `most`."""
    names = sorted(n for n in lake.place.names(RECONCILED) if REPORT.fullmatch(n))[-most:]
    fix = "Delete it, then compare again: `backfill-assets reconcile`"
    found = (lake.place.read_record(f"{RECONCILED}/{n}", _mismatches_in, fix) for n in names)
    return {sides: mismatches for each in found for sides, mismatches in each.items()}


def _mismatches_in(record: Mapping[str, Any]) -> dict[str, int]:
    """The mismatches of a comparison by both its sides; empty where its record is gone."""
    if not record:
        return {}
    return {f"{record['left']} | {record['right']}": int(record["mismatches"])}
