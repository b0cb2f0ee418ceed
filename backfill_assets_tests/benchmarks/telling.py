"""What it costs to tell Dagster of a run over many days of six tables: with our storage class,
Dagster's own, Postgres.

    python -m backfill_assets_tests.benchmarks.telling [DAYS]

Lives here: the measurement, by the command in homes of its own over one sample lake. Does not live
here: which rows a run leaves (`dagster.adapter.test_event_storage`). The same forced run is made in
a home that keeps events in memory: what a run costs more elsewhere is the telling. Figures of one
call are compared with one another only: others may use the machine.
"""

import importlib.util
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from backfill_assets.cli.dagster_names import EVENT_STORAGE
from backfill_assets.engines.server import stop_server
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.tables.home import open_lake
from backfill_assets_tests.engine_choice import usual_environ
from backfill_assets_tests.processes import CHECKOUT

QUIET = "telemetry: {enabled: false}\n"
IN_MEMORY = (
    "event_log_storage: {module: dagster._core.storage.event_log, class: InMemoryEventLogStorage, "
    "config: {}}\n"
)
# Else commands write its files by our class.
STOCK_NAMED = "storage: {sqlite: {base_dir: {env: DAGSTER_HOME}}}\n"
MEMORY, OURS, STOCK, UNNAMED, SERVER = (
    "in memory",
    "ours",
    "dagster's own",
    "none named",
    "postgres",
)
Cost = tuple[float, float]  # seconds of the processor, and of the clock


def command(home: Path, *arguments: str) -> Cost:
    """What a command costs in this home, with all processes that it starts and waits for."""
    lake = home.parent / "lake"
    own = {
        "DAGSTER_HOME": str(home),
        "BACKFILL_ASSETS_LAKE": str(lake),
        "PYTHONPATH": os.pathsep.join([str(CHECKOUT), *sys.path[1:]]),
    }
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "backfill_assets", *arguments],
        cwd=home,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **usual_environ(), **own},
    )
    after, ended = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ended - began


@contextmanager
def postgres() -> Iterator[str]:
    """The lines of `dagster.yaml` for a PostgreSQL server of our own; none where dagster-postgres
    or it is missing."""
    if (
        importlib.util.find_spec("dagster_postgres") is None
        or (initdb := shutil.which("initdb")) is None
    ):
        yield ""
        return
    control = initdb.replace("initdb", "pg_ctl")
    user = "postgres" if os.geteuid() == 0 else None  # the server does not run as root
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        if user:
            shutil.chown(folder, user)

        def run(*parts: str) -> None:
            subprocess.run(parts, check=True, user=user, cwd=folder, stdout=subprocess.DEVNULL)

        run(initdb, "-D", f"{folder}/data", "-U", "owner", "-A", "trust", "-N")
        run(
            control,
            "-D",
            f"{folder}/data",
            "-w",
            "-o",
            f"-c listen_addresses='' -k {folder}",
            "start",
        )
        try:
            address = f"postgresql+psycopg2://owner:secret@/postgres?host={folder}"
            yield f'storage: {{postgres: {{postgres_url: "{address}"}}}}\n'
        finally:
            run(control, "-D", f"{folder}/data", "-m", "immediate", "stop")


def measured(folder: Path, number: int, name: str, lines: str) -> Cost:
    """The cost of a run that makes this number of days, in a new home with these lines in its
    `dagster.yaml`."""
    home = folder / name.replace(" ", "_")
    home.mkdir()
    (home / "dagster.yaml").write_text(QUIET + lines)
    first = open_lake(folder / "lake").settings.start_date
    days = ("backfill", "--from", str(first), "--to", str(first + ONE_DAY * (number - 1)))
    command(
        home, "backfill", "--from", str(first), "--to", str(first)
    )  # makes the files of the home
    return command(home, *days, "--force")


def main(days: int = 100) -> None:
    """Print a line per storage, and how the two bounds are met."""
    with tempfile.TemporaryDirectory(prefix="telling") as name, ExitStack() as stack:
        folder = Path(name)
        stack.callback(stop_server, folder / "lake", force=True)
        (folder / "first").mkdir()
        command(folder / "first", "demo", "--days", str(days))
        homes = {MEMORY: IN_MEMORY, OURS: EVENT_STORAGE + "\n", STOCK: STOCK_NAMED, UNNAMED: ""}
        homes[SERVER] = stack.enter_context(postgres())
        found = {k: measured(folder, days, k, v) for k, v in homes.items() if v or k == UNNAMED}
        for kind, (cpu, wall) in found.items():
            telling = (wall - found[MEMORY][1]) / wall
            print(
                f"{kind:14} {cpu:6.1f} s of CPU, {wall:6.1f} s; telling is {max(telling, 0):.2f} "
                "of the run"
            )
        for part, unit in enumerate(("CPU", "wall")):
            for kind in (STOCK, UNNAMED):
                print(
                    f"{kind} costs {found[kind][part] / found[OURS][part]:.2f} times ours ({unit})"
                )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
