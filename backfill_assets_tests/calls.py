"""How often functions are called while something is done: what a machine's speed does not change.

Not here: seconds and memory, which the programs of `benchmarks` measure.
"""

from collections import Counter
from collections.abc import Callable
from cProfile import Profile
from types import CodeType


def calls_during(do: Callable[[], object]) -> Counter[str]:
    """The calls of Python functions by this thread until `do` returns, by the functions' names."""
    profile = Profile()
    profile.runcall(do)
    calls = Counter[str]()
    for entry in profile.getstats():
        if isinstance(entry.code, CodeType):
            calls[entry.code.co_name] += entry.callcount
    return calls
