"""What a benchmark measures of a command and the lake's server: wall, CPU of both, peak memory, bytes, Spark's jobs.

Lives here: plain figures of one piece of work. Does not live here: what is run and against what (`whole_way`).
"""

import io
import json
import os
import resource
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from backfill_assets.engine.server import server_status

SAMPLE_SECONDS = 0.2
YOUNG_SECONDS = 1.0  # a process this young may be a fork of the JVM that still shows the JVM's pages


@dataclass(frozen=True)
class Cost:
    """One piece of work: seconds of wall clock, CPU seconds of the command and of the server, peak MiB of both."""

    wall_s: float
    client_cpu_s: float
    server_cpu_s: float
    peak_mib: int

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all processes."""
        return self.client_cpu_s + self.server_cpu_s


def measured(command: Sequence[str], lake: Path, env: Mapping[str, str], log: Path) -> Cost:
    """Run a command of the package to its end and tell what it cost; raises CalledProcessError where it fails."""
    before, own, began = _server_cpu(lake), _children_cpu(), time.monotonic()
    peak, done = [0], threading.Event()
    with log.open("ab") as out:
        process = subprocess.Popen(command, env={**os.environ, **env}, stdout=out, stderr=out)
        sampler = threading.Thread(target=_sample, args=(process.pid, lake, peak, done), daemon=True)
        sampler.start()
        code = process.wait()
    wall = time.monotonic() - began
    done.set()
    sampler.join()
    if code:
        raise subprocess.CalledProcessError(code, command)
    pid, spent = _server_cpu(lake)
    served = spent - (before[1] if pid == before[0] else 0.0)
    return Cost(round(wall, 2), round(_children_cpu() - own, 2), round(served, 2), peak[0] // 2**20)


def _children_cpu() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _server_cpu(lake: Path) -> tuple[int, float]:
    status = server_status(lake) if lake.is_dir() else None
    if status is None:
        return 0, 0.0
    times = psutil.Process(status.pid).cpu_times()
    return status.pid, sum(times[:4])  # with the children it waited for: Hadoop forks a chmod per file


def _sample(pid: int, lake: Path, peak: list[int], done: threading.Event) -> None:
    while not done.wait(SAMPLE_SECONDS):
        try:
            status = server_status(lake) if lake.is_dir() else None
            roots = [psutil.Process(p) for p in (pid, *([status.pid] if status else []))]
            family = {p.pid: p for root in roots for p in (root, *root.children(recursive=True))}
            old = [p for p in family.values() if time.time() - p.create_time() > YOUNG_SECONDS]
            peak[0] = max(peak[0], sum(p.memory_info().rss for p in old))
        except (psutil.Error, OSError):
            continue


@dataclass(frozen=True)
class SparkWork:
    """What the event logs of Spark tell: jobs, stages and tasks run, CPU seconds of tasks, bytes shuffled."""

    jobs: int = 0
    stages: int = 0
    tasks: int = 0
    task_cpu_s: float = 0.0
    shuffled_bytes: int = 0


def spark_work(folder: Path) -> SparkWork:
    """The sum over all event logs below a folder, running applications included."""
    jobs = stages = tasks = shuffled = 0
    cpu_ns = 0
    for event in events(folder):
        kind = event["Event"]
        jobs += kind == "SparkListenerJobStart"
        stages += kind == "SparkListenerStageCompleted"
        metrics = event.get("Task Metrics")
        if kind == "SparkListenerTaskEnd" and metrics:
            tasks += 1
            cpu_ns += metrics["Executor CPU Time"]
            shuffled += metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"]
    return SparkWork(jobs, stages, tasks, round(cpu_ns / 1e9, 1), shuffled)


def since(after: SparkWork, before: SparkWork) -> SparkWork:
    """The difference of two looks."""
    old = asdict(before)
    return SparkWork(**{name: round(value - old[name], 1) for name, value in asdict(after).items()})


def events(folder: Path) -> list[dict[str, Any]]:
    """All events of the logs below a folder, running applications included."""
    import pyarrow as pa

    found = []
    for path in sorted(p for p in folder.rglob("events_*") if p.is_file()):
        with pa.input_stream(str(path), compression="zstd" if ".zstd" in path.name else None) as stream:
            text = io.BytesIO()
            try:
                while block := stream.read(1 << 20):
                    text.write(block)
            except OSError:
                pass  # the end of a log that is still written
        for line in text.getvalue().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
    return found


def stored(tables: Path) -> tuple[int, int]:
    """Files and bytes that lie below a folder."""
    sizes = [p.stat().st_size for p in tables.rglob("*") if p.is_file()]
    return len(sizes), sum(sizes)
