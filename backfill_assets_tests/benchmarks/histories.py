"""Random histories of a small lake, each held at its end against a lake that is built anew from the
same files. Here: playing what can happen (`happenings`), some of it stopped by exceptions, and what
has to hold at the end. A failure shows its seed, by which it is played again, and its steps. Not
here: what tables must hold (`oracle`); both lakes are the package's own, which is the point."""

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import date
from pathlib import Path

from deltalake import DeltaTable

from backfill_assets.kernel.core.needs import needed_days
from backfill_assets.kernel.tables.folder import FORGOTTEN
from backfill_assets.kernel.tables.home import Lake, open_lake
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.pipeline.chosen import chosen_pipeline
from backfill_assets_tests.benchmarks.happenings import (
    BUILT,
    DAYS,
    EVENTS,
    EVERY_DAY,
    LAST,
    Differs,
    History,
    plans_of,
)
from backfill_assets_tests.benchmarks.history_settings import NAMES, SELECTS
from backfill_assets_tests.faults import ERRORS, RAISED, raising_at

LEDGERS = ("quarantine", "arrivals", "too_late")
ROOMS = ("lake/", "load/", "operations/")  # where exceptions are raised


def play(history: History, steps: int) -> None:
    """Random steps, some of them stopped by an exception at a random line, and the end. Raises
    Differs."""
    chance = history.chance
    for happens in chance.choices([*EVENTS], [*EVENTS.values()], k=steps):
        kind, line = (
            chance.choice(sorted(ERRORS)),
            chance.randrange(1, 20_000) if chance.random() < 0.15 else 0,
        )
        history.story.append(f"{happens.__name__}{f', {kind} at line {line}' if line else ''}")
        history.done[happens.__name__] += 1
        with suppress(*RAISED), raising_at(line, ROOMS, ERRORS[kind]) as met:
            happens(history)
        if met.error:
            history.story.append(f"    stopped at {met.place}")
            history.done["stopped"] += 1
            history.end_process()
    end(history)


def end(history: History) -> None:
    """People settle what is theirs; then the lake is held against a new one: before a catch-up,
    after it, and once the days that wait for people are made, too."""
    history.story.append("the end")
    for name in (
        "gate",
        "as_of",
        *["late"] * bool(history.done["replayed"]),
    ):  # a new lake has no releases
        history.set(name, None)
    if (
        history.forgotten and "_file" in history.settings["select"]
    ):  # loads are refused: which column names the entity?
        history.set("select", SELECTS[0])
    if "called" in history.settings:
        history.say("catch-up")
        history.set("called", history.chance.choice(NAMES))
    for plan in plans_of(history):
        history.say("plan", "cancel", plan)
    history.say("landing", "accept", "--note", "the end")
    if history.forgotten:
        release(history)
    forget_rest(history)
    history.say("scan")
    if history.settings.get(
        "required"
    ):  # staging is refused until what was loaded without the new name is loaded again
        history.must("backfill", *EVERY_DAY, "--tables", "raw")
    new = history.root.with_name("new")
    shutil.copytree(history.landing, new / "landing")
    shutil.copy(history.root / "lake.toml", new)
    if (erasures := history.root / FORGOTTEN).exists():  # by it the rows of others keep their order
        shutil.copytree(erasures, new / FORGOTTEN)
    history.must("backfill", *EVERY_DAY, at=new)
    compare(history, new, fresh_days(history))
    _settled(history, new)
    release(history)
    history.must("backfill", *EVERY_DAY)
    fresh = fresh_days(history)
    if short := {table for table in ("raw", *BUILT) if len(fresh.get(table, ())) < len(DAYS)}:
        raise Differs(f"days of {short} are not fresh")
    _settled(history, new)
    compare(history, new, {table: {*DAYS} for table in LEDGERS})


def forget_rest(history: History) -> None:
    """Forget what the last tries did not finish."""
    if history.forgotten and history.settings.get(
        "required"
    ):  # else staging is refused, and the erasure with it
        history.say("backfill", *EVERY_DAY, "--tables", "raw")
    for entity in history.forgotten:  # what its last try did not finish
        drops = ("--drop", "snapshots", "--drop", "candidates")
        history.must("forget", entity, *drops, "--despite-differences", "--note", "asked", "--yes")


def release(history: History) -> None:
    """No day is held any more."""
    for table in BUILT:
        history.say("release", table, "--days", f"{DAYS[0]}..{LAST}", "--yes", "--note", "the end")


def _settled(history: History, new: Path) -> None:
    """A catch-up ends; fresh days are those of the new lake, all is well, and a second catch-up
    does nothing."""
    history.must("catch-up")
    compare(history, new, fresh_days(history))
    history.must("verify", "--deep")
    if json.loads(history.must("catch-up", "--json"))["runs"]:
        raise Differs("a second catch-up ran something")


def fresh_days(history: History) -> dict[str, set[date]]:
    """Per table the days that status calls fresh and that will not change, down to tables with days
    that need a rebuild, of which nobody knows what they will change, or that are outdated or held,
    as people want them."""
    days, lake = (
        json.loads(history.must("status", *EVERY_DAY, "--json"))["days"],
        open_lake(history.root),
    )
    pipeline = chosen_pipeline(lake)
    needed, found = (
        needed_days(pipeline.states(read_view(lake, pipeline.contracts))),
        dict[str, set[date]](),
    )
    for table in ("raw", *BUILT):
        mine = {date.fromisoformat(d["day"]): d for d in days if d["table"] == table}
        found[table] = {
            day for day, d in mine.items() if d["state"] == "fresh" and not d["will_change"]
        }
        if needed[table] or any(
            mine[day]["state"] != "missing" for day in mine.keys() - found[table]
        ):
            break
    return found


def compare(history: History, new: Path, days: Mapping[str, set[date]]) -> None:
    """Hold days of tables against the same of the new lake, row by row. Raises Differs."""
    for table, wanted in days.items():
        mine, its = (_rows(open_lake(root), table, wanted) for root in (history.root, new))
        if differing := sorted((mine - its) + (its - mine)):
            signs = ("kept" if row in mine - its else "new " for row in differing)
            shown = (
                f"  {sign} {day} {row}" for sign, (day, row) in zip(signs, differing, strict=True)
            )
            raise Differs("\n".join((f"{table} differs:", *shown)))


def _rows(lake: Lake, table: str, days: set[date]) -> Counter[tuple[str, str]]:
    if not lake.store.exists(table):
        return Counter()
    rows, column = (
        DeltaTable(lake.table_place(table).local()).to_pyarrow_table().to_pylist(),
        BUILT.get(table, "arrival_date"),
    )
    # Columns that were dropped are NULL.
    found = (
        (str(r[column]), {k: v for k, v in r.items() if v is not None})
        for r in rows
        if r[column] in days
    )
    return Counter(
        (day, json.dumps(row, default=str, sort_keys=True)) for day, row in found
    )  # dropped columns are NULL
