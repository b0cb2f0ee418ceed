"""The whole way from landed file to training rows, beside hand-written scripts on the same rows, answers checked.

Lives here: one command for all workloads and contestants. Does not live here: making rows, the scripts to beat and the
checker, which lie beside the checkout (../shared/tools/bench), and any assertion.

usage: python -m backfill_assets_tests.benchmarks.whole_way DIR [DAYSxROWS ...] [--against floor_delta,duckdb]
       [--late k7_n700] [--memory 2g] [--repeat 1] [--engine sail]   e.g. 90x20000 1096x2000 60x300 1x2000000
Each line is also appended to DIR/results.jsonl. Compare lines of one run only: other users of the machine slow all.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from backfill_assets.engine.cache import delta_jars
from backfill_assets.engine.jvm import find_java, launch_options
from backfill_assets_tests.benchmarks.measuring import measured, since, spark_work, stored
from backfill_assets_tests.processes import CHECKOUT

BENCH = CHECKOUT.parent / "shared" / "tools" / "bench"
EARLY_DAYS = 226  # the made-up rows hold a few lone events this long before the first day
LAST_CHARS = 4_000  # of what a failed program told: its end names the error
FORWARD = ("features", "features_as_known", "labels", "training")


def main() -> None:
    """Make what is missing, run every contestant on every workload, print a line per piece of work."""
    arguments = _arguments()
    for size in arguments.sizes:
        workload = arguments.root / size
        if not (workload / "workload.json").exists():
            days, rows = size.split("x")
            _run(BENCH / "make_workload.py", "synth", workload, "--days", days, "--per-day", rows)
        for _ in range(arguments.repeat):
            late = arguments.late.split(",") if arguments.late else []
            for name in filter(None, arguments.against.split(",")):
                for line in _by_script(name, workload, arguments.root / "out", late):
                    _tell(arguments.root, line)
            Ours(workload, arguments.root, arguments.memory, arguments.engine).run(late)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="whole_way")
    parser.add_argument("root", type=Path)
    parser.add_argument("sizes", nargs="*", default=["30x5000"])
    parser.add_argument("--against", default="floor_delta,floor_parquet,duckdb")
    parser.add_argument("--late", default="")
    parser.add_argument("--memory", default="2g")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--engine", default="embedded")
    asked = parser.parse_args()
    asked.root = asked.root.resolve()
    asked.root.mkdir(parents=True, exist_ok=True)
    return asked


def _run(*command: object, env: Mapping[str, str] | None = None) -> str:
    """What a Python program prints; where it fails, the benchmark ends with the last that it told, and its worker."""
    done = subprocess.run([sys.executable, *map(str, command)], env=env, capture_output=True, text=True)
    if done.returncode:
        told = "\n".join((done.stdout.replace("\\n", "\n"), done.stderr))  # the scripts tell a worker's log in JSON
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{told[-LAST_CHARS:]}")
    return done.stdout


def _tell(root: Path, line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)
    with (root / "results.jsonl").open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(line) + "\n")


def _by_script(name: str, workload: Path, out: Path, late: list[str]) -> Iterator[dict[str, Any]]:
    """One of the scripts to beat, as it measures and checks itself; it gets the jars that we have, or fetch now.

    After the whole range come the late batches, each in a process of its own, as a script is started for one.
    """
    shutil.rmtree(out, ignore_errors=True)
    jars = delta_jars(find_java().executable, launch_options())
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", f"--jars {','.join(map(str, jars))} pyspark-shell")
    params = json.loads((workload / "workload.json").read_text())
    pieces: list[tuple[str, ...]] = [("backfill", "--from", params["D0"], "--to", params["D1"])]
    pieces += [("late", "--arrivals", str(workload / "arrivals" / batch)) for batch in late]
    for piece in pieces:
        told = _run(BENCH / "contestants" / f"{name}.py", *piece, "--input", workload, "--out", out)
        files, size = stored(out)
        yield {"workload": workload.name, **json.loads(told.splitlines()[-1]), "files": files, "bytes": size}
    shutil.rmtree(out)


class Ours:
    """This package on one workload: cold, the same forced on a warm server, nothing changed, one day, late batches."""

    def __init__(self, workload: Path, root: Path, memory: str, engine: str = "embedded") -> None:
        self.workload, self.root, self.memory, self.engine = workload, root, memory, engine
        self.params = json.loads((workload / "workload.json").read_text())
        self.out = root / "ours"
        self.lake, self.events = self.out / "lake", self.out / "events"
        self.first, self.last = (date.fromisoformat(self.params[name]) for name in ("D0", "D1"))
        self.start = self.first - timedelta(days=EARLY_DAYS)

    def run(self, late: list[str]) -> None:
        """A line per piece of work; the server is stopped at the end."""
        shutil.rmtree(self.out, ignore_errors=True)
        (self.lake / "landing").mkdir(parents=True)
        self.events.mkdir()
        shutil.copy(self.workload / "deliveries.parquet", self.lake / "landing")
        self._configure(self.params["T"])
        middle = self.first + (self.last - self.first) // 2
        try:
            self._range("cold", check="base")
            self._range("warm, forced", "--force", check="base")
            self._range("nothing changed")
            for number in range(3):
                self._measure(f"one day forced {number}", [("--from", middle, "--to", middle, "--force")])
            if late:  # the days before the first, which the scripts do not make, are no part of a late batch
                self._cli("catch-up", log=self.out / "settled.txt")
            for name in late:
                self._late(name)
        finally:
            self._cli("server", "stop", log=self.out / "stop.log")

    def _range(self, what: str, *more: str, check: str = "") -> None:
        landed = ("--from", self.start, "--to", self.last, "--tables", "raw,staging", *more)
        forward = ("--from", self.first, "--to", self.last, "--tables", ",".join(FORWARD), *more)
        self._measure(what, [landed, forward], check)

    def _late(self, name: str) -> None:
        for file in (self.workload / "arrivals" / name).glob("*.parquet"):
            shutil.copy(file, self.lake / "landing" / f"late_{name}_{file.name}")
        self._configure(self.params["arrivals"][name]["T"])
        self._measure(f"late {name}", ["catch-up"], name)

    def _measure(self, what: str, steps: list[Any], check: str = "") -> None:
        """One line for commands that follow each other, with the seconds of each phase."""
        before, costs, phases = spark_work(self.events), [], []
        for step in steps:
            command = ["catch-up", "--json"] if step == "catch-up" else ["backfill", *map(str, step), "--json"]
            log = self.out / f"{len(list(self.out.glob('*.log')))}.log"
            costs.append(measured(self._command(*command), self.lake, self._env(), log))
            phases += _tables_told(log)
        files, size = stored(self.lake / "tables")
        line: dict[str, Any] = {"workload": self.workload.name, "contestant": f"ours {self.engine}", "cmd": what}
        line |= {
            "wall_s": round(sum(c.wall_s for c in costs), 2), "cpu_s": round(sum(c.cpu_s for c in costs), 2),
            "client_cpu_s": round(sum(c.client_cpu_s for c in costs), 2), "peak_mib": max(c.peak_mib for c in costs),
            "files": files, "bytes": size, "spark": asdict(since(spark_work(self.events), before)), "phases": phases,
        }  # fmt: skip
        _tell(self.root, line | (self._answer(check) if check else {}))

    def _command(self, *args: str) -> list[str]:
        return [str(Path(sys.executable).with_name("backfill-assets")), "--lake", str(self.lake), *args]

    def _cli(self, *args: str, log: Path) -> None:
        measured(self._command(*args), self.lake, self._env(), log)

    def _env(self) -> dict[str, str]:
        # The lake's own Dagster home, as a user of `--lake` has it: with the batched event storage.
        lake = {"BACKFILL_ASSETS_LAKE": str(self.lake)}
        # As where it is installed: told to keep no compiled code, every command compiles two hundred modules again.
        return lake | {"PYTHONDONTWRITEBYTECODE": ""}

    def _configure(self, as_of: str) -> None:
        p = self.params
        moment = as_of.replace(" ", "T") if ":" in as_of else f"{as_of}T00:00:00"
        (self.lake / "lake.toml").write_text(
            f"""start_date = {self.start}
