"""What a project may import from `backfill_assets.dagster`: the names, their signatures, and how
they are typed.

Lives here: the pinned list (a line per name), and uses of it that mypy reads: `warn_unused_ignores`
of our settings makes a wrong call that type-checks an error. Does not live here: what the names do.
"""

import inspect
from typing import TYPE_CHECKING, Any

import pytest

import backfill_assets.dagster as door
from backfill_assets_tests.sources import typed_names

if TYPE_CHECKING:
    from datetime import date

    import dagster as dg
    from duckdb import DuckDBPyRelation

    from backfill_assets.kernel.core.states import State

SIGNATURES = {
    "Input": "(table, before=0, after=0, kind=<InputKind.CONTENT: 'content'>, columns=None, by=(), "
    "isolate_nulls=False, salt=1, finer=(), first_day=None, mapped='', keys=(), "
    "calendar=Calendar(day), made_in=Calendar(day), basis=None)",
    "LakeComponent": "(*, lake, key_prefix=(), group_name='lake', owners=(), tags=None, "
    "kinds=None, "
    "pool=None, "
    "op_tags=None, automation='off', mappings='identity')",
    "LakeIOManager": "(*, lake, schema_changes='refuse', spark=None, default_form='spark')",
    "LakeResource": "(*, lake, newest=False, spark=None)",
    "build_lake_defs": "(lake, *, key_prefix=(), group_name='lake', owners=(), tags=None, "
    "kinds=None, "
    "pool=None, "
    "op_tags=None, automation='off', automation_condition=None, mappings='identity')",
    "daily_table": "(*, inputs=(), day='day', start=None, every='', partitions_def=None, unique=(), "
    "not_null=(), "
    "rows=(None, None), rules=(), on_bad_days='', io_manager_key='io_manager', **asset)",
    "external_table": "(key, *, table, day, start=None, every='', partitions_def=None, "
    "io_manager_key='io_manager', "
    "**spec)",
    "is_stale": "(lake, *, key_prefix=(), missing=False, while_stale=False)",
    "lake_checks": "(asset, *, unique=(), not_null=(), rows=(None, None), rules=(), "
    "on_bad_days='')",
}


@pytest.mark.whole_house
def test_the_door_shows_this_list_and_nothing_else() -> None:
    assert sorted(door.__all__) == sorted(SIGNATURES)
    assert dir(door) == sorted(door.__all__)


@pytest.mark.parametrize("name", sorted(SIGNATURES))
def test_what_is_public_keeps_its_signature_and_says_what_it_is(name: str) -> None:
    assert signature(getattr(door, name)) == SIGNATURES[name]
    assert inspect.getdoc(getattr(door, name))


def signature(public: Any) -> str:
    """Names, order and defaults; of a resource or component the fields that a user sets."""
    if fields := getattr(public, "model_fields", None):
        shown = [name if f.is_required() else f"{name}={f.default!r}" for name, f in fields.items()]
        return f"(*, {', '.join(shown)})"
    parameters = inspect.signature(public).parameters.values()
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    return str(inspect.Signature(bare))


@pytest.mark.slow
def test_type_checkers_see_the_names_that_python_gives() -> None:
    assert typed_names("dagster") - {"Room"} == set(door.__all__)


def test_a_name_that_is_not_public_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'naming'"):
        getattr(door, "naming")  # noqa: B009 - a type checker refuses the plain form, as it should


if TYPE_CHECKING:

    def well_typed(resource: door.LakeResource) -> None:
        """Calls that type-check."""
        defs: dg.Definitions = door.build_lake_defs(
            "lake", key_prefix=["eu", "shop"], automation="conditions"
        )
        condition: dg.AutomationCondition[Any] = door.is_stale(
            "lake", missing=True
        ) & ~door.is_stale("other")
        rows: DuckDBPyRelation = resource.table("orders").days("2024-03-01").duckdb()
        states: dict[str, dict[date, State]] = resource.states()
        component = door.LakeComponent(lake="lake", mappings="windows")
        print(
            defs,
            condition,
            rows,
            states,
            component,
            resource.plan("2024-03-01", tables=["orders"]).days,
        )

    def wrongly_typed(resource: door.LakeResource) -> None:
        """Calls that do not: each `ignore` that is not needed fails the type check."""
        door.build_lake_defs("lake", automation="on")  # type: ignore[arg-type]
        door.build_lake_defs("lake", mappings="window")  # type: ignore[arg-type]
        door.build_lake_defs("lake", "shop")  # type: ignore[call-arg]
        door.build_lake_defs("lake", prefix="shop")  # type: ignore[call-arg]
        door.build_lake_defs()  # type: ignore[call-arg]
        door.is_stale("lake", "shop")  # type: ignore[call-arg]
        door.is_stale(lake=7)  # type: ignore[arg-type]
        resource.table("orders").days(20240301)  # type: ignore[arg-type]
        resource.plan("2024-03-01", tables=7)  # type: ignore[arg-type]
        door.LakeComponent(lake="lake", automation="on")  # type: ignore[arg-type]
        door.naming  # type: ignore[attr-defined]  # noqa: B018
