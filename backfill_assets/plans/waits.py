"""What a plan waits for between chunks, a person (`--stop-after`), and how many chunks may run at once.

Elsewhere: marks in general (`files`), the order of chunks and the gates (`backfill.run`).
"""

import os
from collections.abc import Sequence

from backfill_assets.core.days import DayRange, parse_day
from backfill_assets.core.errors import BackfillError
from backfill_assets.engine.confs import OWN_SERVERS
from backfill_assets.lake.home import Lake
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.plans.files import mark, resumed
from backfill_assets.plans.model import ChunkKind, Plan, PlanChunk
from backfill_assets.plans.policy import Policy

AFTER_CANARY, AFTER_EACH = "canary", "chunk"
CORES_OF_A_CHUNK = 2  # its Python process plans and commits while the engine computes for another
MEGABYTES_OF_A_CHUNK = 1024  # of the engine's memory: half of what one chunk alone has by default


def refuse_stop(days: DayRange, policy: Policy) -> None:
    """Raise BackfillError if `stop_after` names no point of a plan of these days."""
    text = policy.stop_after
    if text in ("", AFTER_EACH) or (text == AFTER_CANARY and policy.canary):
        return
    why = "the plan has no canary (--canary 0)" if text == AFTER_CANARY else ""
    if not why:
        try:
            why = "" if parse_day(text) in days else f"{text} is none of the days {days}"
        except BackfillError:
            why = f"{text[:20]!r} is no point of a plan"
    if why:
        raise BackfillError("--stop-after", why, "Nothing was planned", f"Say canary, chunk, or a day of {days}")


def stops_after(plan: Plan, wave: Sequence[PlanChunk]) -> bool:
    """Whether the plan is to wait for a person after these chunks; never after the last ones."""
    text = plan.policy.stop_after
    if not text or tuple(wave) == plan.waves()[-1]:
        return False
    if text in (AFTER_CANARY, AFTER_EACH):
        return text == AFTER_EACH or wave[0].kind is ChunkKind.CANARY
    return any(parse_day(text) in c.days for c in wave if c.kind is not ChunkKind.BOUNDARY)


def stop_if_requested(lake: Lake, plan: Plan, wave: Sequence[PlanChunk]) -> None:
    """Set the mark `waiting` if the plan stops after these chunks, and nobody has resumed it since."""
    last = wave[-1]
    if stops_after(plan, wave) and last.number not in {r.chunk for r in resumed(lake, plan)}:
        text = f"chunk {last.number} ({last.days}) is made and its gate passed, --stop-after {plan.policy.stop_after}"
        mark(lake, plan.id, "waiting", text, chunk=last.number)


def usual_parallel(settings: LakeSettings) -> tuple[int, str]:
    """How many chunks may run at once if nobody says, by cores and memory of the lake's engine; and why."""
    spark = settings.spark
    if spark.engine not in OWN_SERVERS:
        return 1, f"1: cores and memory of {spark.engine.partition(':')[0]} are not known here"
    cores = spark.cores or os.cpu_count() or 1
    memory = int(spark.memory[:-1]) * (1024 if spark.memory[-1] in "gG" else 1)
    limits = [max(1, cores // CORES_OF_A_CHUNK), max(1, memory // MEGABYTES_OF_A_CHUNK)]
    why = f"{cores} core(s) allow {limits[0]}, {spark.memory} of the engine's memory {limits[1]}"
    return min(limits), f"{min(limits)}: {why}"
