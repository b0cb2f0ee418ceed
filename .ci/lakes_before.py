"""Makes lakes with the package as it was at 6f78c832, and writes down what that package says.

Lives here: the export of that commit, small deliveries that are the same in every run, the lakes
(`LAKES`), and one JSON beside each (`said.json`): days, rows, plans, writes, names of files. Does
not live here: the comparison with what today's package says
(`backfill_assets_tests/end_to_end/test_lakes_before.py`). That package runs with the packages of
today's lock as they are.

`lakes_before.py FOLDER [LAKE …]` makes them in the folder; a lake in a bucket needs its ADDRESS as
`bucket=s3://…`, in a store that asks for no signature.
`lakes_before.py --archive` makes the small ones and packs them for the tests, which then need no
history of git.
`lakes_before.py --today LAKE ADDRESS` prints what today's package says, by the same questions.
"""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
COMMIT = "6f78c832"
EXPORT = CHECKOUT / ".artifacts" / "before" / COMMIT
SAID = "said.json"
MADE = "made"  # the folder beside it that holds the lake
ARCHIVES = CHECKOUT / "backfill_assets_tests" / "end_to_end" / "earlier" / COMMIT
ARCHIVED = (
    "files",
    "sources",
    "assets",
)  # in `external` a link leads to where the table of others lies
LONG_AGO = 1_700_000_000  # files this old are not waited for
FIRST = date(2024, 3, 1)
MANY_DAYS = 1000
SELECT = (
    "seq, cast(arrival_ts AS timestamp) AS arrival_ts, "
    "cast(arrival_ts AS timestamp) AS version_ts, "
    "cast(event_ts AS timestamp) AS event_ts, event_key, op, entity, value, 0 AS flag"
)
FILES = f"""files = "landing/{{0}}*.jsonl"
format = "jsonl"
select = "{SELECT}"
"""
REST = """[features]
windows_days = [2, 3]
{features}[labels]
horizon_days = 1
maturity_days = 0
{labels}[spark]
engine = "sail"
"""
ONE_SOURCE = (
    f"start_date = {FIRST}\n[source]\n{FILES.format('')}{REST.format(features='', labels='')}"
)
TWO_SOURCES = (
    f"start_date = {FIRST}\n[sources.events]\n{FILES.format('events-')}"
    f"[sources.truth]\n{FILES.format('truth-')}"
    + REST.format(features='source = "events"\n', labels='source = "truth"\n')
)
DAILY = """/*
description = "Money per customer and day."
day = "day"
key = ["customer"]
columns = { customer = "STRING", day = "DATE", cents = "BIGINT" }
inputs = { staging = {} }
*/
SELECT entity AS customer, event_date AS day, coalesce(try_sum(value), 0) AS cents
FROM staging WHERE known_until IS NULL GROUP BY entity, event_date
"""
SPENT = DAILY.replace("inputs = { staging = {} }", "inputs = { orders = {} }").partition("SELECT")[
    0
] + (
    "SELECT customer, order_date AS day, coalesce(try_sum(amount), 0) AS cents\n"
    "FROM orders GROUP BY customer, order_date\n"
)
EXTERNAL = (
    ONE_SOURCE
    + """[pipeline]
sql = "sql/*.sql"
[tables.orders]
external = "../warehouse/orders"
day = "order_date"
"""
)
# Of a project: an asset, and one that reads two days of it. Tests make days of it again.
PROJECT = """import dagster as dg
import pandas as pd

from backfill_assets.dagster import Input, daily_table


@dg.asset(
    partitions_def=dg.DailyPartitionsDefinition("2024-03-01"),
    backfill_policy=dg.BackfillPolicy.single_run(),
    metadata={"partition_expr": "day"},
    code_version="1",
)
def orders(context: dg.AssetExecutionContext) -> pd.DataFrame:
    days = pd.to_datetime(context.partition_keys).date
    return pd.DataFrame({"day": days, "id": "a", "cents": 5})


@daily_table(
    inputs=[Input("orders", before=1)], start="2024-03-01", unique=["day"], code_version="1"
)
def totals(context: dg.AssetExecutionContext, orders: pd.DataFrame) -> pd.DataFrame:
    days, seen = pd.to_datetime(context.partition_keys), pd.to_datetime(orders["day"])
    windows = [(seen <= day) & (seen >= day - pd.Timedelta(days=1)) for day in days]
    sums = [int(orders["cents"][window].sum()) for window in windows]
    return pd.DataFrame({"day": days.date, "cents": sums})
"""
OF_THE_MACHINE = (".dagster", ".locks", ".server")
DAYS_SAID = "SELECT * FROM system.days ORDER BY ALL"


