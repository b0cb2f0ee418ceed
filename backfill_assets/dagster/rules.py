"""Rules that a project declares for its assets with `lake_checks`, and where the IO manager finds them.

Lives here: a registry by compute function, because that is all that a step's process surely knows of an asset: its key
may get a prefix later, and a run outside of a code location has no repository. Does not live here: judging rows
(`lake.gates`), and the checks that Dagster shows (`checks`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from weakref import WeakKeyDictionary

import dagster as dg

from backfill_assets.core.contracts import Rule
from backfill_assets.core.errors import SettingsError
from backfill_assets.lake.gates import NOT_NULL, ROW_COUNT, RULES, UNIQUE_KEY


@dataclass(frozen=True)
class Rules:
    """What every day of an asset's table has to hold."""

    unique: tuple[str, ...] = ()  # columns that tell the rows of a day apart
    not_null: tuple[str, ...] = ()
    rows: tuple[int | None, int | None] = (None, None)  # the least and the most rows of a day; None: no bound
    rules: tuple[Rule, ...] = ()
    on_bad_days: Literal["", "refuse", "keep_good"] = ""

    @property
    def checks(self) -> tuple[str, ...]:
        """The names of the checks that judge them."""
        declared = {
            UNIQUE_KEY: self.unique, NOT_NULL: (*self.unique, *self.not_null),
            ROW_COUNT: [n for n in self.rows if n is not None], RULES: self.rules,
        }  # fmt: skip
        return tuple(name for name, given in declared.items() if given)

    @property
    def bounds(self) -> Mapping[str, Any]:
        """What [gates.tables.NAME] would say of them."""
        named = {"min_rows": self.rows[0], "max_rows": self.rows[1], "on_bad_days": self.on_bad_days or None}
        return {name: bound for name, bound in named.items() if bound is not None}


@dataclass
class Registry:
    """Rules by the compute function of an asset, as long as that function lives."""

    _by_function: WeakKeyDictionary[Callable[..., Any], Rules] = field(default_factory=WeakKeyDictionary)

    def add(self, asset: dg.AssetsDefinition, rules: Rules) -> None:
        """Keep the rules of an asset. Raises SettingsError where other rules were declared for it."""
        function = function_of(asset.op)
        if self._by_function.setdefault(function, rules) != rules:
            raise SettingsError(
                f"the asset {asset.key.to_user_string()}", "lake_checks declares it twice, with other rules",
                "No check was made", "Declare all of its rules in one call",
            )  # fmt: skip

    def of(self, op: dg.OpDefinition) -> Rules:
        """The rules of the asset that this op computes; none where it has none."""
        return self._by_function.get(function_of(op), Rules())


def function_of(op: dg.OpDefinition) -> Callable[..., Any]:
    """The user's function of an op: the same object under every prefix of the asset's key."""
    computed: Any = op.compute_fn
    found: Callable[..., Any] = getattr(computed, "decorated_fn", computed)
    return found


DECLARED = Registry()  # by function, so that two projects in one process do not meet


def as_rules(rules: Sequence[Rule] | Mapping[str, str]) -> tuple[Rule, ...]:
    """Rules from a mapping of names to conditions (Spark SQL over a row), or as they are."""
    if isinstance(rules, Mapping):
        return tuple(Rule(name, expression, name.replace("_", " ")) for name, expression in rules.items())
    return tuple(rules)
