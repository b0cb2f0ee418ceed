"""What chance decides in a story, as numbers that can be told again and made smaller.

Here: drawing them from a seed, or from a list that was written down. Not here: what they decide
(`scheduler`, `faults`). 0 is always the plain thing: go on with the same process, no fault, the
shortest wait, so that a list with more zeros is a simpler story.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random


@dataclass
class Choices:
    """The decisions of one story, in their order; `given`: taken from this list, then all 0."""

    seed: int
    given: Sequence[int] | None = None
    made: list[int] = field(default_factory=list)
    _chance: Random = field(init=False)

    def __post_init__(self) -> None:
        self._chance = Random(f"choices {self.seed}")

    def draw(self, many: int, share: float = 1.0) -> int:
        """One of so many possibilities; another one than 0 in about this share of the cases."""
        if self.given is not None:
            told = self.given[len(self.made)] if len(self.made) < len(self.given) else 0
            found = min(told, many - 1)
        else:
            is_other = many > 1 and self._chance.random() < share
            found = self._chance.randrange(1, many) if is_other else 0
        self.made.append(found)
        return found
