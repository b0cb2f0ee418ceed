"""What can be read of a table that others write, and what is refused by name.
Not here: looks that compare versions (`foreign/test_observing`)."""

import json
import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.foreign.external import (
    ExternalTable,
    Reference,
    days_by_footer,
    days_of_change,
    external_contract,
    external_place,
    external_table,
    file_references,
    open_external,
    seen_contract,
)
from backfill_assets.intake.source_log import list_source
from backfill_assets.kernel.core.addresses import STATE_VARIABLE, local_root
from backfill_assets.kernel.core.contracts import Contract, refuse_external
from backfill_assets.kernel.core.errors import BackfillError, SettingsError
from backfill_assets.kernel.log.log import FileChange, LiveFile
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.tables.settings import load_settings
from backfill_assets_tests.logs import commit_file
from backfill_assets_tests.tables import settings_text

D1, D2 = date(2024, 3, 1), date(2024, 3, 2)
ROWS = pa.table({"day": pa.array([D1, D2], pa.date32()), "id": [1, 2], "region": ["eu", "us"]})


def contract_at(place: Path, day: str = "day") -> Contract:
    return seen_contract(
        ExternalTable("orders", str(place), day), open_external("orders", str(place))
    )


def edited(place: Path, action: str, changes: Mapping[str, Any]) -> None:
    """Write the first commit of a table anew, with other values in one of its actions."""
    path = commit_file(place, 0)
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for one in actions:
        if action in one:
            one[action] |= changes
    path.write_text("".join(json.dumps(one) + "\n" for one in actions))


def test_a_table_that_was_never_there_is_a_matter_of_settings(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=f"external table orders: no Delta table lies in {tmp_path / 'orders'}"
    ):
        external_contract(tmp_path, external_table("orders", table="orders", day="day"))


def test_a_type_that_is_not_known_is_named_with_a_way_out(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "orders", ROWS)
    actions = [json.loads(line) for line in commit_file(tmp_path / "orders", 0).open()]
    (metadata,) = (action["metaData"] for action in actions if "metaData" in action)
    told = json.loads(metadata["schemaString"])
    told["fields"][1]["type"] = "time(6)"
    edited(tmp_path / "orders", "metaData", {"schemaString": json.dumps(told)})
    with pytest.raises(BackfillError) as refused:
        open_external("orders", str(tmp_path / "orders"))
    assert refused.value.culprit == "a column of it has the type time(6), which is not known here"
    assert "name another table" in refused.value.fix


def test_an_iceberg_table_is_refused_by_name_as_an_input_and_as_a_source(tmp_path: Path) -> None:
    (tmp_path / "orders" / "metadata").mkdir(parents=True)
    (tmp_path / "orders" / "metadata" / "v1.metadata.json").write_text("{}")
    (tmp_path / "lake.toml").write_text(settings_text("orders"))
    words = (
        f"an Iceberg table lies in {tmp_path / 'orders'}, and no reader of it exists.*as Parquet "
        "files"
    )
    with pytest.raises(SettingsError, match=f"external table orders: {words}"):
        external_contract(tmp_path, external_table("orders", table="orders", day="day"))
    with pytest.raises(SettingsError, match=rf"\[source\] table = 'orders': {words}"):
        list_source(load_settings(tmp_path).source, tmp_path)


def test_its_contract_has_its_columns_the_day_never_null(tmp_path: Path) -> None:
    write_deltalake(
        tmp_path, ROWS.append_column("tiny", pa.array([1, 2], pa.int8())), partition_by=["day"]
    )
    contract = contract_at(tmp_path)
    assert [(c.name, c.type, c.nullable) for c in contract.columns] == [
        ("day", "DATE", False),
        ("id", "BIGINT", True),
        ("region", "STRING", True),
    ]
    assert (contract.partition_column, contract.external, contract.is_given) == (
        "day",
        str(tmp_path),
        True,
    )
    with pytest.raises(BackfillError, match=f"others write it, in {tmp_path}. Nothing was written"):
        refuse_external(contract)


def test_it_lies_beside_lake_toml_or_anywhere_on_this_machine(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "orders", ROWS)
    for place in ("../orders", str(tmp_path / "orders")):
        found = external_contract(
            tmp_path / "lake", external_table("orders", table=place, day="day")
        )
        assert (found.external, found.partition_column) == (str(tmp_path / "orders"), "")


@pytest.mark.parametrize(
    "place", ["s3a://bucket/orders", "s3://bucket/or ders", "s3://bucket/orders*", "https://host/o"]
)
def test_an_address_that_no_table_can_have_is_refused_by_name(tmp_path: Path, place: str) -> None:
    with pytest.raises(
        SettingsError, match=f"external table orders: {re.escape(place)} is no address of a table"
    ):
        external_contract(tmp_path, external_table("orders", table=place, day="day"))


def test_in_a_bucket_it_lies_beside_lake_toml_or_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    root, beside = local_root("s3://bucket/team/lake"), "s3://bucket/team/orders"
    for place in ("../orders", beside, f"{beside}/"):
        assert external_place("orders", place, root) == beside
    assert external_place("orders", "/orders", root) == "/orders"
    with pytest.raises(SettingsError, match=r"external table orders: .* is no address"):
        external_place("orders", "../../../orders", root)


