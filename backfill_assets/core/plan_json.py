"""The text of a plan: versioned JSON, as it lies in the lake and as commands print it.

Lives here: both directions. Does not live here: the plan itself (`core.plans`) and its file (`operations.plan_files`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date, datetime
from typing import Any

from backfill_assets.core.days import DayRange, from_inclusive
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.plan_looks import DayMove, PlanLook
from backfill_assets.core.plans import (
    ChunkKind,
    Pins,
    Plan,
    PlanChunk,
    PlanCode,
    Policy,
    PreflightTick,
    Price,
    TableImpact,
    Tolerances,
)

SCHEMA = 1


def plan_json(plan: Plan) -> str:
    """The text of the plan's file; keys sorted."""
    return json.dumps({"backfill_assets_plan": SCHEMA} | plan_dict(plan), sort_keys=True, indent=1)


def plan_dict(plan: Plan) -> dict[str, Any]:
    """The plan as JSON values; ranges of days as `[first, last]`, both included."""
    return dict(_plain(asdict(plan, dict_factory=_object)))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """What `asdict` makes of a dataclass; a range becomes its first and last day."""
    found = dict(pairs)
    return {"range": DayRange(**found)} if set(found) == {"start", "end"} else found


def _plain(value: Any) -> Any:
    """Values of a plan as JSON: days and instants as text, tuples as lists."""
    if isinstance(value, DayRange):
        return [str(value.start), str(value.last)]
    if isinstance(value, Mapping):
        return _plain(value["range"]) if set(value) == {"range"} else {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value.isoformat() if isinstance(value, date) else value


def parse_plan(text: str) -> Plan:
    """The plan of a file; raises BackfillError where it is torn, or of another version."""
    try:
        body = json.loads(text)
        if body["backfill_assets_plan"] != SCHEMA:
            raise ValueError(f"version {body['backfill_assets_plan']}")
        return _from_body(body)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BackfillError(
            "the plan", f"its file is not understood: {error!r}", "Nothing was run", "Make a new plan"
        ) from None


def _range(pair: Sequence[str]) -> DayRange:
    return from_inclusive(date.fromisoformat(pair[0]), date.fromisoformat(pair[1]))


def _ranges(pairs: Sequence[Sequence[str]]) -> tuple[DayRange, ...]:
    return tuple(map(_range, pairs))


def _impact(body: Mapping[str, Any]) -> TableImpact:
    return TableImpact(
        body["table"],
        tuple(body["key"]),
        {why: _ranges(spans) for why, spans in body["write"].items()},
        {table: _ranges(spans) for table, spans in body["reads"].items()},
        _ranges(body["follows"]),
        _ranges(body["held"]),
        Price(**body["price"]) if body["price"] else None,
    )


def _look(body: Mapping[str, Any] | None) -> PlanLook | None:
    if body is None:
        return None
    moves = (DayMove(**{**m, "day": date.fromisoformat(m["day"])}) for m in body["moves"])
    return PlanLook(tuple(moves), {table: _ranges(spans) for table, spans in body["follows"].items()})


def _from_body(body: Mapping[str, Any]) -> Plan:
    policy, pins = dict(body["policy"]), dict(body["pins"])
    policy["tolerances"] = Tolerances(**policy["tolerances"])
    pins["as_of"] = datetime.fromisoformat(pins["as_of"]) if pins["as_of"] else None
    return Plan(
        id=body["id"],
        created=datetime.fromisoformat(body["created"]),
        user=body["user"],
        days=_range(body["days"]),
        tables=tuple(body["tables"]),
        chunks=tuple(PlanChunk(c["number"], _range(c["days"]), ChunkKind(c["kind"])) for c in body["chunks"]),
        policy=Policy(**policy),
        pins=Pins(**pins),
        impacts=tuple(map(_impact, body["impacts"])),
        preflight=tuple(PreflightTick(**t) for t in body["preflight"]),
        prices={int(number): Price(**p) for number, p in body["prices"].items()},
        reason=body["reason"],
        note=body["note"],
        retention_days=body["retention_days"],
        look=_look(body.get("look")),
        code=PlanCode(**code) if (code := body.get("code")) else None,
    )
