"""Controls: known totals that a lake's `[controls]` hold its tables against, from a file, a query or a number.

Not here: matching values (`reconcile`). A control that cannot be judged is an outcome of its own, never a pass.
"""

import re
from collections.abc import Collection
from pathlib import Path

from backfill_assets.core.clock import utc_now
from backfill_assets.core.errors import BackfillError, refuse_unknown
from backfill_assets.lake.home import Lake, unwritable_folder
from backfill_assets.lake.matched_columns import DOUBLED_LEFT, DOUBLED_RIGHT, WITHIN
from backfill_assets.lake.model import Pipeline
from backfill_assets.lake.queries import QUERY
from backfill_assets.lake.sections import ControlSettings
from backfill_assets.operations.postgres import DATABASE
from backfill_assets.operations.reconcile import ReconcileReport, ReconcileRequest, reconcile
from backfill_assets.operations.reconcile_sides import LAKE
from backfill_assets.operations.sql import known_tables
from backfill_assets.operations.standing import ControlOutcome, keep_outcomes, tables_read

VALUE = "value"
SHOWN = 3
NUMBER = re.compile(r"[-+]?\d+(\.\d+)?")


def judge_controls(lake: Lake, pipeline: Pipeline, names: Collection[str] = ()) -> list[ControlOutcome]:
    """Judge the controls (names: empty = all) now, without a JVM; keep the outcomes if this user may write the lake.

    Raises UnknownName for an unknown name only.
    """
    settings = lake.settings.controls
    refuse_unknown("control", names, settings, "Nothing was judged")
    chosen = {n: s for n, s in settings.items() if not names or n in names}
    outcomes = [_judge_control(lake, pipeline, name, control) for name, control in chosen.items()]
    if unwritable_folder(lake) is None:
        keep_outcomes(lake, outcomes)
    return outcomes


def controls_over(lake: Lake, pipeline: Pipeline, written: Collection[str]) -> list[str]:
    """Names of the controls that read one of these tables or a table made from them; and of the controls whose tables
    are unknown."""
    affected, known = {*written}, {*known_tables(lake, pipeline), *(c.name for c in pipeline.followers)}
    for contract in pipeline.contracts:
        if lake.writes(contract.name) and any(i.table in affected for i in contract.inputs):
            affected.add(contract.name)
    if any(c.is_landed and c.name in affected for c in pipeline.contracts):
        affected |= known - {c.name for c in pipeline.contracts}  # ledgers of what landed
    tables_of = {name: tables_read(control) for name, control in lake.settings.controls.items()}
    return [name for name, read in tables_of.items() if read is None or read & affected or not read & known]


def _judge_control(lake: Lake, pipeline: Pipeline, name: str, control: ControlSettings) -> ControlOutcome:
    at = utc_now().isoformat(timespec="seconds")
    try:
        report = reconcile(lake, pipeline, control_request(lake, pipeline, control))
    except BackfillError as error:
        return ControlOutcome(name, False, error=_unwritten(pipeline, str(error)) or str(error), at=at)
    if not min(report.rows):
        lacking = report.rows[1] if not report.rows[0] else 0
        side = "the query" if not report.rows[0] else "what is expected"
        return ControlOutcome(name, False, lacking, error=f"{side} has no rows with a value", at=at)
    return ControlOutcome(name, not report.mismatches, report.mismatches, _words(report), at=at)


def _unwritten(pipeline: Pipeline, error: str) -> str:
    """The error in words where the query reads a table without any write; else empty."""
    named = [t.name for t in pipeline.tables if f"Table with name {t.name} does not exist" in error]
    return f"nothing was written to {named[0]} yet. Make its days first: `backfill-assets catch-up`" if named else ""


def control_request(lake: Lake, pipeline: Pipeline, control: ControlSettings) -> ReconcileRequest:
    """Return the request that holds the control's query against the expected values; paths start at the lake."""
    tolerance = {VALUE: control.tolerance} if control.tolerance else {}
    right = _expected(lake, pipeline, control.expected)
    return ReconcileRequest(
        f"{QUERY}{control.query}", right, columns=(VALUE,), tolerance=tolerance, grain=control.grain
    )


def _expected(lake: Lake, pipeline: Pipeline, expected: str) -> str:
    """The side that gives the expected values; a number is one value."""
    if NUMBER.fullmatch(expected):
        return f"{QUERY}SELECT {expected} AS {VALUE}"
    if expected.startswith(LAKE):
        return f"{LAKE}{_path_from_base_lake(lake, expected.removeprefix(LAKE))}"
    is_side = expected.startswith((QUERY, *DATABASE)) or expected.partition("@")[0] in known_tables(lake, pipeline)
    return expected if is_side else str(_path_from_base_lake(lake, expected))


def _path_from_base_lake(lake: Lake, path: str) -> Path:
    """The path below the lake; of a candidate below its base lake, from which its lake.toml was copied, unless the
    candidate has the file itself."""
    own = lake.root / path
    return own if lake.shared is None or own.exists() else lake.shared / path


def _words(report: ReconcileReport) -> str:
    """The first values that differ, or that the values are of another type."""
    texts = [f"{VALUE} is {c.left_type}, expected {c.right_type}" for c in report.columns if not c.same_kind]
    for row in [e for e in report.examples if e.kind != WITHIN][:SHOWN]:
        where = ", ".join(str(v) for v in row.key.values())
        left, right = (side.get(VALUE) or "nothing" for side in (row.left, row.right))
        doubled = f" ({row.kind})" if row.kind in (DOUBLED_LEFT, DOUBLED_RIGHT) else ""
        texts.append(f"{where}: {left}, expected {right}{doubled}")
    more = report.mismatches - len(texts)
    return "; ".join([*texts, f"and {more} more"] if more > 0 else texts)
