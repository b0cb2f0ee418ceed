"""What a person waits for who launches one day of one table in the browser, and of what that is made.

    python -m backfill_assets_tests.benchmarks.click [spark|sail|both] [LAUNCHES]

Lives here: the measurement, on a `dagster dev` of its own over the sample lake. Does not live here: what must hold of
a launch (`browser.test_dev`).
Times are of a machine that others may use: each launch is told, seconds since its click.
"""

import json
import os
import re
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil

from backfill_assets_tests.browser.site import Site, site
from backfill_assets_tests.browser.test_dev import LAUNCH, asked
from backfill_assets_tests.engines import OF_LAKES
from backfill_assets_tests.lakes import data_files
from backfill_assets_tests.processes import CHECKOUT

LAUNCHES = 4
SETTLED_SECONDS = 10.0
TABLE = "features"
LOOK = """query Look($run: ID!) { runOrError(runId: $run) { ... on Run {
  status eventConnection { events { ... on MessageEvent { timestamp eventType message } } } } } }"""
STARTED = re.compile(r"Started process for run \(pid: (\d+)\)")
MOMENTS = {"RUN_STARTING": "begun", "RUN_START": "start", "STEP_START": "step", "RUN_SUCCESS": "end"}


def launched(dev: Site, day: str) -> dict[str, float]:
    """Seconds from the click to each moment of a run that makes one day again, and its process's CPU seconds."""
    params = {
        "selector": {
            "repositoryLocationName": "backfill_assets.definitions", "repositoryName": "__repository__",
            "jobName": "rebuild", "assetSelection": [{"path": [TABLE]}],
        },
        "runConfigData": json.dumps({"ops": {f"make_{TABLE}": {"config": {"force": True}}}}),
        "executionMetadata": {"tags": [{"key": "dagster/partition", "value": day}]},
    }  # fmt: skip
    clicked = time.time()
    run = asked(dev, LAUNCH, params=params)["launchRun"]["run"]["runId"]
    found = {"clicked": time.time() - clicked}
    while True:
        answer = asked(dev, LOOK, run=run)["runOrError"]
        events = answer["eventConnection"]["events"]
        pids = [int(began[1]) for e in events if (began := STARTED.match(e.get("message", "")))]
        with suppress(psutil.Error):
            found["cpu"] = sum(psutil.Process(pids[0]).cpu_times()[:2]) if pids else 0.0
        if answer["status"] in ("SUCCESS", "FAILURE", "CANCELED"):
            break
        time.sleep(0.05)
    for event in reversed(events):  # the first of a kind counts
        if event.get("eventType") in MOMENTS:
            found[MOMENTS[event["eventType"]]] = float(event["timestamp"]) / 1000 - clicked
        elif STARTED.match(event.get("message", "")):
            found["process"] = float(event["timestamp"]) / 1000 - clicked
    return found


def measure(engine: str, launches: int) -> None:
    """Print a line for each launch on a new `dagster dev`."""
    instance = (CHECKOUT / "dagster.yaml").read_text()
    with tempfile.TemporaryDirectory() as folder, site(Path(folder), instance) as dev:
        days = sorted(data_files(dev.lake, "staging"))
        time.sleep(SETTLED_SECONDS)
        for number in range(launches):
            at = launched(dev, str(days[5 + number % 3]))
            names = ("clicked", "begun", "process", "start", "step", "end", "cpu")
            figures = " ".join(f"{at.get(name, float('nan')):8.2f}" for name in names)
            print(f"{engine:6} {figures}  begun to start {at['start'] - at['begun']:.2f}", flush=True)


def main(engines: str, launches: int) -> None:
    """Measure on one engine or both."""
    print("engine  clicked    begun  process    start     step      end  cpu s")
    for engine in ("spark", "sail") if engines == "both" else (engines,):
        os.environ.pop(OF_LAKES, None)
        if engine != "spark":
            os.environ[OF_LAKES] = engine
        measure(engine, launches)


if __name__ == "__main__":
    words = [*sys.argv[1:], *("both", str(LAUNCHES))[len(sys.argv) - 1 :]]
    main(words[0], int(words[1]))
