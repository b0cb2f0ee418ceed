"""Records of reconciliations: `.reconciled/ID.json` beside the SQL that ran, `.reconciled/ID.sql`.

Not here: making one (`reconcile`). A record is written once and never read by a decision.
"""

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backfill_assets.core.clock import utc_now
from backfill_assets.core.ownership import whoami
from backfill_assets.lake.files import make_folder, read_json, write_json
from backfill_assets.lake.folder import RECONCILED
from backfill_assets.lake.home import Lake
from backfill_assets.operations.reconcile_model import ReconcileReport


def keep_report(lake: Lake, report: ReconcileReport) -> Path:
    """Write the report and its SQL below the lake; returns the JSON file's path."""
    at = utc_now()
    folder = lake.root / RECONCILED
    make_folder(folder)
    path = folder / f"{at:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}.json"
    head = (
        f"-- {report.left}\n-- against {report.right}\n-- {at:%Y-%m-%d %H:%M:%SZ}, {report.mismatches} mismatch(es)\n"
    )
    path.with_suffix(".sql").write_text(head + report.sql, encoding="utf-8")
    write_json(path, {"at": at.isoformat(), "by": whoami(), **json.loads(json.dumps(report.to_dict(), default=str))})
    return path


def kept_reports(lake: Lake) -> list[Mapping[str, Any]]:
    """Return the kept reports as JSON values, oldest first."""
    return [read_json(path) for path in sorted((lake.root / RECONCILED).glob("*.json"))]