def export_commit() -> None:
    """Unpack the package of that commit, once; two at once do it twice and one of both stays."""
    if EXPORT.is_dir():
        return
    git = shutil.which("git") or "git"
    EXPORT.parent.mkdir(parents=True, exist_ok=True)
    archive = subprocess.run(
        [git, "archive", COMMIT, "backfill_assets", "pyproject.toml"],
        cwd=CHECKOUT,
        check=True,
        capture_output=True,
    )
    with tempfile.TemporaryDirectory(dir=EXPORT.parent) as folder:
        packed = Path(folder) / "packed.tar"
        packed.write_bytes(archive.stdout)
        with tarfile.open(packed) as unpacked:
            unpacked.extractall(Path(folder) / "tree", filter="data")
        try:
            (Path(folder) / "tree").rename(EXPORT)
        except OSError:
            if not EXPORT.is_dir():
                raise


def make_lakes(folder: Path, wanted: Mapping[str, str]) -> None:
    """Make these lakes, each by a process of the exported package; the values are addresses.

    "" is no address: the lake lies in the folder.
    """
    export_commit()
    for name, address in wanted.items():
        place = folder / name
        place.mkdir(parents=True)
        environment = {**os.environ, "PYTHONPATH": str(EXPORT), "PYTHONDONTWRITEBYTECODE": "1"}
        inside = [sys.executable, "-P", __file__, "--inside", name, str(place), address]
        subprocess.run(inside, cwd=place, env=environment, check=True)


def run(root: Path | str, *words: object, code: int = 0) -> str:
    """What a command prints, run in this process; raises where it ends with another code."""
    from click.testing import CliRunner

    from backfill_assets.cli.app import app

    done = CliRunner().invoke(app, [*map(str, words), "--lake", str(root)])
    if done.exit_code != code:
        raise RuntimeError(
            f"{words} ended with {done.exit_code}: {done.output}"
        ) from done.exception
    return done.stdout


def read(root: Path | str, *words: object) -> Any:
    """The document that a command prints with `--json`."""
    return json.loads(run(root, *words, "--json"))


def delivery(
    seq: int, arrived: date, happened: date, key: str, value: int, op: str = "upsert"
) -> dict[str, Any]:
    """One row as it is delivered: at 11 o'clock, of an event at 1 o'clock."""
    return {
        "seq": seq,
        "arrival_ts": f"{arrived}T11:{seq:02}:00Z",
        "event_ts": f"{happened}T01:00:00Z",
        "event_key": key,
        "op": op,
        "entity": f"A{value % 3}",
        "value": value,
    }


def land(landing: Path, name: str, rows: list[dict[str, Any]]) -> None:
    """Write a landed file, of a time that nothing waits for."""
    landing.mkdir(parents=True, exist_ok=True)
    file = landing / f"{name}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    os.utime(file, (LONG_AGO, LONG_AGO))


def land_days(landing: Path, days: int, prefix: str = "") -> None:
    """Two rows of each day, landed on that day."""
    for n in range(days):
        day = FIRST + timedelta(n)
        rows = [delivery(seq, day, day, f"e{n}-{seq}", n + seq) for seq in (1, 2)]
        land(landing, f"{prefix}{day}", rows)


def land_late(landing: Path) -> None:
    """After five days: a late row, a correction and a deletion, in one file of the sixth day."""
    day, then = FIRST + timedelta(5), FIRST + timedelta(1)
    rows = [
        delivery(1, day, then, "late", 7),
        delivery(2, day, then, "e1-1", 40),
        delivery(3, day, FIRST + timedelta(2), "e2-2", 4, op="delete"),
    ]
    land(landing, str(day), rows)


