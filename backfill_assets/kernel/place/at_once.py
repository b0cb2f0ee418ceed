"""Asking a place many things at once: in a store each answer is waited for, 30 ms or more.

Not here: requests of one verb that belong together, which a filling sends at once by itself. What
is asked in threads must not depend on the order.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from backfill_assets.kernel.place.port import Place

T = TypeVar("T")
R = TypeVar("R")

MOST_AT_ONCE = 32


def answers_of(place: Place, ask: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """What `ask` gives for each of these items, in their order; of a store up to `MOST_AT_ONCE` are
    asked at once, in threads. Raises what `ask` raises for the first of them."""
    if len(items) < 2 or not place.is_store:
        return [ask(item) for item in items]
    with ThreadPoolExecutor(min(MOST_AT_ONCE, len(items))) as pool:
        return list(pool.map(ask, items))
