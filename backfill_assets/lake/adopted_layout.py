"""The days of a table's files before it is adopted; and folders by the day for one that is laid out by nothing.

Not here: adopting it (`adopting`). Each file of such a table that holds one day gets a second name in the folder of its
day, by a hard link, in a bucket by a copy that the store makes: no byte passes this machine, none is changed, and
readers of earlier versions find the files by their first names.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from backfill_assets.core.clock import utc_now
from backfill_assets.core.contracts import Contract
from backfill_assets.core.place import Place, size
from backfill_assets.lake.adoptable import Adoption, contract_there, refused
from backfill_assets.lake.adopted import second_name
from backfill_assets.lake.columns import file_statistics, footer_in
from backfill_assets.lake.data_files import gone_or_altered
from backfill_assets.lake.external import Reference, references
from backfill_assets.lake.log import ACTIONS, commit_name

if TYPE_CHECKING:
    from deltalake import DeltaTable

ANEW = (
    "Name another column, or have its owner write it anew: spark.read.format('delta').load(PLACE).write.format('delta')"
    ".mode('overwrite').option('overwriteSchema', 'true').partitionBy('{day}').save(PLACE)"
)


def contract_of_files(wanted: Adoption, opened: "DeltaTable") -> Contract:
    """The contract by which the table's files can be read as they lie."""
    contract = contract_there(wanted, opened)
    return contract if opened.metadata().partition_columns else replace(contract, partition_by="", made_by="")


def files_with_days(wanted: Adoption, opened: "DeltaTable") -> list[Reference]:
    """The data files of a table, each with its day as its partition. Raises BackfillError for files that are gone, and
    where nothing lays them out for a file that holds several days, or rows without one."""
    contract = contract_of_files(wanted, opened)
    there = references(opened, contract)
    if lost := gone_or_altered(wanted.there, [r.file for r in there]):
        named = f"its log names {len(lost)} file(s) that are gone, first {lost[0].path}"
        raise refused(wanted.name, named, "Restore them")
    return there if contract.partition_column else [_with_day(wanted, reference) for reference in there]


def _with_day(wanted: Adoption, reference: Reference) -> Reference:
    path = reference.file.path
    first, last, without = _days_in(wanted.there, path, wanted.day)
    if without:
        raise refused(wanted.name, f"{without} row(s) have no day, in {path}", "Give them a day there, or delete them")
    if first != last:
        culprit = f"its file {path} holds days from {first} to {last}: a day can be replaced only where files hold one"
        raise refused(wanted.name, culprit, ANEW.format(day=wanted.day))
    if quote(path, safe="/=") != path:
        raise refused(wanted.name, f"its log writes the name of {path} otherwise", ANEW.format(day=wanted.day))
    return replace(reference, file=replace(reference.file, partition=str(first)))


def _days_in(place: Place, name: str, day: str) -> tuple[date | None, date | None, int]:
    """The least and greatest day in a file, and how many rows have none: by the rows, since a log may be wrong."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with place.open(name) as content:
        opened = pq.ParquetFile(content)
        if day not in opened.schema_arrow.names:
            return None, None, opened.metadata.num_rows
        days = opened.read([day]).column(0)
    found = pc.min_max(days).as_py()
    return found["min"], found["max"], days.null_count


def commit_folders(
    table: Place, wanted: Adoption, opened: "DeltaTable", properties: Mapping[str, str], info: Mapping[str, Any]
) -> None:
    """Give each file its second name, and commit these in place of the first ones, with the table laid out by its day,
    in the version after the one that is opened. Raises AlreadyThere where others committed meanwhile."""
    metadata, now = opened.metadata(), int(utc_now().timestamp() * 1000)
    actions = list[dict[str, Any]]([{"metaData": {
        "id": str(metadata.id), "name": metadata.name, "description": metadata.description,
        "format": {"provider": "parquet", "options": {}}, "schemaString": opened.schema().to_json(),
        "partitionColumns": [wanted.day], "configuration": {**metadata.configuration, **properties},
        "createdTime": metadata.created_time,
    }}])  # fmt: skip
    for reference in files_with_days(wanted, opened):
        actions += _moved(table, wanted, reference, now)
    table.sync_new([action["add"]["path"] for action in actions if "add" in action])
    told = {"timestamp": now, "operation": "ADOPT", "operationParameters": {}, **info, ACTIONS: str(len(actions))}
    lines = (json.dumps(action, separators=(",", ":")) for action in ({"commitInfo": told}, *actions))
    table.write(commit_name(opened.version() + 1), "\n".join(lines).encode(), if_absent=True)


def _moved(place: Place, wanted: Adoption, reference: Reference, now: int) -> Sequence[dict[str, Any]]:
    """Give a file its second name; the actions that take the first one out and add the second."""
    file = reference.file
    name = f"{wanted.day}={file.partition}/{second_name(file.path)}"
    if (there := size(place, name)) != file.size:  # else by a call that was killed
        if there is not None:
            place.delete(name)
        place.link(name, place, file.path)
    stats = file_statistics(footer_in(place, name))
    gone = {"path": file.path, "deletionTimestamp": now, "partitionValues": {}, "size": file.size}
    added = {"path": name, "partitionValues": {wanted.day: file.partition}, "size": file.size, "stats": stats}
    return (
        {"remove": {**gone, "dataChange": False, "extendedFileMetadata": True}},
        {"add": {**added, "modificationTime": now, "dataChange": False}},
    )
