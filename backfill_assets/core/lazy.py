"""Names of a package that are imported when they are first asked for, so that importing the package costs little.

Lives here: the one function that the two public packages share. Does not live here: which names they have.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def imported_when_used(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package for the names that each of its modules (without the package's name) has."""
    home_of = {name: home for home, found in names.items() for name in found}

    def find(name: str) -> Any:
        """Import the module that has the name. Raises AttributeError for any other name."""
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home_of[name]}"), name)

    return find
