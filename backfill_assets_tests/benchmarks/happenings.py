"""What can happen to a small lake: deliveries of every kind, settings, runs, plans, rollbacks,
upkeep, at random. Here: a lake, the events, and commands typed in this process, whose runs take the
load path without Dagster. Not here: their order, and what has to hold at the end (`histories`)."""

import gc
import json
import os
import re
import shutil
import traceback
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

from click.testing import Result

from backfill_assets.cli.common import Overrides
from backfill_assets.cli.progress import RunOutcome, TableOutcome
from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.plans import Work
from backfill_assets.kernel.place.port import load_lock
from backfill_assets.kernel.write.candidate import RebuildRequest
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets_tests.benchmarks.history_settings import NAMES, SELECTS, write_settings
from backfill_assets_tests.cli.typed import run
from backfill_assets_tests.faults import RAISED, end_process
from backfill_assets_tests.lakes import LONG_AGO, prepared

DAYS = [date(2024, 3, 1) + timedelta(days=n) for n in range(7)]
LAST, EVERY_DAY = DAYS[-1], ("--from", DAYS[0], "--to", DAYS[-1])
BUILT = {
    "staging": "event_date",
    "features": "feature_date",
    "features_as_known": "feature_date",
    "labels": "label_date",
    "training": "feature_date",
}


class Differs(AssertionError):
    """Something that must hold does not."""


@dataclass
class History:
    """A lake at `root`, what happened to it, and how often each kind of it."""

    root: Path
    chance: Random
    story: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    settings: dict[str, Any] = field(default_factory=dict)
    number: int = 0
    forgotten: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.landing.mkdir(parents=True)
        if self.chance.random() < 0.5:
            required = self.chance.random() < 0.5  # whether the value that is renamed may be NULL
            self.settings |= {
                "called": self.chance.choice(NAMES),
                "carried": True,
                "required": required,
            }
        self.set("select", self.chance.choice(SELECTS))
        self.land(
            LAST, "anchor", [self.row(LAST)]
        )  # never altered: no frontier falls behind that of a new lake
        for day in DAYS[:3]:
            self.land(day, "first", [self.row(day) for _ in range(3)])

    @property
    def landing(self) -> Path:
        """Where files land."""
        return self.root / "landing"

    def set(self, name: str, value: Any) -> None:
        """Change a setting in lake.toml."""
        self.settings[name] = value
        write_settings(self.root, DAYS[0], self.settings)

    def next(self) -> int:
        """A number that was not there before."""
        self.number += 1
        return self.number

    def row(self, arrival: date, delay: int = 0) -> dict[str, Any]:
        """A delivery of that day, of an event so many days before; few keys and hours, so that
        versions tie."""
        chance, event = self.chance, max(DAYS[0], arrival - timedelta(days=delay))
        return {
            "seq": self.next(),
            "arrival_ts": f"{arrival}T{chance.choice((20, 23))}:00:00Z",
            "event_ts": f"{event}T{chance.choice(('00:00:00', '10:00:00'))}Z",
            "event_key": f"k{chance.randrange(8)}",
            "op": chance.choice((*["upsert"] * 6, "delete")),
            "entity": chance.choice("ABC"),
            "value": chance.randrange(9),
            "flag": chance.randrange(2),
        }

    def land(self, day: date, name: str, rows: list[Any]) -> Path:
        """Land a file of deliveries and other lines, old enough to be read at once."""
        path = self.landing / f"dt={day}" / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows),
            encoding="utf-8",
        )
        return self.aged(path)

    def aged(self, path: Path) -> Path:
        """The file, with a time of its own, long ago."""
        os.utime(path, (LONG_AGO + self.next(),) * 2)
        return path

    def some_file(self) -> Path:
        """A landed file that may be altered."""
        return self.chance.choice(
            [p for p in sorted(self.landing.rglob("*.jsonl")) if p.stem != "anchor"]
        )

    def say(self, *words: object, at: Path | None = None) -> Result:
        """A command on the lake, or one that lies `at` a folder; fails where it ends by an
        exception of its own."""
        gc.collect()
        result = run(*words, "--lake", at or self.root, overrides=Overrides(work=work))
        error = next((line for line in result.output.splitlines() if line.startswith("Error")), "")[
            :300
        ]
        self.story.append(f"    {' '.join(map(str, words))} -> {result.exit_code} {error}")
        if result.exception is not None and not isinstance(result.exception, (SystemExit, *RAISED)):
            raise Differs("".join(traceback.format_exception(result.exception)[-6:]))
        return result

    def must(self, *words: object, at: Path | None = None) -> str:
        """What a command that succeeds says."""
        result = self.say(*words, at=at)
        if result.exit_code:
            raise Differs(result.output[-3000:])
        return result.stdout

    def end_process(self) -> None:
        """What ends with a process ends: its locks and holds."""
        end_process(self.root)


