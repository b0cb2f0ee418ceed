"""Every command that works on a lake, as lines that a person types one after the other.

Lives here: the story, and running it on a lake of two sources that an earlier release made
(`earlier/6f78c832/sources`). Does not live here: the lake it is run on (`test_lakes_before`), and
what a command does (its own test).
"""

import shlex
from collections.abc import Callable, Mapping, Sequence

from click.testing import Result

from backfill_assets_tests.cli.typed import read, run

# In an order in which each has something to do, after a file landed for `events`. `OLD` is the plan
# of the earlier release whose day is put back, `NEW` one of the story, `FOLDER` an empty folder.
STORY = (
    "scan",
    "landing accept --note letter",
    "status --why",
    "show staging_events 2024-03-01",
    "report",
    "lateness",
    "drift",
    "checklist",
    "schema status",
    "controls",
    "audit",
    "attach duckdb",
    "plan list",
    "plan show {OLD}",
    "compare --plan {OLD}",
    "release --plan {OLD} --yes",
    "catch-up",
    "sql 'TABLE staging_events'",
    "snapshot list",
    "snapshot show kept",
    "snapshot create new --tables staging_events --from 2024-03-04 --to 2024-03-04 --unfit take",
    "snapshot drop new --yes",
    "plan --from 2024-03-04 --to 2024-03-05 --tables features --force --json",
    "plan pause {NEW}",
    "plan resume {NEW}",
    "plan cancel {NEW}",
    "plan --from 2024-03-01 --to 2024-03-02 --tables staging_events --force --json",
    "run {NEW}",
    "rollback --plan {NEW} --yes",
    "release --plan {NEW} --yes",
    "replay-late --from 2024-03-01 --to 2024-03-02 --note letter",
    "backfill --from 2024-03-04 --to 2024-03-04 --tables features --force",
    "prove --from 2024-03-04 --to 2024-03-04 --tables features",
    "close --until 2024-03-01 --tables features --note letter --as-they-are",
    "closed",
    "reopen --tables features --note letter",
    "candidate create beside --tables labels",
    "candidate list",
    "backfill --from 2024-03-04 --to 2024-03-04 --lake {LAKE}/.candidates/beside",
    "candidate publish beside --no-compare --yes",
    "candidate discard beside --yes",
    "reconcile --layers",
    "export features --to {FOLDER}/exported",
    "production",
    "verify --deep",
    "doctor",
)
# Makes every day again, which takes minutes; without `--yes` it looks only.
FORGET = "forget A2 --drop snapshots --note letter"
# Of the same lake: what copies it and what ends it.
ENDING = (
    "maintain --yes",
    "copy-lake {LAKE} {FOLDER}/copy",
    "verify --deep",
    "server status",
    "server stop",
)
LEFT_OUT = {
    **dict.fromkeys(("guide", "demo", "example", "lab", "drill", "init"), "makes a new lake"),
    **dict.fromkeys(("ui", "agent"), "serves until it is stopped"),
    "server start": "the other commands start it",
    "check-engine": "starts Spark beside Sail",
    "mirror": "reads an Iceberg catalog",
    "adopt": "takes a table of others into the lake",
    "mend": "refuses a table with which nothing is wrong",
    **dict.fromkeys(("locate", "register"), "asks a catalog"),
}


def tell_story(
    story: Sequence[str],
    words: Mapping[str, str],
    after: Callable[[str, Result], object] = lambda *_: None,
) -> list[str]:
    """Run these lines on the lake of the environment and hand each to `after` with its result; what
    is said of those that were refused, and do more than to find something (exit code 1). `words`:
    what the names in braces stand for."""
    known, refused = dict(words), list[str]()
    for line in story:
        done = run(*(word.format_map(known) for word in shlex.split(line)))
        after(line, done)
        if line.startswith("plan --from"):
            known["NEW"] = read(done)["id"]
        is_finding = done.exit_code == 1 and "Error: " not in done.stderr
        if done.exit_code and not is_finding:
            refused.append(f"{line}: {done.output[-600:]} {done.exception!r}")
    return refused