def make_files(root: Path, _address: str) -> Path:
    """Six tables and one of its own in SQL; a late row, a correction, a deletion."""
    (root / "sql").mkdir()
    (root / "sql" / "daily.sql").write_text(DAILY, encoding="utf-8")
    (root / "lake.toml").write_text(
        ONE_SOURCE + '[pipeline]\nsql = "sql/*.sql"\n', encoding="utf-8"
    )
    land_days(root / "landing", 5)
    run(root, "catch-up")
    land_late(root / "landing")
    run(root, "catch-up")
    return root


def make_sources(root: Path, _address: str) -> Path:
    """Two sources, a finished plan, a day put back, a snapshot."""
    (root / "lake.toml").write_text(TWO_SOURCES, encoding="utf-8")
    for prefix in ("events-", "truth-"):
        land_days(root / "landing", 5, prefix)
    run(root, "catch-up")
    days = ("--from", FIRST, "--to", FIRST + timedelta(2))
    run(root, "snapshot", "create", "kept", *days, "--tables", "staging_events")
    plan = read(root, "plan", *days, "--tables", "staging_events", "--chunk", 2, "--force")["id"]
    run(root, "run", plan)
    run(root, "rollback", "--plan", plan, "--chunk", 1, "--yes")
    return root


def make_many(root: Path, _address: str) -> Path:
    """A thousand days of two rows, in one file."""
    (root / "lake.toml").write_text(ONE_SOURCE, encoding="utf-8")
    days = [FIRST + timedelta(n) for n in range(MANY_DAYS)]
    land(root / "landing", "all", [delivery(1, d, d, f"e{n}", n) for n, d in enumerate(days)])
    run(root, "catch-up")
    return root


def make_bucket(root: Path, address: str) -> Path:
    """The first lake's deliveries, its tables in a bucket, its landing in a folder."""
    text = ONE_SOURCE.replace('"landing/', f'"{root / "landing"}/')
    settings = f"{os.environ['AWS_ENDPOINT_URL']}/{address.removeprefix('s3://')}/lake.toml"
    kind = {"Content-Type": "text/plain"}  # else moto takes it for a form
    put = urllib.request.Request(settings, text.encode(), kind, method="PUT")  # noqa: S310
    urllib.request.urlopen(put).close()  # noqa: S310
    land_days(root / "landing", 3)
    run(address, "catch-up")
    return root


def make_external(root: Path, _address: str) -> Path:
    """A table that others write, and one of SQL that reads it."""
    import pyarrow as pa
    from deltalake import write_deltalake

    days = [FIRST + timedelta(n) for n in range(7)]
    orders = pa.table({"customer": [*"abaabab"], "order_date": days, "amount": [*range(7)]})
    write_deltalake(str(root / "warehouse" / "orders"), orders)
    lake = root / "lake"
    (lake / "sql").mkdir(parents=True)
    (lake / "sql" / "spent.sql").write_text(SPENT, encoding="utf-8")
    (lake / "lake.toml").write_text(EXTERNAL, encoding="utf-8")
    land_days(lake / "landing", 2)
    run(lake, "catch-up")
    return lake


def make_assets(root: Path, _address: str) -> Path:
    """Three days of two assets of a project, by the IO manager; the middle one once more."""
    from backfill_assets import testing
    from backfill_assets.dagster import LakeIOManager

    (root / "project.py").write_text(PROJECT, encoding="utf-8")
    project = runpy.run_path(str(root / "project.py"))
    manager = {"io_manager": LakeIOManager(lake=str(root / "lake"))}
    first, last = str(FIRST), str(FIRST + timedelta(2))
    testing.materialize([project["orders"], project["totals"]], first, last, resources=manager)
    testing.materialize([project["orders"]], str(FIRST + timedelta(1)), resources=manager)
    return root / "lake"