def work(known: KnownStates, request: Work) -> RunOutcome:
    """Make the tables of a request by the load path, in this process and without Dagster."""
    run_id, made = uuid.uuid4().hex, list[TableOutcome]()
    for name in request.tables:
        asked = RebuildRequest.of(
            replace(request, tables=(name,)), LakeSession(known.lake), known, run_id
        )
        try:
            with load_lock(known.lake.place), prepared(asked) as rebuild:
                changed = len(rebuild.publish().changed)
        except BackfillError as error:
            made.append(TableOutcome(name, len(request.days), 0, 0, 0.0, str(error)))
            return RunOutcome(run_id, False, tuple(made), str(error), 0.0)
        made.append(TableOutcome(name, len(request.days), changed, 0, 0.0))
    return RunOutcome(run_id, True, tuple(made), "", 0.0)


def lands(history: History) -> None:
    """On time, late or very late; sometimes with totals, right or wrong, or with lines that are no
    deliveries."""
    chance, day = history.chance, history.chance.choice(DAYS)
    rows: list[Any] = [history.row(day, chance.choice((0, 0, 1, 4))) for _ in range(3)]
    if chance.random() < 0.3:
        rows.append(chance.choice(("no json", '{"event_key": " "}', '{"seq": "x", "value": "n"}')))
    path = history.land(day, str(history.next()), rows)
    if chance.random() < 0.2:
        totals = path.with_name(path.name + ".totals.json")
        totals.write_text(
            json.dumps({"rows": len(rows) + chance.choice((0, 0, 1))}), encoding="utf-8"
        )
        history.aged(totals)


def is_copied(history: History) -> None:
    """A content lands under another name, or on another day."""
    content, target = (
        history.some_file(),
        history.land(history.chance.choice(DAYS), f"copy{history.next()}", []),
    )
    shutil.copy(content, target)
    history.aged(target)


def is_altered(history: History) -> None:
    """A landed file is altered, moved, touched or removed; often somebody accepts it."""
    path, how = (
        history.some_file(),
        history.chance.choice(("alter", "move", "touch", "remove", "remove")),
    )
    history.story.append(f"    {how} {path.relative_to(history.landing)}")
    if how == "alter":
        day = date.fromisoformat(path.parent.name.removeprefix("dt="))
        history.land(day, path.stem, [history.row(day), history.row(day)])
    elif how == "move":
        path.replace(path.with_name(f"moved{history.next()}.jsonl"))
    elif how == "touch":
        history.aged(path)
    else:
        path.unlink()
    if history.chance.random() < 0.5:
        history.say("landing", "accept", "--note", "seen")


def is_set(history: History) -> None:
    """Another select, window, gate, policy of late rows or end of what is loaded; or one of
    before."""
    known: dict[str, tuple[Any, ...]] = {
        "select": SELECTS,
        "windows": ([2, 3], [1, 4]),
        "late": (None, 2),
        "gate": (None, None, "staging", "labels"),
        "as_of": (None, f"{LAST}T12:00:00Z"),
    }
    if "called" in history.settings:
        known |= {"called": NAMES, "carried": (True, False)}
    name = history.chance.choice((*["select"] * 4, *known))
    history.set(name, history.chance.choice(known[name]))
    history.story.append(f"    {name} = {history.settings[name]}")
    if history.chance.random() < 0.3:
        history.say("scan")


