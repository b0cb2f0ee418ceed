"""What the doctor finds about the instance of Dagster that $DAGSTER_HOME names: other lakes in it,
and, where a `workspace.yaml` there makes it a site, whether its processes and clocks work together.

Every check asks and changes nothing but a file of the lake's locks by which its place tells the
time. Not here: the environment of daemons on this machine (`upkeep.doctor`), the files of a site
(`cli.site_files`), and which instance commands take (`cli.dagster_home`).
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

import dagster as dg

from backfill_assets.cli.dagster_home import instance_of, silence_dagster
from backfill_assets.cli.dagster_names import HOME_VARIABLE
from backfill_assets.cli.findings import (
    Diagnosis,
    error_finding,
    first_names,
    good_finding,
    run_checks,
    warning_finding,
)
from backfill_assets.dagster.adapter.assemble import LOADED_LAKE, LOADED_RELEASE
from backfill_assets.dagster.adapter.dagster_private import (
    CodeServer,
    Heartbeat,
    Patience,
    ask_code_servers,
    database_time,
    newest_heartbeats,
    patience_of,
    storage_revisions,
)
from backfill_assets.dagster.adapter.runs import LAKE_TAG
from backfill_assets.kernel.core.process import LAKE_VARIABLE
from backfill_assets.kernel.place.lease_watch import place_time
from backfill_assets.kernel.tables.home import Lake

WORKSPACE_FILE = "workspace.yaml"
# A daemon shows itself every 30 s; one turn of it may take longer.
SILENT_SECONDS = 120.0
# Times of objects are whole seconds, and an answer takes its time.
CLOCK_SLACK_SECONDS = 5.0
SET_CLOCKS = "Let one service (NTP, chrony) set the clocks of all machines of the site"
SETTINGS_ADVICE = "`backfill-assets production` prints a dagster.yaml that says it"


def examine_home(lake: Lake) -> Iterator[Diagnosis]:
    """Yield what is found about the instance that $DAGSTER_HOME names, if it is set and in use."""
    home = os.environ.get(HOME_VARIABLE)
    if not home or not any(Path(home).glob("*")):
        return
    with silence_dagster(), instance_of(lake) as instance:
        yield from other_lakes(lake, instance, home)
        if (workspace := Path(home, WORKSPACE_FILE)).exists():
            yield from examine_site(lake, instance, workspace)


def other_lakes(lake: Lake, instance: dg.DagsterInstance, home: str) -> Iterator[Diagnosis]:
    """Name the other lakes with runs in the instance of a home."""
    roots = {Path(root) for _, found in instance.get_run_tags([LAKE_TAG]) for root in found}
    own = lake.shared or lake.root
    existing = [root for root in roots if root.exists()]
    others = sorted(str(root) for root in existing if not root.is_relative_to(own))
    if others:
        what = (
            "it holds runs of other lakes, too, and shows days of tables of one name as one: "
            f"{first_names(others)}"
        )
        yield warning_finding(
            f"Dagster's home {home}", what, "Give each lake a DAGSTER_HOME of its own, or set none"
        )


def examine_site(lake: Lake, instance: dg.DagsterInstance, workspace: Path) -> Iterator[Diagnosis]:
    """Yield what is found about a site: records, settings, code servers, daemon, clocks. What stops
    one check is its finding, and the others go on."""
    yield from run_checks(
        [
            ("Dagster's records", partial(_examine_records, instance)),
            ("Dagster's settings", lambda: judge_patience(patience_of(instance), workspace.parent)),
            ("Dagster's code servers", partial(_examine_servers, lake, instance, workspace)),
            ("Dagster's daemon", lambda: judge_beats(newest_heartbeats(instance), time.time())),
            ("the clocks", partial(_examine_clocks, lake, instance)),
        ]
    )


def _examine_records(instance: dg.DagsterInstance) -> Iterator[Diagnosis]:
    """Which class keeps the records, and whether its tables are those of this release of
    Dagster."""
    name = "Dagster's records"
    kept = f"{type(instance.run_storage).__name__}, {type(instance.event_log_storage).__name__}"
    found, expected = storage_revisions(instance)
    if found != expected:
        yield error_finding(
            name,
            f"{kept}: their tables have the revision {found}, and Dagster {dg.__version__} writes "
            f"{expected}",
            "Stop the three processes, then `dagster instance migrate`, then start them",
        )
    elif "Sqlite" in kept:
        yield good_finding(name, f"{kept}: files in the home, for processes of one machine")
    else:
        yield good_finding(name, f"{kept}, at the revision of Dagster {dg.__version__}")


def judge_patience(patience: Patience, home: Path) -> Iterator[Diagnosis]:
    """Say what the settings of a home do about what dies or is away: a warning for each thing that
    they give up at once, else one good finding."""
    name = f"the settings {home}/dagster.yaml"
    gaps = {
        "run_monitoring is off: a run that does not start or end is never given up": (
            patience.monitor_seconds is None
        ),
        "run_retries is off: a run that died with its code server is not tried again": (
            not patience.retries
        ),
        "max_user_code_failure_retries is 0, or runs are not queued: a code server that is away "
        "fails every run that is asked for": not patience.queue_seconds,
    }
    lacking = [what for what, lacks in gaps.items() if lacks]
    yield from (warning_finding(name, what, SETTINGS_ADVICE) for what in lacking)
    if not lacking:
        yield good_finding(
            name,
            f"run monitoring looks each {patience.monitor_seconds} s, a run that died is tried "
            f"{patience.retries} more time(s), queued runs wait {patience.queue_seconds} s for a "
            "code server",
        )


def _examine_servers(
    lake: Lake, instance: dg.DagsterInstance, workspace: Path
) -> Iterator[Diagnosis]:
    """Ask each code server of the workspace what it has loaded, and whether one shows the lake."""
    asked = list(ask_code_servers(instance, workspace))
    yield from (judge_server(server) for server in asked)
    yield from judge_workspace(lake.address, asked)


def judge_workspace(lake: str, servers: Sequence[CodeServer]) -> Iterator[Diagnosis]:
    """Warn where all code servers of a workspace answered and none shows the lake of that
    address."""
    shown = {server.texts.get(LOADED_LAKE, "") for server in servers}
    has_silent = any(server.trouble for server in servers)
    if servers and not has_silent and lake not in shown:
        others = first_names(sorted(shown - {""})) or "no lake by itself"
        yield warning_finding(
            f"the lake {lake}",
            f"no code server of {WORKSPACE_FILE} shows it: they show {others}",
            f"Set {LAKE_VARIABLE} in the environment of the code server, and start it again",
        )


def judge_server(server: CodeServer) -> Diagnosis:
    """The finding about one code server: it gives no definitions, it has loaded another release
    than this command, or it is well."""
    name = f"the code server {server.location} at {server.address}"
    if server.trouble:
        return error_finding(
            name,
            f"it gives no definitions ({server.trouble}): no run starts, no sensor ticks",
            "Look at its log (`journalctl -u lake-code`), start it, then look again",
        )
    if LOADED_RELEASE not in server.texts:
        return good_finding(name, f"answers, with no lake's own definitions, by {server.python}")
    here = (version("backfill-assets"), dg.__version__)
    there = (server.texts[LOADED_RELEASE], server.dagster)
    if there != here:
        return error_finding(
            name,
            f"it runs backfill_assets {there[0]} with Dagster {there[1]} ({server.python}), and "
            f"this command {here[0]} with {here[1]}",
            "Install one release everywhere, then start the code server again",
        )
    loaded = f"backfill_assets {there[0]}, Dagster {there[1]}, by {server.python}"
    return good_finding(name, f"shows {server.texts.get(LOADED_LAKE)}: {loaded}")


def judge_beats(beats: Mapping[str, Heartbeat | None], now: float) -> Iterator[Diagnosis]:
    """The findings about the daemon from the newest signs of life of its parts, at `now` (seconds
    since 1970) by this machine's clock."""
    name = "Dagster's daemon"
    start = "Start it (`systemctl start lake-daemon`): nothing is queued, watched or tried without"
    shown = {part: beat for part, beat in beats.items() if beat is not None}
    if missing := sorted(beats.keys() - shown.keys()):
        yield error_finding(name, f"never ran in this instance: {', '.join(missing)}", start)
    ages = {part: now - beat.at for part, beat in shown.items()}
    old = {part: age for part, age in ages.items() if age > SILENT_SECONDS}
    if old:
        silent = first_names(f"{part} for {age:.0f} s" for part, age in sorted(old.items()))
        yield error_finding(name, f"gives no sign of life: {silent}", start)
    ahead = -min(ages.values(), default=0.0)
    if ahead > CLOCK_SLACK_SECONDS:
        what = f"its newest sign of life lies {ahead:.0f} s ahead of this machine's clock"
        yield warning_finding(name, what, SET_CLOCKS)
    for part, beat in sorted(shown.items()):
        if beat.errors:
            what = f"{part} met {len(beat.errors)} error(s): {beat.errors[0].splitlines()[0]}"
            yield warning_finding(name, what, "Look at its log (`journalctl -u lake-daemon`)")
    if not missing and not old:
        oldest = max(ages.values(), default=0.0)
        yield good_finding(name, f"{len(ages)} parts, shown {max(oldest, 0.0):.0f} s ago or later")