as_of = {moment}Z
[source]
files = "landing/*.parquet"
format = "parquet"
select = "seq, arrival_ts, version_ts, event_ts, event_key, op, entity, value, flag"
[features]
windows_days = [{p["w1"]}, {p["w2"]}]
cutoff_grace_hours = {p["grace_h"]}
[labels]
measure = "{p["label_value"]}"
rule = "{p["label_rule"]}"
horizon_days = {p["H"]}
maturity_days = {p["M"]}
[lateness]
early_tolerance_days = 60
[spark]
engine = "{self.engine}"
memory = "{self.memory}"
{self._logged() if self.engine == "embedded" else ""}""",
            encoding="utf-8",
        )

    def _logged(self) -> str:
        """What has Spark tell what it did; Sail tells nothing of the kind."""
        return f'[spark.confs]\n"spark.eventLog.enabled" = "true"\n"spark.eventLog.dir" = "{self.events.as_uri()}"\n'

    def _answer(self, state: str) -> dict[str, Any]:
        """What the checker beside the checkout says of our tables, told by its names."""
        window = f"between date '{self.params['D0']}' and date '{self.params['D1']}'"
        at = {n: f"{{delta:{self.lake / 'tables' / n}}}" for n in ("staging", "features", "training", "labels")}
        named = (
            "entity, feature_date as d, events_short as n_w1, events_long as n_w2, value_short as v_w1, "
            "value_long as v_w2, flagged_long as f_w2, days_since_last as recency"
        )
        tables = {
            "staging": f"sql:select * from {at['staging']} where known_until is null",
            "features": f"sql:select {named} from {at['features']} where feature_date {window}",
            "training": f"sql:select t.*, l.y_sum from (select {named}, label as y from {at['training']} where "
            f"feature_date {window}) t join (select entity, label_date as d, forward as y_sum from {at['labels']}) l "
            "using (entity, d)",
        }
        code = (
            "import json, sys; from check import check; "
            "json.dump(check(*json.loads(sys.argv[1])), open(sys.argv[2], 'w'))"
        )
        asked = json.dumps([str(self.workload), str(self.out), state, tables])
        told = self.out / "answer.json"  # to stdout DuckDB may draw a bar of progress, after the answer, too
        _run("-c", code, asked, told, env={**os.environ, "PYTHONPATH": str(BENCH / "workers")})
        found = json.loads(told.read_text(encoding="utf-8"))
        return {"answer": found["answer"], "wrong": found["wrong"]}


def _tables_told(log: Path) -> list[dict[str, Any]]:
    """What `--json` said of the tables, of all runs of a catch-up."""
    text = log.read_text(encoding="utf-8", errors="replace")
    found = max(text.find('{\n  "from"'), text.find('{\n  "runs"'))
    told = json.JSONDecoder().raw_decode(text[found:])[0] if found >= 0 else {"tables": []}
    tables = [table for run in told.get("runs", [told]) for table in run["tables"]]
    return [{"table": t["table"], "seconds": t["seconds"], **t["phases"]} for t in tables]


if __name__ == "__main__":
    main()