def some_days(history: History) -> tuple[object, ...]:
    """A range as options."""
    first, last = sorted(history.chance.choices(DAYS, k=2))
    return "--from", first, "--to", last


def is_backfilled(history: History) -> None:
    """A range, with and without force, of all or some tables."""
    names = history.chance.choice(
        ((), (), ("--tables", "raw,staging"), ("--tables", "features,labels"))
    )
    history.say("backfill", *some_days(history), *names, *history.chance.choice(((), ("--force",))))


def is_planned(history: History) -> None:
    """A plan runs to its end, or is stopped and resumed."""
    chance = history.chance
    modes = (
        (),
        (),
        ("--force",),
        ("--write-mode", "merge", "--tables", "staging"),
        ("--stop-after", "canary"),
    )
    shape = (
        "--chunk",
        chance.choice(("2", "3d", "7d")),
        "--canary",
        chance.choice("01"),
        "--max-parallel",
        1,
    )
    made = history.say("plan", *some_days(history), *shape, *chance.choice(modes), "--json")
    for known in re.findall(r'^  "id": "([^"]+)"', made.stdout, re.MULTILINE):
        history.say("run", known)
        if chance.random() < 0.5:
            history.say("plan", "resume", known, "--reason", "looked")
            history.say("run", known, *chance.choice(((), ("--accept", 1))))


def plans_of(history: History) -> list[str]:
    """The plans of the lake, by id."""
    return re.findall(r'"id": "([^"]+)"', history.say("plan", "list", "--json").stdout)


def is_put_back(history: History) -> None:
    """A rollback of a plan or of days of a table; sometimes they are released again."""
    chance, days, plans = (
        history.chance,
        sorted(history.chance.choices(DAYS, k=2)),
        plans_of(history),
    )
    table, span = chance.choice(sorted(BUILT)), ("--days", f"{days[0]}..{days[1]}")
    which: tuple[object, ...] = ("--table", table, *span, "--to-version", chance.randrange(1, 4))
    again: tuple[object, ...] = (table, *span)
    if plans and chance.random() < 0.5:
        which = again = ("--plan", chance.choice(plans))
    history.say(
        "rollback", *which, *chance.choice(((), ("--over-newer",))), "--yes", "--note", "wrong"
    )
    if chance.random() < 0.4:
        history.say("release", *again, "--yes", "--note", "right")


def is_built_beside(history: History) -> None:
    """A candidate is built and published, or discarded."""
    name = f"c{history.next()}"
    if history.say("candidate", "create", name, "--tables", "features,training").exit_code == 0:
        history.say("backfill", *EVERY_DAY, "--target", name)
        ends = (("publish", name, "--catch-up"), ("publish", name), ("discard", name))
        history.say("candidate", *history.chance.choice(ends), "--yes")
        history.say("candidate", "discard", name, "--yes")


def is_kept(history: History) -> None:
    """Upkeep, a snapshot, late rows that count after all, an entity that is forgotten."""
    which, name = (
        history.chance.choice(("maintain", "snapshot", "replay", "forget")),
        f"x{history.next()}",
    )
    if which == "maintain":
        history.say("maintain", "--yes")
    elif which == "snapshot":
        history.say("snapshot", "create", name, "--unfit", "take")
        history.say("snapshot", "show", name)
    elif which == "replay":
        history.say("replay-late", *EVERY_DAY, "--note", "outage")
        history.done["replayed"] += 1
    elif "_file" not in history.settings["select"]:
        day = history.chance.choice(DAYS)
        history.land(
            day, name, [history.row(day) | {"entity": name, "op": "upsert"}, history.row(day)]
        )
        history.say("catch-up")
        history.forgotten.append(name)
        history.say("forget", name, "--drop", "snapshots", "--note", "asked", "--yes")


def is_caught_up(history: History) -> None:
    """The sensors' work is done."""
    history.say("catch-up")


EVENTS: dict[Callable[[History], None], int] = {
    lands: 6,
    is_copied: 3,
    is_altered: 2,
    is_set: 6,
    is_backfilled: 3,
    is_planned: 2,
    is_put_back: 1,
    is_built_beside: 1,
    is_kept: 2,
    is_caught_up: 4,
}
