"""Versions of a table that others write, against an oracle that keeps the table itself, row by row,
through its log.

Tested here: `pipeline.transforms.table_versions`, by hundreds of histories in one frame, each a key
of its own. Not tested here: how commits become rows of raw (`intake.test_table_changes`).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.payload import CLOCKS, INSERTED, TAKEN_AWAY, log_columns
from backfill_assets.pipeline.transforms.table_versions import (
    _counted_steps,
    _lasting_rows,
    _rows_at_steps,
    _with_log_order,
    table_versions,
)
from backfill_assets_tests.engine_choice import SparkSession
from backfill_assets_tests.pipeline.frames import rows_of, to_spark
from backfill_assets_tests.pipeline.worlds import FIRST, INSTANT, RAW, TRIED_IN_SPARK

NOON = datetime(FIRST.year, FIRST.month, FIRST.day, 12)  # noqa: DTZ001 - Arrow's plain times, meant as UTC
KINDS = {"STRING": pa.string(), "TIMESTAMP": INSTANT, "BIGINT": pa.int64()}
SCHEMA = pa.schema([*RAW, *((name, KINDS[kind]) for name, kind in log_columns(CLOCKS).items())])
DAYS = DayRange(FIRST, FIRST + ONE_DAY * 2)
UNUSABLE = 9  # a value that no row of raw has: the table holds such rows, and the lake does not
HISTORIES = 200


def hours(number: float) -> datetime:
    """So many hours after noon of the first day."""
    return NOON + timedelta(hours=number)


@dataclass(frozen=True)
class Content:
    """A row of the table."""

    day: int
    value: int
    op: str
    version: int
    arrival: int
    seq: int
    note: int  # which `select` does not read

    def selected(self, given: Sequence[str]) -> tuple[object, ...]:
        """What the lake can tell it from others by."""
        own = {
            "op": self.op,
            "seq": self.seq,
            "arrival_ts": self.arrival,
            "version_ts": self.version,
        }
        return (self.day, self.value, *(own[name] for name in CLOCKS if name in given))


@dataclass
class Held:
    """A row while the table holds it, and since when that is known; `until`: when the table took it
    away."""

    content: Content
    place: int
    since: float
    until: float = float("inf")


@dataclass
class History:
    """The commits to one key of a table: what they took away and put there, and all rows that it
    ever held."""

    key: str
    given: Sequence[str]
    rows: list[dict[str, Any]] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    taken: bool = False

    def commit(self, version: int, gone: Sequence[Content], came: Sequence[Content]) -> None:
        """Take rows away and put rows there. Of equal ones the one that came first goes first."""
        for content in gone:
            self.rows.append(self.delivery(version, content, TAKEN_AWAY))
            present = [
                h for h in self.held if h.until == float("inf") and self.is_like(h.content, content)
            ]
            if present:
                min(present, key=lambda h: h.place).until = version
        self.taken = self.taken or bool(gone)
        for content in (c for c in came if c.value != UNUSABLE):
            self.rows.append(row := self.delivery(version, content, INSERTED))
            own = content.arrival if "arrival_ts" in self.given else version
            self.held.append(Held(content, row["seq"], max(own, version) if self.taken else own))

    def is_like(self, one: Content, other: Content) -> bool:
        """Whether `select` makes the same of two rows."""
        return one.selected(self.given) == other.selected(self.given)

    def delivery(self, version: int, content: Content, change: str) -> dict[str, Any]:
        """A row of raw."""
        own: dict[str, Any] = {
            "op": content.op,
            "version_ts": hours(content.version),
            "arrival_ts": hours(content.arrival),
            "seq": content.seq,
        }
        kept = {name: own[name] for name in CLOCKS if name in self.given}
        at = {"arrival_ts": hours(version), "version_ts": hours(version)}
        is_in = change == INSERTED
        given = {"op": "upsert", **at, **kept} if is_in else {"op": "delete", **at}
        return {
            **given,
            "seq": version * 1000 + len(self.rows),
            "event_ts": NOON + ONE_DAY * content.day,
            "event_key": self.key,
            "entity": "A",
            "value": content.value,
            "flag": 0,
            "source_file": "file",
            "arrival_date": FIRST,
            "log_change": change,
            "log_commit_ts": hours(version),
            **{f"row_{name}": value for name, value in kept.items()},
        }

    def rank(self, held: Held) -> tuple[int, ...]:
        """By what the greatest of the rows counts."""
        content = held.content
        clocks = {"version_ts": content.version, "arrival_ts": content.arrival, "seq": content.seq}
        return (*(clock for name, clock in clocks.items() if name in self.given), held.place)

    def known(self) -> Iterator[tuple[str, date, int, datetime, datetime | None]]:
        """The rows of staging: key, event day, value, known from and until."""
        times = sorted(
            {
                t
                for h in self.held
                for t in (h.since, h.until)
                if h.since < h.until and t < float("inf")
            }
        )
        states: list[tuple[float, tuple[date, int] | None]] = [(-1, None)]
        for time in times:
            current = max(
                (h for h in self.held if h.since <= time < h.until), key=self.rank, default=None
            )
            is_event = current is not None and (
                "op" not in self.given or current.content.op == "upsert"
            )
            state = (
                (FIRST + ONE_DAY * current.content.day, current.content.value)
                if current and is_event
                else None
            )
            states += [(time, state)] if state != states[-1][1] else []
        ends = [hours(time) for time, _ in states[1:]] + [None]
        for (since, state), end in zip(states, ends, strict=True):
            if state is not None:
                yield (self.key, *state, hours(since), end)


def history(random: Random, key: str, given: Sequence[str]) -> History:
    """A few commits of all kinds to one key: append, repeats, UPDATE, DELETE, both in one,
    overwrite, RESTORE."""
    made, held, before = History(key, given), list[Content](), list[list[Content]]()
    for version in range(random.randint(1, 8)):
        before.append(list(held))
        gone, came = list[Content](), list[Content]()
        for _ in range(random.randint(0, 2)):
            like = random.choice(held) if held and random.random() < 0.4 else None
            came.append(like or drawn(random, version))
        if held and random.random() < 0.6:
            gone = random.sample(held, random.randint(1, len(held)))
        if random.random() < 0.15:  # RESTORE, or another overwrite
            gone, came = list(held), list(random.choice(before))
        elif random.random() < 0.15:  # as SELECT DISTINCT gives them
            gone, came = list(held), [*dict.fromkeys(held)]
        rewritten = list((Counter(came) & Counter(gone)).elements())  # which is no change
        for content in rewritten:
            gone.remove(content)
            came.remove(content)
        for content in gone:
            held.remove(content)
        held += came
        made.commit(version, gone, came)
    return made


def drawn(random: Random, version: int) -> Content:
    """A row with clocks of its own, which are equal, or behind, more often than not."""
    return Content(
        random.choice((0, 0, 1)),
        random.choice((1, 2, 3, UNUSABLE)),
        random.choice(("upsert", "upsert", "delete")),
        random.randint(0, 3),
        random.choice((random.randint(0, version), version, version + 2)),
        random.randint(0, 3),
        random.choice((0, 0, 1)),
    )


def found(
    spark: "SparkSession",
    rows: Sequence[dict[str, Any]],
    given: Sequence[str],
    days: DayRange = DAYS,
) -> Any:
    """The rows of staging of these rows of raw."""
    frame = table_versions(to_spark(spark, pa.Table.from_pylist(rows, SCHEMA)), days, given=given)
    shown = frame.select("event_key", "event_date", "value", "known_from", "known_until").toArrow()
    return rows_of(shown)


@pytest.mark.parametrize("given_clocks", [(), ("arrival_ts",), ("version_ts", "seq"), CLOCKS])
@settings(TRIED_IN_SPARK, max_examples=2, derandomize=True)
@given(st.integers(0, 2**32))
def test_what_counts_at_every_time_is_the_greatest_of_the_rows_that_the_table_held(
    spark: "SparkSession", given_clocks: Sequence[str], seed: int
) -> None:
    random = Random(seed)
    histories = [history(random, f"{n:05}", given_clocks) for n in range(HISTORIES)]
    rows = [row for h in histories for row in h.rows]
    wanted = {h.key: sorted(h.known(), key=str) for h in histories}
    here: dict[str, list[Any]] = {h.key: [] for h in histories}
    for row in found(spark, rows, given_clocks):
        here[row[0]].append(row)
    wrong = sorted(
        (k for k in wanted if sorted(here[k], key=str) != wanted[k]), key=lambda k: len(wanted[k])
    )
    if wrong:
        smallest = min((h for h in histories if h.key in wrong), key=lambda h: len(h.rows))
        shown = "\n".join(str({n: v for n, v in r.items() if v is not None}) for r in smallest.rows)
        pytest.fail(
            f"{len(wrong)} differ\n{shown}\nhere {here[smallest.key]}\nwanted "
            f"{wanted[smallest.key]}"
        )


def test_rows_loaded_before_the_log_was_kept_count_by_the_times_of_their_commits(
    spark: "SparkSession",
) -> None:
    random = Random(7)
    histories = [history(random, f"{n:05}", ()) for n in range(HISTORIES)]
    rows = [row for h in histories for row in h.rows]
    for row in rows:
        if row["log_commit_ts"] < hours(random.choice((0, 3, 9))):
            row |= {"log_change": None, "log_commit_ts": None, "seq": random.randrange(1 << 60)}
    several = {h.key for h in histories if len({r.place // 1000 for r in h.held}) < len(h.held)}
    known = [row for h in histories if h.key not in several for row in h.known()]
    here = [row for row in found(spark, rows, ()) if row[0] not in several]
    assert sorted(here, key=_by_time) == known, (
        "but for keys of several rows by one commit, whose order nobody knew"
    )


MANY = 150
# By the row's number, which is its commit: the commit that takes it away; None: none does.
LIVES: Mapping[str, Callable[[int], int | None]] = {
    "never": lambda n: None,
    "all at once": lambda n: MANY,
    "one by one": lambda n: n + 1,
    "after ten more": lambda n: n + 10,
    "half of them at once": lambda n: MANY if n % 2 else None,
}


@pytest.mark.parametrize("life", LIVES)
@pytest.mark.parametrize("given_clocks", [(), ("version_ts",)])
def test_a_key_of_many_rows_costs_what_it_has_and_not_the_square_of_it(
    spark: "SparkSession", given_clocks: Sequence[str], life: str
) -> None:
    random, made, gone = Random(3), History("hot", given_clocks), dict[int, list[Content]]()
    for version in range(MANY):
        content = Content(0, version + UNUSABLE + 1, "upsert", random.randint(0, MANY), 0, 0, 0)
        made.commit(version, gone.pop(version, []), [content])
        if (until := LIVES[life](version)) is not None:
            gone.setdefault(until, []).append(content)
    for version in sorted(gone):
        made.commit(version, gone[version], [])
    rows = to_spark(spark, pa.Table.from_pylist(made.rows, SCHEMA))
    payload = ("entity", "value", "flag")
    tried = _rows_at_steps(
        _lasting_rows(_counted_steps(_with_log_order(rows, given_clocks), payload, given_clocks)),
        given_clocks,
    )
    assert tried.count() <= 12 * MANY
    assert sorted(found(spark, made.rows, given_clocks), key=_by_time) == [*made.known()]


def _by_time(row: Sequence[Any]) -> tuple[Any, ...]:
    return row[0], row[3]
