"""Settings that a random history of a lake may have: selects, and a payload whose columns are
renamed and dropped. Here: `lake.toml` of a history from the settings chosen so far. Not here: when
they change (`happenings`)."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from backfill_assets_tests.lakes import configure

WHEN, SEQ = "cast(arrival_ts AS timestamp) AS arrival_ts, ", "cast(seq AS bigint) AS seq, "
FLAG = "cast(flag AS int) AS flag, "
ABOUT = "cast(event_ts AS timestamp) AS event_ts, event_key, op, " + FLAG
REST, TWICE = (
    ABOUT + "entity, cast(value AS bigint) AS value",
    "try_multiply(cast(value AS bigint), 2) AS value",
)
# Numbered and dated by the rows, by the files, by the path; a value from the path; another value.
SELECTS = (
    SEQ + WHEN + REST,
    WHEN + REST,
    REST,
    f"{WHEN}{ABOUT}_file AS entity, cast(value AS bigint) AS value",
    f"{SEQ}{WHEN}{ABOUT}entity, {TWICE}",
)
NAMES = (
    "amount",
    "sold",
    "till",
)  # of a declared payload's value: before and after `entity`, all after `flag`


def write_settings(root: Path, start: date, chosen: Mapping[str, Any]) -> None:
    """Write `lake.toml`. `chosen`: `select`, and if wanted `called` (the value's name in a declared
    payload), `carried` (whether that has `flag`, which nothing reads), `required` (whether the
    value may not be NULL), `windows`, `late`, `gate` and `as_of`."""
    select, windows, called = chosen["select"], chosen.get("windows", [2, 3]), chosen.get("called")
    features: dict[str, Any] = {"windows_days": windows}
    labels: dict[str, Any] = {"horizon_days": 1, "maturity_days": 0}
    payload: dict[str, Any] = {}
    if called:
        select = _with_typed_payload(select, called, chosen["carried"])
        payload = _declared_payload(called, chosen)
        sums = [
            {"name": f"sum_{days}d", "agg": "sum", "of": called, "days": days} for days in windows
        ]
        features = {"entity": ["entity"], "columns": sums}
        labels = labels | {"label": f"sum_ahead({called}) > 3"}
    source = {"files": "landing/**", "format": "jsonl", "select": select, **payload}
    configure(
        root,
        start,
        source=source,
        features=features,
        labels=labels,
        spark={"engine": "sail"},
        **_chosen_bounds(chosen),
    )


def _with_typed_payload(select: str, called: str, is_carried: bool) -> str:
    """The select without casts, as the payload types the columns, and with the value's name."""
    replaced = {
        TWICE: "concat(value, '0') AS value",
        FLAG: "flag, " if is_carried else "",
        "cast(value AS bigint)": "value",
        " AS value": f" AS {called}",
    }
    for cast, name in replaced.items():
        select = select.replace(cast, name)
    return select


def _declared_payload(called: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    columns = {"entity": "STRING"}
    columns[called] = "BIGINT NOT NULL" if chosen.get("required") else "BIGINT"
    if chosen["carried"]:
        columns["flag"] = "INT"
    return {"payload": columns}


def _chosen_bounds(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The keys and sections of `as_of`, `late` and `gate`, where they are chosen."""
    more: dict[str, Any] = {}
    if chosen.get("as_of"):
        more["as_of"] = chosen["as_of"]
    if late := chosen.get("late"):
        more["lateness"] = {"window_days": late, "beyond": "quarantine"}
    if gate := chosen.get("gate"):
        more["gates"] = {"tables": {gate: {"max_rows": 1}}}
    return more
