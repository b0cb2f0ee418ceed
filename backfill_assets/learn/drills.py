"""Faults to plant in a copy of a lake, each as the person at the desk meets it: an alert, then
hints on demand.

Not here: the clock, the judgement and the score (`practice`). A fault is planted as what it leaves
behind; only `server-dies` and `disk-full` touch a process: the server of the copy.
"""

import os
import re
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.engines.server import ensure_server, release_server
from backfill_assets.intake.scan import scan_all
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.tables.settings import FILE_NAME
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.candidate import state_tags
from backfill_assets.learn.lab_lakes import (
    LONG_AGO,
    append_foreign_rows,
    first_events,
    leave_half_commit,
    replace_by_day,
)
from backfill_assets.pipeline.chosen import chosen_pipeline

TEXT = (".jsonl", ".ndjson", ".json", ".csv")
MOST_BYTES = 100  # of a file: every data file is larger
CATCH_UP = "`backfill-assets catch-up` loads and rebuilds what needs it, and nothing else"


@dataclass(frozen=True, kw_only=True)
class PlantedFault:
    """A fault that was planted in a copy of a lake, for a person to find and mend."""

    symptom: str  # the alert
    answers: frozenset[str]  # the guesses of its place that count as right
    hints: tuple[str, ...]
    unwanted: tuple[Path, ...] = ()  # files that have to go
    # Whether the rows from before the fault are right; else those of new deliveries are.
    earlier_rows_are_right: bool = True


def kill_mid_commit(lake: Lake) -> PlantedFault:
    """A machine lost its power as it committed."""
    table = first_events(lake).name
    leave_half_commit(lake, table)
    news = (
        f"ALERT a run was cut off by a power failure. PAGE every command that reads {table} ends "
        "with an error."
    )
    mend = f"`backfill-assets mend {table}` shows what it would do, `--yes` does it"
    hints = ("`backfill-assets doctor` reads every log", mend)
    return PlantedFault(symptom=news, answers=frozenset({table, "log"}), hints=hints)


def server_dies(lake: Lake) -> PlantedFault:
    """The engine's process is killed while a file waits."""
    _resend_files(lake, 1, newest=True)
    if (engine := LakeSession(lake).engine).has_server:
        os.kill(ensure_server(lake.root, engine).process.pid, signal.SIGKILL)
    news = "ALERT the nightly run failed: the engine does not answer. PAGE days wait to be loaded."
    hints = (
        "`backfill-assets server status` and LAKE/.server/server.log",
        f"a run starts a new server: {CATCH_UP}",
    )
    return PlantedFault(
        symptom=news,
        answers=frozenset({"server", "engine"}),
        hints=hints,
        earlier_rows_are_right=False,
    )


def disk_full(lake: Lake) -> PlantedFault:
    """The engine's process may write no more bytes, as on a full disk or quota, while a file
    waits."""
    engine = LakeSession(lake).engine
    if sys.platform != "linux" or not engine.has_server:
        raise _unplantable_error(lake, "only on Linux the lake's own server can be given a limit")
    _resend_files(lake, 1, newest=True)
    server = ensure_server(lake.root, engine).process.pid
    resource.prlimit(server, resource.RLIMIT_FSIZE, (MOST_BYTES, resource.RLIM_INFINITY))
    release_server(lake.root)  # else `server stop` would be refused because of this process
    news = "ALERT the nightly run failed: the engine cannot write. PAGE days wait to be loaded."
    hints = (
        "`backfill-assets catch-up` says why; is it the disk (`df LAKE`), or a limit of the "
        "process that `server "
        "status` names (/proc/PROCESS/limits)?",
        "`backfill-assets server stop` ends the limit, as the next server has none; then "
        f"{CATCH_UP}",
    )
    return PlantedFault(
        symptom=news,
        answers=frozenset({"disk", "limit", "server", "engine"}),
        hints=hints,
        earlier_rows_are_right=False,
    )


def duplicates(lake: Lake) -> PlantedFault:
    """A sender delivers a file again under another name."""
    (file,) = _resend_files(lake, 1, newest=True)
    news = (
        "ALERT the sender: 'we resent our newest file by mistake, please ignore it'. PAGE a day "
        "is stale."
    )
    accept = (
        'delete it, then `backfill-assets landing accept --note "resent"` takes it out of the '
        "ledger"
    )
    return PlantedFault(
        symptom=news,
        answers=frozenset({file.name, file.stem}),
        hints=("`ls -t LAKE/landing` or `scan`: which?", accept),
        unwanted=(file,),
    )


def late_burst(lake: Lake) -> PlantedFault:
    """Files of the oldest days come again."""
    files = _resend_files(lake, 3, newest=False)
    news = f"ALERT {len(files)} files arrived for days that closed long ago. PAGE days are stale."
    hints = (
        "`backfill-assets status --stale --why` names the days",
        f"{CATCH_UP}; --force would touch every day",
    )
    answers = frozenset({"stale", "landing", *(n for f in files for n in (f.name, f.stem))})
    return PlantedFault(symptom=news, answers=answers, hints=hints, earlier_rows_are_right=False)