@pytest.mark.parametrize(
    ("day", "by", "told"),
    [
        ("id", None, "its column id is no DATE"),
        ("date", None, "it has no column date"),
        ("day", ["region"], "laid out by region"),
        ("day", ["day", "region"], "laid out by day, region"),
    ],
)
def test_a_table_without_such_days_is_refused_by_name(
    tmp_path: Path, day: str, by: list[str] | None, told: str
) -> None:
    write_deltalake(tmp_path, ROWS, partition_by=by)
    with pytest.raises(BackfillError, match=f"external table orders: .*{told}"):
        contract_at(tmp_path, day)


def test_a_table_keyed_by_texts_of_months_is_refused_with_what_its_owner_does(
    tmp_path: Path,
) -> None:
    write_deltalake(tmp_path, pa.table({"month": ["2024-03"], "cents": [1]}))
    with pytest.raises(BackfillError, match="its column month is no DATE") as refused:
        contract_at(tmp_path, "month")
    assert "it has none: have its owner add one, of a month its first day" in str(refused.value)


def test_renamed_columns_are_refused_by_name_where_files_must_be_plain(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    edited(tmp_path, "metaData", {"configuration": {"delta.columnMapping.mode": "name"}})
    with pytest.raises(BackfillError, match=r"renamed by column mapping \(name\)"):
        open_external("orders", str(tmp_path), is_plain=True)
    assert open_external("orders", str(tmp_path)).version() == 0, "an input is read by copies"


@pytest.mark.parametrize("has_one", [True, False])
def test_deletion_vectors_are_refused_there_once_rows_are_deleted_by_them(
    tmp_path: Path, has_one: bool
) -> None:
    write_deltalake(tmp_path, ROWS)
    features = ["deletionVectors"]
    edited(
        tmp_path,
        "protocol",
        {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": features,
            "writerFeatures": features,
        },
    )
    if not has_one:
        assert open_external("orders", str(tmp_path), is_plain=True).version() == 0
        return
    vector = {
        "storageType": "i",
        "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        "sizeInBytes": 40,
        "cardinality": 6,
    }
    edited(tmp_path, "add", {"deletionVector": vector})
    with pytest.raises(BackfillError, match=r"it has deletion vectors.*written to another folder"):
        open_external("orders", str(tmp_path), is_plain=True)


def test_a_file_outside_of_its_folder_is_refused_by_name(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", ROWS, partition_by=["day"])
    edited(tmp_path / "t", "add", {"path": "part-0.parquet"})
    opened = DeltaTable(tmp_path / "t")
    with pytest.raises(
        BackfillError, match=r"the file part-0.parquet, which is not named by its folder and day"
    ):
        file_references(opened, contract_at(tmp_path / "t"), Folder(str(tmp_path / "t")))


def test_files_are_named_with_the_days_they_may_hold(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "by", ROWS, partition_by=["day"])
    write_deltalake(tmp_path / "flat", ROWS)
    laid_out = file_references(
        DeltaTable(tmp_path / "by"),
        contract_at(tmp_path / "by"),
        Folder(str(tmp_path / "by")),
        "link/",
    )
    assert sorted((r.file.partition, r.rows, r.first, r.last) for r in laid_out) == [
        (str(D1), 1, D1, D1),
        (str(D2), 1, D2, D2),
    ]
    assert all(r.file.path.startswith("link/day=") for r in laid_out)
    (flat,) = file_references(
        DeltaTable(tmp_path / "flat"),
        contract_at(tmp_path / "flat"),
        Folder(str(tmp_path / "flat")),
    )
    assert (flat.first, flat.last, [*(flat.days or ())]) == (D1, D2, [D1, D2])
    assert json.loads(flat.stats("day")) == {
        "numRecords": 2,
        "minValues": {"day": str(D1)},
        "maxValues": {"day": str(D2)},
    }


def test_without_statistics_the_footer_of_a_file_tells_its_days(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    edited(tmp_path, "add", {"stats": None})
    contract = contract_at(tmp_path)
    (bare,) = file_references(DeltaTable(tmp_path), contract, Folder(str(tmp_path)))
    assert (bare.rows, bare.first, bare.days) == (None, None, None)
    assert days_by_footer(bare, Folder(str(tmp_path)), contract) == Reference(bare.file, 2, D1, D2)


@pytest.mark.parametrize(
    ("by", "values", "stats", "days"),
    [
        ("day", {"day": "2024-03-01"}, "", [D1]),
        ("day", {"day": None}, "", []),
        (
            "",
            {},
            '{"minValues": {"day": "2024-03-01"}, "maxValues": {"day": "2024-03-02"}}',
            [D1, D2],
        ),
        ("", {}, "", None),
        ("", {}, '{"minValues": {"id": 1}}', None),
    ],
)
def test_a_change_in_a_log_names_its_days(
    tmp_path: Path, by: str, values: dict[str, str | None], stats: str, days: list[date] | None
) -> None:
    write_deltalake(tmp_path, ROWS, partition_by=[by] if by else None)
    found = days_of_change(FileChange("f", True, 1, values, True, stats), contract_at(tmp_path))
    assert (None if found is None else [*found]) == days


def test_a_file_that_spans_all_time_may_hold_any_day() -> None:
    assert Reference(LiveFile("f", None, 1), None, date.min, date.max).days is None
