"""A story that failed, made smaller: fewer processes, fewer switches, fewer faults.

Here: trying smaller stories as long as they fail. Not here: playing them (`story`). A decision that
becomes 0 is the plain one: nobody else goes on, nothing goes wrong (`choices`).
"""

from collections.abc import Iterator, Sequence

from backfill_assets_tests.simulation.actors import Actor
from backfill_assets_tests.simulation.story import Beginning, Played, play

MOST_TRIES = 150


def shrunk(
    beginning: Beginning, failed: Played, planted: str = "", tries: int = MOST_TRIES
) -> Played:
    """The smallest story found that fails, too, by at most so many `tries`."""
    left, best, goes_on = tries, failed, True
    while goes_on:
        goes_on = False
        for actors, choices in _smaller(best):
            if not left:
                return best
            left -= 1
            again = play(beginning, best.seed, actors, choices, planted)
            if again.wrong:
                best, goes_on = again, True
                break
    return best


def _smaller(played: Played) -> Iterator[tuple[Sequence[Actor], Sequence[int]]]:
    """Yield stories with a process less, then with ever fewer decisions that are not plain."""
    for actor in played.actors:
        yield [other for other in played.actors if other is not actor], played.choices
    told = [place for place, choice in enumerate(played.choices) if choice]
    size = len(told)
    while size:
        for first in range(0, len(told), size):
            plain = {*told[first : first + size]}
            yield played.actors, [0 if n in plain else c for n, c in enumerate(played.choices)]
        size //= 2