def _examine_clocks(lake: Lake, instance: dg.DagsterInstance) -> Iterator[Diagnosis]:
    """Hold this machine's clock against that of the lake's place and of the database. A place where
    this user may not write is not asked."""
    if lake.place.is_store or os.access(lake.root, os.W_OK):
        yield judge_clock(f"of {lake.place}", read_clock(lambda: place_time(lake.place)))
    reading = read_clock(lambda: database_time(instance))
    if reading.theirs is not None:
        yield judge_clock("of Dagster's database", reading)


@dataclass(frozen=True)
class ClockReading:
    """What another clock said, between two looks at this machine's. Seconds since 1970."""

    before: float
    theirs: float | None  # None: there is no such clock
    after: float


def read_clock(ask: Callable[[], float | None]) -> ClockReading:
    """Ask another clock. Raises what `ask` raises."""
    before = time.time()
    theirs = ask()
    return ClockReading(before, theirs, time.time())


def judge_clock(whose: str, reading: ClockReading) -> Diagnosis:
    """The finding about a clock: by how many seconds at least it is off, beyond what asking took;
    up to `CLOCK_SLACK_SECONDS` is well."""
    theirs = reading.before if reading.theirs is None else reading.theirs
    behind, ahead = reading.before - theirs, theirs - reading.after
    off = max(behind, ahead, 0.0)
    if off <= CLOCK_SLACK_SECONDS:
        return good_finding(f"the clock {whose}", f"goes with this machine's, to {off:.0f} s")
    way = "behind" if behind > ahead else "ahead of"
    return warning_finding(
        f"the clock {whose}", f"it is {off:.0f} s {way} this machine's", SET_CLOCKS
    )
