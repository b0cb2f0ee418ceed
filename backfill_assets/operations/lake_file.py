"""The text of a new `lake.toml`, with every key, its default and its meaning, checked before it is written.

Not here: the keys' types and bounds (`lake.settings`) and the command that writes it (`cli.settings`).
"""

import json
import tomllib
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from backfill_assets.core.errors import SettingsError
from backfill_assets.core.texts import reason
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.landing.listing import parse_pattern
from backfill_assets.landing.select import expressions

TEMPLATE = """\
# A lake of backfill_assets. Any value can be overridden by an environment variable, for example
# BACKFILL_ASSETS__SPARK__MEMORY=4g. Days and times are UTC. What is commented out shows an example or the default.

start_date = {start_date}           # the lake's first day; nothing before it is loaded
# as_of = 2015-04-01T00:00:00Z       # stop the world here: deliveries that arrived later are not loaded

[source]
# A glob, relative to this file or absolute: * ? [seq] within a folder, ** across folders.
files = {files}
format = {format}                 # parquet | csv | jsonl; the latter two also .gz
# Spark SQL over a file's columns (and _file, its path below the landing; _row, the row's number) that gives
#   event_key, event_ts (timestamp), and the payload: entity (may be NULL), value (bigint), flag (0 or 1).
# May be left out: op ('upsert' or 'delete'; default upsert), seq (bigint, unique within its arrival day; default the
#   row's place), version_ts (timestamp; default arrival_ts), arrival_ts (default the end of the day in the path).
# A cast that fails sends the row to quarantine, with the reason.
select = {select}
# [source.payload]                   # columns of your own instead of entity, value and flag; then set `entity` below
# customer_id = "STRING"             # BOOLEAN INT BIGINT DOUBLE DECIMAL(p,s) STRING DATE TIMESTAMP BINARY ARRAY<...>
# total = "DECIMAL(18,2) NOT NULL"   # a row whose total is NULL goes to quarantine
# Where deliveries come from several sides: [sources.NAME] for each in place of [source], with the same keys
# ([sources.NAME.payload], too). Each has its raw_NAME, staging_NAME, ledgers and frontier.

[features]
windows_days = {windows_days}                # the short and the long trailing window, the day itself included
cutoff_grace_hours = 0               # the cut of a day is midnight after it, plus this
# source = "NAME"                    # which of [sources.NAME] they are made from; needed where there are several
# entity = ["entity"]                # the payload's columns that together name an entity
# [[features.columns]]               # columns of your own, in place of the built-in ones; then without windows_days
# name = "spent_28d"
# agg = "sum"                        # count | sum | avg | min | max | first | last | distinct | days_since_last
# of = "value"                       # a column of the payload, or Spark SQL over them; NULLs are passed over
# where = "flag = 1"                 # only these events
# days = 28                          # the window, the day itself included
# scale = 9                          # of a DOUBLE so many decimals are summed, so that the order does not matter

[labels]
measure = "events"                   # what is summed over the horizon: events | flag | value
rule = "any"                         # any: sum > 0 | rise: forward sum > backward sum
# label = "sum_ahead(value) > 2 * sum_behind(value)"   # in place of measure and rule
# source = "NAME"                    # which of [sources.NAME] they are made from; needed where there are several
horizon_days = {horizon_days}                     # the days after a day that its label looks at
maturity_days = {maturity_days}                    # further days to wait for late data before a label counts as mature

[lateness]
early_tolerance_days = 1             # a delivery that arrives earlier than this before its event is quarantined
beyond = "apply"                     # rows later than window_days: apply | quarantine (in too_late until replay-late)
# window_days = 90                   # needed with "quarantine"
policy = "exact"                     # the sensor late_data: exact | rolling (the last rolling_days again)
rolling_days = 7                     # for the rolling policy and the schedule rolling_reprocess
delay_days = 2                       # rolling_reprocess leaves the newest days out
dry_run = false                      # true: the sensors only say what they would request
runs_per_tick = 8                    # caps of each sensor; what they hold back is said in the tick
runs_per_day = 500
attempts = 3                         # a day that fails so often from the same inputs needs a person
watermark_share = 0.99               # of a day's rows that should have arrived before the watermark passes it

[gates]
incomplete = "warn"                  # a day whose required input days are missing: warn | refuse
# [gates.tables.raw]                 # bounds for the rows of a day; breaking one refuses the write
# min_rows = 1
# max_rows = 1000000
# max_relative_change = 0.5          # against the median of the 28 days before: half to one and a half
# max_absolute_change = 1000
# empty = "warn"                     # a day without rows: warn | allow | refuse
# [gates.tables.staging.columns.value]
# max_null_share = 0.1               # of the day's rows
# max_null_jump = 0.05               # above the median of the 28 days before
# max_drift = 0.25                   # population stability index against the 28 days before
# broken = "refuse"                  # warn | refuse

[spark]
# embedded | sail | sc://host:port | local[4] | spark://host:7077 | yarn | k8s://...
engine = {engine:<28} # embedded: Spark; sail: small lakes in seconds, without Java (README)
memory = {memory}                        # of the engine's JVM; of Sail, for its queries
cores = 0                            # 0: all of the machine
idle_minutes = 10.0                  # an engine of the lake's own stops when nobody has used it for so long
# open_port = true                   # sail where no private network is to be had and nobody else can log in
# [spark.confs]
# "spark.sql.shuffle.partitions" = "8"

[retention]
rollback_days = 90                   # how long replaced data files are kept

# [pipeline]                         # tables of your own; without it the tables that the README lists
# tables = "pipeline.py:tables"      # a name in a file beside this one, or in an importable module
# sql = "sql/*.sql"                  # tables written as SQL, besides those

[access]
readers = "owner"                    # who on this machine may read tables, reports, …: owner | group | everyone
"""
DEFAULTS: Mapping[str, Any] = {
    "windows_days": [7, 28],
    "horizon_days": 7,
    "maturity_days": 7,
    "engine": "embedded",
    "memory": "2g",
}


def lake_toml(values: Mapping[str, Any]) -> str:
    """Return the text of a `lake.toml`; `values` are start_date, files, format, select, and any of DEFAULTS.

    Raises SettingsError for values that a lake would not accept.
    """
    filled = {**DEFAULTS, **values}
    told = {k: str(v) if isinstance(v, date) else json.dumps(v, ensure_ascii=False) for k, v in filled.items()}
    text = TEMPLATE.format(**told)
    _check(text)
    return text


def _check(text: str) -> None:
    try:
        settings: LakeSettings = LakeSettings.model_validate(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        told = (
            "; ".join(f"{'.'.join(map(str, e['loc']))}: {reason(e)}" for e in error.errors())
            if isinstance(error, ValidationError)
            else str(error)
        )
        raise SettingsError("the new lake.toml", told, "Nothing was written", "Correct the options") from None
    for source in settings.delivered.values():
        parse_pattern(source.files, Path())
        expressions(source.select)
