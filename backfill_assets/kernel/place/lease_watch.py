"""Files that their holders write again and again, as others see them: leases of a store, and
markers of other machines in a folder.

Whoever dies stops writing, and is over after the seconds that the file names, by the clock of
whoever keeps the files. Not here: holding a lease (`buckets.leases`), markers that this machine's
kernel locks (`folder`).
"""

import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.place.port import LOCK_SECONDS, LOCKS, SHOWN_SECONDS, Place, Token

CLOCK = f"{LOCKS}/.clock"  # a file that is written to learn the place's time


@dataclass
class LeaseWatch:
    """A lease of somebody, looked at until it is over: by the place's clock at the first look, then
    by how long it stays the same."""

    SHOWN_SECONDS: ClassVar = SHOWN_SECONDS  # of a file that names no seconds
    SLACK_SECONDS: ClassVar = 2.0  # times of objects are whole seconds

    place: Place
    name: str
    clock: float | None = None  # the place's time; None: asked when it is needed
    token: Token | None = None
    body: dict[str, Any] = field(default_factory=dict)
    _over_at: float = 0.0  # on this process's monotonic clock

    def look(self) -> Token | None:
        """Look again; returns the token of the file, None if it is gone."""
        token = self.place.token(self.name)
        if token is None or token == self.token:
            return token
        now = time.monotonic()
        is_first = self.token is None
        self.token, self.body = token, self.place.read_json(self.name)
        # A file that changed since the last look is as new as this one.
        age = self._age(token) if is_first else 0.0
        seconds = self._seconds()
        self._over_at = now
        if seconds:
            self._over_at += seconds + self.SLACK_SECONDS - age
        return token

    def _seconds(self) -> float:
        """For how long the file counts; of a damaged one as of one that does not say so."""
        seconds = self.body.get("seconds")
        if isinstance(seconds, int | float) and 0 <= seconds <= LOCK_SECONDS:
            return seconds
        return self.SHOWN_SECONDS

    def _age(self, token: Token) -> float:
        """Seconds since the file was written, by the place's clock."""
        if self.clock is None:
            self.clock = place_time(self.place)
        return max(0.0, self.clock - token.changed_at)

    def is_over(self) -> bool:
        """Whether its holder gave it up, or has not shown itself for its time."""
        return time.monotonic() >= self._over_at


def place_time(place: Place) -> float:
    """The place's time (seconds since 1970), whatever this machine's clock says: of a file that is
    written now."""
    place.write(CLOCK, uuid.uuid4().hex.encode())
    token = place.token(CLOCK)
    return utc_now().timestamp() if token is None else token.changed_at


def shown_lately(place: Place, names: Iterable[str]) -> frozenset[str]:
    """Those of the files that exist and are not over, by one reading of the place's clock. Raises
    OSError where this process may not write to learn it."""
    clock, found = None, set[str]()
    for name in names:
        watch = LeaseWatch(place, name, clock)
        seen, clock = watch.look(), watch.clock
        if seen is not None and not watch.is_over():
            found.add(name)
    return frozenset(found)
