"""A user's transform is built a second time, with another clock and environment: both plans must be equal.

Not here: what one plan says of itself (`steadiness`). Only the user's own modules see the other values, for a moment. A
value that a module read when it was imported, or that a library reads by itself, is the same both times.
"""

import datetime
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from backfill_assets.core.clock import utc_now
from backfill_assets.core.errors import ContractBroken
from backfill_assets.core.texts import shortened
from backfill_assets.lake.model import Table, source_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHIFT = datetime.timedelta(days=401, hours=5, minutes=7)  # another year, month, weekday and hour
SHOWN_CHARS = 80
NUMBERED = re.compile(r"\bplan_id: \d+|_pyspark_connect_temp_view_\w+")
_EQUAL: "WeakSet[Callable[..., Any]]" = WeakSet()  # transforms whose plans were equal: once per loaded code is enough


def refuse_literals(table: Table, frame: "DataFrame", build: Callable[[], "DataFrame"]) -> None:
    """Raise ContractBroken if `build()`, which gave `frame`, gives another plan now, at another time and in another
    environment. Computes nothing, and nothing at all for code that has passed in this process."""
    transform = table.transform
    if transform is None or not table.brings_code or transform in _EQUAL:
        return
    first = plan_text(frame)
    try:
        with _elsewhere(table):
            again = plan_text(build())
    except Exception:  # noqa: BLE001  # it may not bear the exchanged values: then it is built as it was
        again = plan_text(build())
    if again == first:
        _EQUAL.add(transform)
        return
    one, two = next(pair for pair in zip([*first, ""], [*again, ""], strict=False) if pair[0] != pair[1])
    raise ContractBroken(
        f"the transform of {table.name}",
        f"built twice from the same inputs, at another time and in another environment, it is another plan: "
        f"{shortened(one, SHOWN_CHARS)}, then {shortened(two, SHOWN_CHARS)}",
        "It was not run, and nothing was written",
        "Take days and times from the chunk or from columns, chance from a hash of the key and a seed; name a variable "
        'of the environment that it needs in `code_inputs=("env:NAME",)`',
    )


def plan_text(frame: "DataFrame") -> list[str]:
    """The lines of a frame's plan as the client sends it, with its own numbers and names counted from one."""
    plan: Any = frame
    names: dict[str, str] = {}
    text = str(plan._plan.to_proto(plan._session.client).root)
    numbered = NUMBERED.sub(lambda found: names.setdefault(found[0], f"part {len(names)}"), text)
    return [line.strip() for line in numbered.splitlines()]


class _StandIn:
    """A module or class of the standard library in which some names have other values."""

    def __init__(self, real: Any, **other: Any) -> None:
        self._real, self._other = real, other

    def __getattr__(self, name: str) -> Any:
        return self._other[name] if name in self._other else getattr(self._real, name)

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self._real(*given, **named)

    def __instancecheck__(self, found: object) -> bool:
        return isinstance(found, self._real)


class _Environment(dict[str, str]):
    """The environment with other values of all variables that a table does not declare, defaults included."""

    def __init__(self, declared: frozenset[str]) -> None:
        self._declared = declared
        super().__init__({name: self._of(name, value) for name, value in os.environ.items()})

    def get(self, name: str, default: Any = None) -> Any:
        """The other value."""
        return self[name] if name in self else self._of(name, default)

    def _of(self, name: str, value: Any) -> Any:
        if name in self._declared or not isinstance(value, str):
            return value
        return str(int(value) + 1) if value.isdigit() else f"{value}~"


def _stand_ins(declared: frozenset[str]) -> Mapping[int, Any]:
    """What a module sees in place of an object, by its id."""
    moment, day, env = datetime.datetime, datetime.date, _Environment(declared)

    def now(tz: datetime.tzinfo | None = None) -> datetime.datetime:
        """Another moment, without a zone in UTC."""
        there = utc_now() + SHIFT
        return there.astimezone(tz) if tz else there.replace(tzinfo=None)

    moments, days = _StandIn(moment, now=now, utcnow=now, today=now), _StandIn(day, today=lambda: now().date())
    clock = {
        "time": lambda: (utc_now() + SHIFT).timestamp(),
        "time_ns": lambda: int((utc_now() + SHIFT).timestamp()) * 10**9,
        "strftime": lambda form, at=None: time.strftime(form, at or now().timetuple()),
    }
    return {
        id(datetime): _StandIn(datetime, datetime=moments, date=days), id(moment): moments, id(day): days,
        id(time): _StandIn(time, **clock), **{id(getattr(time, name)): other for name, other in clock.items()},
        id(os): _StandIn(os, environ=env, getenv=env.get), id(os.environ): env, id(os.getenv): env.get,
    }  # fmt: skip


@contextmanager
def _elsewhere(table: Table) -> Iterator[None]:
    """Exchange the clock and the environment in the globals of the table's own modules."""
    files = {str(path) for path in source_files(table)}
    found = [vars(m) for m in [*sys.modules.values()] if getattr(m, "__file__", None) in files]
    others = _stand_ins(frozenset(n.removeprefix("env:") for n in table.code_inputs if n.startswith("env:")))
    kept = [(names, name, value) for names in found for name, value in names.items() if id(value) in others]
    try:
        for names, name, value in kept:
            names[name] = others[id(value)]
        yield
    finally:
        for names, name, value in kept:
            names[name] = value
