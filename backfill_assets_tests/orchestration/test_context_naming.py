"""Names of a lake in Dagster: from a table to its key, step and page, and back.

Tested here: `orchestration.context` as values. Not tested here: definitions under a prefix
(`dagster.test_definitions`).
"""

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.core.errors import SettingsError
from backfill_assets.orchestration.context import PLAIN, Naming, table_made_by

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,12}", fullmatch=True)
PARTS = NAMES.filter(lambda part: not part.startswith("make_") and "__" not in part and not part.endswith("_"))


@given(st.lists(PARTS, max_size=3), NAMES)
def test_a_table_comes_back_from_its_key_and_from_its_step(prefix: list[str], table: str) -> None:
    naming = Naming.below(prefix)
    assert naming.table_of(naming.key(table)) == table
    assert table_made_by(naming.step(table)) == table
    assert naming.output(table) == naming.key(table).to_python_identifier()


def test_a_lake_that_is_alone_has_plain_names() -> None:
    assert (PLAIN.key("raw"), PLAIN.name("rebuild"), PLAIN.step("raw")) == (dg.AssetKey("raw"), "rebuild", "make_raw")
    assert PLAIN.page("raw") == "../assets/raw"


def test_a_prefix_leads_keys_pages_and_all_other_names() -> None:
    shop = Naming.below(["eu", "shop"])
    assert shop.key("raw") == dg.AssetKey(["eu", "shop", "raw"])
    assert (shop.name("rebuild"), shop.step("raw")) == ("eu__shop__rebuild", "eu__shop__make_raw")
    assert shop.page("raw") == "../assets/eu/shop/raw"


def test_without_a_prefix_beside_other_definitions_only_keys_are_plain() -> None:
    guest = Naming.below(())
    assert (guest.key("raw"), guest.name("rebuild")) == (dg.AssetKey("raw"), "lake__rebuild")


def test_a_key_of_another_lake_or_of_the_project_names_no_table() -> None:
    shop = Naming.below("shop")
    for path in (["raw"], ["eu", "raw"], ["eu", "shop", "raw"], ["shop", "eu", "raw"]):
        assert shop.table_of(dg.AssetKey(path)) is None
    assert PLAIN.table_of(dg.AssetKey(["shop", "raw"])) is None


def test_a_step_that_makes_no_table_names_none() -> None:
    assert table_made_by("features_no_stale_days") is None
    assert table_made_by("shop__take_stock") is None


@pytest.mark.parametrize("naming", [PLAIN, Naming.below("shop"), Naming.below(["eu", "shop"]), Naming.below(())])
def test_a_command_finds_the_names_of_the_project_that_starts_it(naming: Naming) -> None:
    assert Naming.named_by(naming.environ) == naming


def test_a_variable_that_is_no_prefix_is_refused_by_its_name() -> None:
    with pytest.raises(SettingsError, match=r"BACKFILL_ASSETS_KEY_PREFIX.*'a b' is no part of a name"):
        Naming.named_by({"BACKFILL_ASSETS_KEY_PREFIX": "shop/a b"})


@pytest.mark.parametrize("part", ["", "a b", "a/b", "make_it", "a-b", "ü"])
def test_a_part_of_a_prefix_that_no_name_can_have_is_refused(part: str) -> None:
    with pytest.raises(ValueError, match="key_prefix: "):
        Naming.below(["shop", part])