def bad_code(lake: Lake) -> PlantedFault:
    """A release, withdrawn since, wrote half of the rows of the last days."""
    contract, days = first_events(lake), _last_days(lake, 3)
    pipeline = chosen_pipeline(lake)
    states = pipeline.states(read_view(lake, pipeline.contracts))
    where = f"{contract.day_column} >= DATE '{days[0]}'"
    rows = lake.store.rows(contract.name, where=where)
    rows = sorted(rows, key=lambda row: [str(value) for value in row.values()])
    settings = pipeline.codes[contract.name].settings_digest
    signed = Provenance(
        "manual",
        note="release 4.2",
        code_digest="release 4.2",
        settings_digest=settings,
        tags=state_tags(contract, states),
    )
    kept = []
    for day in days:
        of_day = [row for row in rows if row[contract.day_column] == day]
        kept += of_day[::2]
    replace_by_day(lake, contract, kept, signed, lambda d: states.digests.of(contract.name, d))
    news = (
        "ALERT a customer: 'our numbers of the last days halved'. Release 4.2 ran last night and "
        "was withdrawn."
    )
    again = (
        f"`backfill-assets backfill --from {days[0]} --to {days[-1]}` makes these days by today's "
        "code"
    )
    which = "`backfill-assets audit`: which days did that code write?"
    answers = frozenset({contract.name, *map(str, days)})
    return PlantedFault(symptom=news, answers=answers, hints=(which, again))


def wrong_select(lake: Lake) -> PlantedFault:
    """An edit of lake.toml maps events to the day after theirs."""
    path = lake.root / FILE_NAME
    text = path.read_text(encoding="utf-8")
    wrong = re.sub(r" AS event_ts\b", " + INTERVAL 1 DAY AS event_ts", text, count=1)
    if wrong == text:
        raise _unplantable_error(lake, "its select has no `… AS event_ts`")
    path.with_name("lake.toml.yesterday").write_text(text, encoding="utf-8")
    path.write_text(wrong, encoding="utf-8")
    news = (
        "ALERT status: every landed day is outdated since this morning, and nobody planned a "
        "change."
    )
    hints = (
        "outdated: code or settings changed; compare lake.toml with yesterday's",
        "put `select` back; load nothing: a plan over these days would move every event to "
        "another day",
    )
    return PlantedFault(symptom=news, answers=frozenset({"event_ts", "select"}), hints=hints)


def foreign_write(lake: Lake) -> PlantedFault:
    """Another program appends the newest day's rows once more."""
    contract, (day,) = first_events(lake), _last_days(lake, 1)
    append_foreign_rows(
        lake,
        contract,
        lake.store.rows(contract.name, where=f"{contract.day_column} = DATE '{day}'"),
    )
    news = (
        "ALERT finance: the sum of our newest day is twice what was booked. No run of ours failed."
    )
    hints = (
        "`backfill-assets status --stale --why`, or `doctor`",
        f"`backfill-assets backfill --from {day} --to {day}`",
    )
    return PlantedFault(symptom=news, answers=frozenset({contract.name, str(day)}), hints=hints)


def skew(lake: Lake) -> PlantedFault:
    """A bound on the greatest key refuses a day that arrives."""
    table, path = first_events(lake).name, lake.root / FILE_NAME
    if f"[gates.tables.{table}]" in (text := path.read_text(encoding="utf-8")):
        raise _unplantable_error(lake, f"it has [gates.tables.{table}] of its own")
    path.write_text(f"{text}\n[gates.tables.{table}]\nmax_key_share = 0.02\n", encoding="utf-8")
    _resend_files(lake, 1, newest=True)
    news = (
        "ALERT the nightly run failed: a check refused a day. PAGE it is stale. Its rows are said "
        "to be right."
    )
    hints = (
        "run `backfill-assets catch-up`: which check, which key?",
        'skew = "warn" beside max_key_share, catch-up',
    )
    return PlantedFault(
        symptom=news,
        answers=frozenset({table, "max_key_share", "key"}),
        hints=hints,
        earlier_rows_are_right=False,
    )


PLANTS: dict[str, Callable[[Lake], PlantedFault]] = {
    plant.__name__.replace("_", "-"): plant
    for plant in (
        kill_mid_commit,
        server_dies,
        disk_full,
        duplicates,
        late_burst,
        bad_code,
        wrong_select,
        foreign_write,
        skew,
    )
}


def _last_days(lake: Lake, count: int) -> list[date]:
    contract = first_events(lake)
    latest = lake.store.view(contract.name, contract.day_column).latest
    days = sorted(day for day, receipt in latest.items() if receipt.entry.rows)
    if len(days) < count:
        raise _unplantable_error(lake, f"{contract.name} has rows of {len(days)} day(s)")
    return days[-count:]


def _resend_files(lake: Lake, count: int, newest: bool) -> list[Path]:
    """Deliver some landed files again, with other bytes and the same rows."""
    pattern = next(iter(lake.settings.delivered.values())).files
    texts = [file for file in lake.root.glob(pattern) if file.suffix in TEXT]
    landed = sorted(texts, reverse=newest)[:count]
    if len(landed) < count:
        raise _unplantable_error(lake, f"{pattern} matches {len(landed)} text file(s)")
    again = list[Path]()
    for file in landed:
        copy = file.with_name(f"{file.stem}-again{file.suffix}")
        copy.write_bytes(file.read_bytes() + b"\n")
        os.utime(copy, (LONG_AGO, LONG_AGO))
        again.append(copy)
    scan_all(LakeSession(lake))
    return again


def _unplantable_error(lake: Lake, why: str) -> SettingsError:
    fix = "Take another drill, or --sample: it drills on a lake of its own"
    return SettingsError(
        f"the lake {lake.root}", f"this drill cannot be planted: {why}", "Nothing was planted", fix
    )
