"""The wall clock is read in one place, which tests can move.

Tested here: `kernel.core.clock`, and that nothing else asks the machine for the time. Not tested
here: what a moving clock does to a lake (`end_to_end.test_clock`).
"""

import ast
from datetime import UTC, datetime, timedelta

from backfill_assets.kernel.core.clock import utc_now, utc_today
from backfill_assets_tests.clocks import Clock, set_to
from backfill_assets_tests.sources import PACKAGE, sources

# Ages of processes and files of this machine, its clock against others', and what only goes into
# Dagster's own log.
MACHINES = {
    "cli/dagster_site.py",
    "kernel/core/clock.py",
    "engines/class_archive.py",
    "engines/server.py",
    "kernel/place/processes.py",
    "buckets/local_copies.py",
}


def test_this_moment_and_this_day_are_those_of_the_clock_that_is_set() -> None:
    with set_to(Clock(timedelta(days=1, hours=1), stopped=3600.0)):
        assert utc_now() == datetime(1970, 1, 2, 2, tzinfo=UTC)
        assert str(utc_today()) == "1970-01-02"


def test_nothing_else_in_the_package_reads_the_wall_clock() -> None:
    asked = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today", "time.time"}
    last = {name.rpartition(".")[2] for name in asked}
    calling = [f for f in sources(PACKAGE) if any(f".{name}(" in f.text for name in last)]
    calls = (
        (f, n.func) for f in calling for n in f.of(ast.Call) if isinstance(n.func, ast.Attribute)
    )
    found = {
        f.place.split("/", 1)[1]
        for f, func in calls
        if func.attr in last and ast.unparse(func) in asked
    }
    assert found <= MACHINES
