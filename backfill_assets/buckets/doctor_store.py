"""What a lake needs of the store that it lies in, tried on the store itself with a few small
objects.

Not here: the store's client (`buckets.objects`), and the checks of a lake (`doctor`). Commits,
leases, markers rest on these promises; a store that breaks one of them loses writes when two
processes write at once, and says nothing.
"""

import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from backfill_assets.cli.findings import Diagnosis, error_finding, good_finding
from backfill_assets.kernel.core.addresses import TICK_SECONDS
from backfill_assets.kernel.place.port import LOCKS, AlreadyThere, Changed, Place
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Table

WRITERS, RACES = 8, 3
TICKING_SENSORS = 3  # that tick so often
# PUT and LIST, and GET and HEAD, per table: of a day that is loaded and made, and of a tick of each
# sensor (counted)
OF_DAY, OF_TICKS = (65, 85), (8, 5)
DOLLARS_PER_REQUEST = (0.005 / 1000, 0.0004 / 1000)
PRICES = "S3, us-east-1, 2025: 0.005 $ for 1,000 PUT or LIST, 0.0004 $ for 1,000 GET"
PROMISES_KEPT = (
    "of many that create an object at once one does, a creation and a stale replacement leave "
    "what is there"
)
BROKEN_PROMISE_ADVICE = (
    "What two processes write there at once is not safe: keep the lake in a store that heeds "
    "If-None-Match and "
    "If-Match of writes, as S3 and Azure do, or take a newer version of this one"
)


def examine_lake(lake: Lake, tables: Collection[Table]) -> Iterator[Diagnosis]:
    """Yield what the doctor finds about the store of a lake with these tables; nothing of a lake in
    a folder."""
    if lake.place.is_store:
        yield from examine_store(lake.place)
        yield request_estimate(lake.place, len(tables))


def examine_store(place: Place) -> Iterator[Diagnosis]:
    """Return whether the store at a place keeps what a lake rests on: a finding for each promise
    that it breaks.

    It writes a few objects of some bytes below `.locks` and deletes them. Raises what the store
    answers.
    """
    failed = [what for what, keeps in PROMISES.items() if not _keeps_promise(place, keeps)]
    for what in failed:
        yield error_finding(
            f"the store {place}", f"it breaks a promise: {what}", BROKEN_PROMISE_ADVICE
        )
    if not failed:
        yield good_finding(f"the store {place}", PROMISES_KEPT)


def request_estimate(place: Place, tables: int) -> Diagnosis:
    """Return what a store is asked for a lake of so many tables, and its price, without bytes kept
    and sent."""
    rounds = 24 * 3600 // TICK_SECONDS
    day = [tables * count for count in OF_DAY]
    ticks = [tables * count * rounds for count in OF_TICKS]
    return good_finding(
        f"requests to {place}",
        f"about {sum(day):,} for a day of {tables} table(s), {_price(day):.4f} $; "
        f"{TICKING_SENSORS} sensors each {TICK_SECONDS} s: {sum(ticks):,} a day, "
        f"{30 * _price(ticks):.2f} $ a month ({PRICES})",
    )


def _price(requests: Sequence[int]) -> float:
    """The price in dollars of so many PUT and LIST, and so many GET and HEAD."""
    return sum(count * price for count, price in zip(requests, DOLLARS_PER_REQUEST, strict=True))


def _keeps_promise(place: Place, keeps: Callable[[Place, str], bool]) -> bool:
    """Whether the store keeps a promise; what was written to try it is deleted."""
    tried = f".tried.{uuid.uuid4().hex}"
    try:
        return keeps(place, f"{LOCKS}/{tried}")
    finally:
        for left in place.names(LOCKS):
            if left.startswith(tried):
                place.delete(f"{LOCKS}/{left}")


def _one_creates(place: Place, name: str) -> bool:
    """Whether of many writers that create an object at once exactly one succeeds, and its bytes
    stay."""

    def creates(number: int, at: str) -> bool:
        """Create the object as one of the writers; whether it succeeded."""
        try:
            place.write(at, f"{number}".encode(), if_absent=True)
        except AlreadyThere:
            return False
        return True

    for race in range(RACES):
        at = f"{name}.{race}"
        with ThreadPoolExecutor(WRITERS) as pool:
            done = list(pool.map(creates, range(WRITERS), [at] * WRITERS))
        if done.count(True) != 1 or not done[int(place.read(at))]:
            return False
    return True


def _one_replaces(place: Place, name: str) -> bool:
    """Whether of many writers that replace the same state of an object exactly one succeeds, and
    its bytes stay."""
    seen = place.write(name, b"-")

    def replaces(number: int) -> bool:
        """Replace the object as one of the writers; whether it succeeded."""
        try:
            place.write(name, f"{number}".encode(), if_unchanged=seen)
        except Changed:
            return False
        return True

    with ThreadPoolExecutor(WRITERS) as pool:
        done = list(pool.map(replaces, range(WRITERS)))
    return done.count(True) == 1 and done[int(place.read(name))]


def _creation_leaves(place: Place, name: str) -> bool:
    """Whether creating an object that exists leaves it as it is."""
    place.write(name, b"first")
    with suppress(AlreadyThere):
        place.write(name, b"second", if_absent=True)
    return place.read(name) == b"first"


def _stale_is_refused(place: Place, name: str) -> bool:
    """Whether replacing a state of an object that is not its newest one is refused."""
    seen = place.write(name, b"1")
    place.write(name, b"2")
    with suppress(Changed):
        place.write(name, b"3", if_unchanged=seen)
    return place.read(name) == b"2"


def _gone_stays_gone(place: Place, name: str) -> bool:
    """Whether replacing an object that was deleted meanwhile is refused."""
    seen = place.write(name, b"1")
    place.delete(name)
    with suppress(Changed):
        place.write(name, b"2", if_unchanged=seen)
    return not place.exists(name)


def _is_listed(place: Place, name: str) -> bool:
    """Whether a list names an object once it is written, and no longer once it is deleted."""
    place.write(name, b"1")
    was = name in place.below(LOCKS)
    place.delete(name)
    return was and name not in place.below(LOCKS)


PROMISES: dict[str, Callable[[Place, str], bool]] = {
    "of many that create an object at once, one does": _one_creates,
    "of many that replace what they read at once, one does": _one_replaces,
    "a creation leaves the object that is there": _creation_leaves,
    "a replacement of what was replaced meanwhile is refused": _stale_is_refused,
    "a replacement of what was deleted meanwhile is refused": _gone_stays_gone,
    "a listing shows what was written and not what was deleted": _is_listed,
}