LAKES: Mapping[str, Callable[[Path, str], Path]] = {
    "files": make_files,
    "sources": make_sources,
    "many": make_many,
    "bucket": make_bucket,
    "external": make_external,
    "assets": make_assets,
}


def file_names(root: Path) -> list[str]:
    """Forms of the names of a lake's files: hashes, ids and numbers are replaced."""
    found = set()
    for path in root.rglob("*"):
        if path.is_file() and path.relative_to(root).parts[0] not in OF_THE_MACHINE:
            name = re.sub(r"\d{4}-\d\d-\d\d", "DAY", path.relative_to(root).as_posix())
            name = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27,}", "UUID", name)
            found.add(re.sub(r"\b[0-9a-f]{12,}\b|\d+", "N", name))
    return sorted(found)


def rows_of(where: Path | str, table: str) -> list[Any]:
    """All rows of a table, sorted as text, also those of days that are held or stale."""
    from backfill_assets.reading import open_lake

    days = (
        open_lake(where)
        .table(table)
        .days(str(FIRST), str(FIRST + timedelta(MANY_DAYS)), unfit="take")
    )
    return sorted(json.loads(json.dumps(days.arrow().to_pylist(), default=str)), key=str)


def said_of(root: Path, address: str) -> dict[str, Any]:
    """What this package says of a lake: days, rows, status, writes, forms of files' names."""
    where = address or root
    days = read(where, "sql", DAYS_SAID)
    status = read(where, "status")
    status.pop("lake")  # where it lies now
    return {
        "days": days,
        "rows": {table: rows_of(where, table) for table in sorted({day["table"] for day in days})},
        "status": status,
        "writes": read(where, "audit"),
        "plans": read(where, "plan", "list"),
        "snapshots": read(where, "snapshot", "list"),
        "files": [] if address else file_names(root),
    }


def make_inside(name: str, place: Path, address: str) -> None:
    """In a process of the exported package: one lake, and beside it what the package says of it."""
    import backfill_assets

    loaded = Path(backfill_assets.__file__).resolve()
    if not loaded.is_relative_to(EXPORT):
        sys.exit(
            f"lakes_before: {loaded} was loaded in place of {EXPORT}. Nothing was made. "
            "Call it without --inside."
        )
    folder = place / MADE
    folder.mkdir()
    lake = LAKES[name](folder, address)
    document = said_of(lake, address)
    run(address or lake, "server", "stop")
    at = address or lake.relative_to(place).as_posix()
    text = json.dumps({**document, "lake": at}, indent=1, sort_keys=True)
    (place / SAID).write_text(text + "\n", encoding="utf-8")


def is_packed(found: tarfile.TarInfo) -> "tarfile.TarInfo | None":
    """The entry of an archive without its owner; None for what is of this machine."""
    if set(OF_THE_MACHINE) & {*Path(found.name).parts}:
        return None
    found.uid = found.gid = 0
    found.uname = found.gname = ""
    return found


def pack_lakes() -> None:
    """Make the small lakes and pack each with what was said of it, for the tests."""
    ARCHIVES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        make_lakes(Path(folder), dict.fromkeys(ARCHIVED, ""))
        for name in ARCHIVED:
            with tarfile.open(ARCHIVES / f"{name}.tar.xz", "w:xz") as packed:
                for part in (MADE, SAID):
                    packed.add(Path(folder) / name / part, part, filter=is_packed)


def main(words: list[str]) -> None:
    """Make the lakes that the words name; where they name none, all but `bucket`."""
    if words[:1] == ["--inside"]:
        make_inside(words[1], Path(words[2]), words[3])
        return
    if words == ["--archive"]:
        pack_lakes()
        return
    if words[:1] == ["--today"]:
        sys.stdout.write(json.dumps(said_of(Path(words[1]), words[2])))
        return
    folder, *names = words
    wanted = dict(name.partition("=")[::2] for name in names) or {
        n: "" for n in LAKES if n != "bucket"
    }
    make_lakes(Path(folder).resolve(), wanted)


if __name__ == "__main__":
    main(sys.argv[1:])
