"""What a user may import from `backfill_assets`: the names, their signatures, and that asking for
none costs nothing. Not here: what the names do (`end_to_end/test_own_tables.py` uses them as a user
does)."""

import inspect
import subprocess
import sys
from typing import Any

import pytest

import backfill_assets
from backfill_assets_tests.sources import typed_names

ERROR = "(object, culprit, consequence, fix)"
# Names, order and defaults; the types are held by mypy, which reads the own pipeline of our tests.
SIGNATURES = {
    "BackfillError": ERROR,
    "ContractBroken": ERROR,
    "SettingsError": ERROR,
    "TransientError": ERROR,
    "Chunk": "(days, frontier, wanted=None)",
    "Column": "(name, type, description, nullable=False, tags=<factory>, made_from=())",
    "Contract": "(name, description, columns, day_column, key, inputs, waits_for_cut=False, "
    "matures_after_days=None, "
    "partition_by=None, rules=(), read_by=(), consumer_queries=(), made_by='', first_day=None, "
    "external='', beside=(), unpinned=(), is_being_made=False, calendar=Calendar(day), "
    "left_out=LeftOut(dates=frozenset(), recurrences=()), asked=())",
    "Rule": "(name, expression, description, per=(), only_warns=False)",
    "DayRange": "(start, end)",
    "Input": "(table, before=0, after=0, kind=<InputKind.CONTENT: 'content'>, columns=None, by=(), "
    "isolate_nulls=False, salt=1, finer=(), first_day=None, mapped='', keys=(), calendar=Calendar(day), made_in=Calendar(day), basis=None)",
    "Table": "(contract, transform=None, settings=<factory>, sources=(), drops_incomplete=False, "
    "facts=None, "
    "revisions=None, account=None, compiled=<factory>, code_inputs=(), code_version='', "
    "earlier_versions=(), "
    "settings_read=<factory>, expressions=(), counts_alike=False)",
    "as_known": "(versions, days, before, grace_hours=0)",
    "assemble": "(root, tables_of, rebuilt=None, hears=None)",
    "external_table": "(name, *, table, day, description='')",
    "lake_folder": "(named=None)",
    "open_lake": "(folder=None, *, at=None, newest=False)",
    "spread_join": "(left, right, choice, how='left')",
    "tables": "(settings)",
}
WITHOUT_SIGNATURE = {
    "Basis": "the name of InputKind in 0.2",
    "InputKind": "an enumeration",
    "LakeComponent": "a component, whose fields are held by `dagster/test_public_surface.py`",
    "LakeSettings": "a file's content, see `kernel/tables/test_settings.py`",
}

OF_ENGINES = (
    "LakeComponent",
    "as_known",
    "assemble",
    "spread_join",
)  # asking for them imports Dagster or pyspark
OF_ROOMS = ("external_table",)
MARKS = dict.fromkeys(OF_ENGINES, pytest.mark.slow) | dict.fromkeys(
    OF_ROOMS, pytest.mark.whole_house
)
EACH = {
    name: pytest.param(name, marks=MARKS[name]) if name in MARKS else name
    for name in sorted([*SIGNATURES, *WITHOUT_SIGNATURE])
}


@pytest.mark.whole_house
def test_the_public_surface_is_this_list_and_nothing_else() -> None:
    assert list(backfill_assets.__all__) == sorted([*SIGNATURES, *WITHOUT_SIGNATURE]), (
        "a new name gets its line in SIGNATURES, one in CHANGELOG.md, and stays for good"
    )
    assert dir(backfill_assets) == list(backfill_assets.__all__)


@pytest.mark.parametrize("name", [EACH[name] for name in sorted(SIGNATURES)])
def test_what_is_public_keeps_its_signature(name: str) -> None:
    assert _signature(getattr(backfill_assets, name)) == SIGNATURES[name]


@pytest.mark.parametrize("name", EACH.values())
def test_what_is_public_says_what_it_is(name: str) -> None:
    assert inspect.getdoc(getattr(backfill_assets, name))


def test_an_input_is_of_one_of_four_kinds() -> None:
    assert [k.name for k in backfill_assets.InputKind] == [
        "CONTENT",
        "KNOWN_AT_CUT",
        "ARRIVALS",
        "FILES",
    ]


def test_type_checkers_see_the_names_that_python_gives() -> None:
    assert typed_names("") == set(backfill_assets.__all__)


def test_a_name_that_is_not_public_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'rebuild'"):
        getattr(backfill_assets, "rebuild")  # noqa: B009 - a type checker refuses the plain form, as it should


@pytest.mark.usefixtures("processes")
def test_importing_the_package_imports_neither_dagster_nor_spark() -> None:
    shown = "print(*(m for m in sys.modules if m.partition('.')[0] in sys.argv[1:]))"
    asked = f"import sys, backfill_assets.dagster; dir(backfill_assets); {shown}"
    heavy = ["dagster", "pyspark", "deltalake", "duckdb", "pyarrow", "pydantic"]
    done = subprocess.run(
        [sys.executable, "-c", asked, *heavy], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def _signature(value: Any) -> str:
    """The parameters without their types."""
    found = inspect.signature(value)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values()]
    return str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty))
