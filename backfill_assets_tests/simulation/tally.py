"""What happened in stories, counted: which actors had an effect, and which faults were met.

Here: adding stories up, and a table. Not here: playing them (`story`), and what was wrong in them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from backfill_assets_tests.simulation.actors import ACTS
from backfill_assets_tests.simulation.story import Played

HEAD = f"{'actor':16} {'stories':>8} {'changed something':>18}  ends of its processes"


@dataclass
class Tally:
    """Counts over stories. An actor that never changed anything shows nothing."""

    stories: int = 0
    requests: int = 0
    _with: "Counter[str]" = field(default_factory=Counter)  # stories in which an actor took part
    _changed: "Counter[str]" = field(default_factory=Counter)  # those in which it had an effect
    _ends: "defaultdict[str, Counter[str]]" = field(default_factory=lambda: defaultdict(Counter))
    _met: "Counter[str]" = field(default_factory=Counter)

    def add(self, played: Played) -> None:
        """Count a story in."""
        self.stories += 1
        self.requests += played.requests
        self._met.update(played.met)
        self._with.update({end.what for end in played.ends})
        self._changed.update({end.what for end in played.ends if end.has_changed})
        for end in played.ends:
            self._ends[end.what][end.how] += 1

    def lines(self) -> Iterator[str]:
        """A line for each actor, in the order of `ACTS`, then one for each fault."""
        yield HEAD
        for name in ACTS:
            ends = ", ".join(f"{times} {how}" for how, times in self._ends[name].most_common())
            yield f"{name:16} {self._with[name]:8} {self._changed[name]:18}  {ends}"
        for fault, times in sorted(self._met.items()):
            yield f"{times:8} {fault}"
