"""Who takes part in a story, and what may go wrong in it.

Here: drawing both from a seed. Half of the stories are a meeting: few processes, of which one can
harm another at few moments only, and faults that make these moments longer or more frequent. In the
others anybody meets anybody. Not here: what processes do (`actors`), and faults (`faults`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from backfill_assets_tests.simulation.actors import ACTS, Actor
from backfill_assets_tests.simulation.faults import (
    AWAY,
    CLOCK,
    COMMITS,
    KILLED,
    KINDS,
    LOST,
    MACHINE_LOST,
    PAUSED,
    STAGED,
    WRITES,
)
from backfill_assets_tests.simulation.scheduler import COMMITTED, COMPUTES, ENDED, TELLS

MACHINES = ("one", "two")
SWITCHES = ("plan is undone", "publish")  # which readers see of both tables at once
# The last one: when whoever was paused in the beginning has lost its lease.
SECONDS_AFTER = (0.0, 0.0, 0.5, 2.0, 20.0, 90.0, 200.0)
SECONDS_AT_ONCE = (0.0, 0.0, 0.5, 2.0)
MOST_COMMANDS = 2  # kinds of them in a story, besides those of late data
SHARE_OF_TWO_PAIRS = 0.25  # of stories, which take longer
FAULTY = (0.0, 0.0, 0.005, 0.02, 0.06)  # shares of requests that meet a fault
RARE = 0.005  # of one process alone such a share strikes nothing
MOST_KINDS = 3  # of faults in a story: few kinds, often, find more than all of them, seldom
SHARE_OF_MEETINGS = 0.5  # of stories
TIDYING = ("sweep", "maintain", "plan goes on")  # of what others left, so that they come later
SECONDS_UNTIL_TIDYING = (20.0, 90.0, 200.0)


@dataclass(frozen=True)
class Meeting:
    """Commands that belong together. `kinds`: faults without which little happens; `pairs`: of
    tables, that the commands need; `is_near`: they meet on one machine, by its disk; `at_once`:
    they begin at the same time; `upon`: the moment at which all but the first begin, when it has
    come so many `times`, one of these (`ENDED`: when all before them have). `where` alone faults
    are met, so that all of them get as far as that, or by the last one alone (`is_last_struck`)."""

    commands: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    pairs: int = 1
    is_near: bool = False
    at_once: bool = False
    upon: str = ""
    times: tuple[int, ...] = (1,)
    where: str = ""
    is_last_struck: bool = False


MEETINGS = (
    Meeting(("late file", "tick", "sweep"), (PAUSED,), where=STAGED),
    Meeting(("late file", "sweep", "sweep"), (PAUSED,), is_near=True, where=STAGED),
    Meeting(("late file", "sweep"), (KILLED, MACHINE_LOST), upon=ENDED, where=STAGED),
    Meeting(("late file", "tick", "sweep"), (KILLED,), upon=ENDED, where=COMMITS),
    Meeting(("late file", "late file"), (LOST, AWAY), at_once=True, where=STAGED),
    Meeting(("late file", "rollback", "rollback"), upon=COMPUTES, times=(1, 1, 2)),
    Meeting(("late file", "plan is undone"), upon=COMPUTES, times=(1, 1, 2)),
    Meeting(("late file", "publish", "sweep"), (KILLED, PAUSED), where=WRITES),
    Meeting(("late file", "plan", "plan goes on"), (KILLED, MACHINE_LOST), where=WRITES),
    Meeting(("late file", "snapshot", "maintain")),
    Meeting(("late file", "reader", "maintain"), (CLOCK,)),
    Meeting(("late file", "forget", "maintain")),
    Meeting(("late file", "export", "rollback")),
    Meeting(
        ("export", "late file", "export"),
        (KILLED,),
        upon=ENDED,
        where=WRITES,
        is_last_struck=True,
    ),
    Meeting(("late file", "asset", "tick"), at_once=True),
    Meeting(("rollback", "rollback", "release"), upon=TELLS),
    Meeting(("rollback", "release", "plan")),
    Meeting(("plan is undone", "rollback"), upon=COMMITTED),
    Meeting(("plan is undone", "plan is undone"), pairs=2, upon=COMMITTED),
    Meeting(("publish", "plan is undone"), pairs=2, upon=COMMITTED, times=(1, 3)),
)


@dataclass(frozen=True)
class Cast:
    """The processes of a story, in a lake with so many `pairs` of tables. `share`: of requests that
    meet a fault of these `kinds`, only `where` that says, and of the last one alone if it
    `is_last_struck`."""

    actors: Sequence[Actor]
    pairs: int
    kinds: tuple[str, ...]
    share: float
    where: str = ""
    is_last_struck: bool = False


def drawn_cast(seed: int) -> Cast:
    """The cast of the story of a seed."""
    chance = Random(f"cast {seed}")
    if chance.random() < SHARE_OF_MEETINGS:
        return _drawn_meeting(chance)
    pairs = 1 + (chance.random() < SHARE_OF_TWO_PAIRS)
    kinds = tuple(chance.sample(KINDS, chance.randint(1, MOST_KINDS)))
    return Cast(_anybody(chance, pairs), pairs, kinds, chance.choice(FAULTY))


def _drawn_meeting(chance: Random) -> Cast:
    meeting = chance.choice(MEETINGS)
    one = MACHINES[1:]  # which may be lost
    machines = one if meeting.is_near else chance.choice((MACHINES, one))
    starts = SECONDS_AT_ONCE if meeting.at_once or meeting.upon else SECONDS_AFTER
    actors = [_actor(chance, command, machines, starts) for command in meeting.commands]
    if meeting.upon:
        actors = [actors[0], *_awaiting(chance, meeting, actors[1:])]
    least = RARE if meeting.is_last_struck else 0.0
    shares = [share for share in FAULTY if share > least or not meeting.kinds]
    others = chance.sample(KINDS, chance.randint(0, 1))
    kinds = (*meeting.kinds, *others)
    share = chance.choice(shares)
    return Cast(actors, meeting.pairs, kinds, share, meeting.where, meeting.is_last_struck)


def _awaiting(chance: Random, meeting: Meeting, actors: Sequence[Actor]) -> list[Actor]:
    """Actors that begin at the meeting's moment."""
    found = []
    for before, actor in enumerate(actors, 1):
        times = before if meeting.upon == ENDED else chance.choice(meeting.times)
        found.append(replace(actor, upon=meeting.upon, times=times))
    return found


def _anybody(chance: Random, pairs: int) -> list[Actor]:
    """Late data, and few other kinds of commands, which meet each other more often than all of
    them."""
    often = [name for name, (_, weight) in ACTS.items() for _ in range(weight)]
    others = [chance.choice(often) for _ in range(chance.randint(1, MOST_COMMANDS))]
    if pairs > 1:  # which only commands that write both tables of a pair need
        others = [*SWITCHES, others[0]]
    often = ["late file", "late file", "tick", *others, *others]
    many = chance.randint(3, 6)
    return [_actor(chance, chance.choice(often), MACHINES, SECONDS_AFTER) for _ in range(many)]


def _actor(chance: Random, command: str, machines: Sequence[str], starts: Sequence[float]) -> Actor:
    after = chance.choice(SECONDS_UNTIL_TIDYING if command in TIDYING else starts)
    return Actor(command, chance.choice(machines), after, chance.randrange(1000))
