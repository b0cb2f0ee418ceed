"""Alerts of a plan's gate that refused, whoever runs the plan: the command line or a run of `backfill_range`.

Lives here: what is said, and saying it once. Does not live here: the gate (`operations.plan_gate`), alerts of runs
(`alerts`: the failed run of a gate that was told here says nothing more), keeping and sending (`outbox`).
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import dagster as dg

from backfill_assets.core.errors import GateRefused, SettingsError
from backfill_assets.orchestration.alert_channels import Channels, Message, ui_url
from backfill_assets.orchestration.alerts import GATE_TAG, is_wanted, outbox
from backfill_assets.orchestration.outbox import TELL_AGAIN_SECONDS


@contextlib.contextmanager
def telling_gates(root: Path, instance: dg.DagsterInstance, run_id: str = "") -> Iterator[None]:
    """A gate that refuses within is told, then raised on; the run `run_id`, if any, is tagged with its chunk."""
    try:
        yield
    except GateRefused as refused:
        if run_id:
            instance.add_run_tags(run_id, {GATE_TAG: f"chunk {refused.facts['chunk']} refused"})
        tell_gate(root, instance, refused, run_id)
        raise


def tell_gate(root: Path, instance: dg.DagsterInstance, refused: GateRefused, run_id: str = "") -> None:
    """Keep the alert, and send it at once where an address is set here: no daemon is needed. The same words once a day.

    Where none is set it waits for the daemon, if alerts were ever kept in this lake; else nothing is told.
    """
    box = outbox(root, instance)
    if not (is_wanted() or box.folder.is_dir()):
        return
    said = message(root, refused, run_id)
    box.tell({said.subject: said.text}, (), lambda _: said, TELL_AGAIN_SECONDS)
    with contextlib.suppress(SettingsError):  # the daemon names an address that cannot be one
        channels = Channels.of(os.environ)
        if channels:
            box.deliver(channels)  # what an address did not take is kept


def message(root: Path, refused: GateRefused, run_id: str) -> Message:
    """What is said: the plan and chunk, the findings in a line, what to type."""
    url = ui_url(os.environ)
    facts = {
        **refused.facts, "lake": str(root), "reason": "gate", "run_id": run_id,
        "url": f"{url}/runs/{run_id}" if run_id else url,
    }  # fmt: skip
    return Message(f"Gate refused: chunk {refused.facts['chunk']} of plan {refused.facts['plan']}", str(refused), facts)
