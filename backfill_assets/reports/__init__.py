"""What a person looks at: states of all days, a day's receipt, the whole lake on a page, lateness,
plots.

Uses the kernel and `reading`. Adds the commands `status`, `show`, `report`, `audit`, `lateness`,
`drift`, `checklist`. Not here: what Dagster's pages show (`dagster.adapter`). Guides: trust,
late-data.
"""

from backfill_assets.kernel.core.rooms import Command, Document, Room

ROOM = Room(
    name="reports",
    commands={
        "status": Command(
            "reports.status_command:status",
            "Look",
            "States of all days and tables.",
            {"": Document("reports.status_command:StatusAnswer")},
        ),
        "show": Command(
            "reports.status_command:show",
            "Look",
            "Receipt, inputs and history of a day.",
            {"": Document("reports.show:DayReportForm")},
        ),
        "report": Command(
            "reports.report_command:report",
            "Look",
            "The whole lake on one page.",
            {"": Document("reports.report_command:ReportAnswer")},
        ),
        "audit": Command(
            "reports.report_command:audit",
            "Look",
            "Every write: who, when, why.",
            {"": Document("reports.report_command:AuditAnswer")},
        ),
        "lateness": Command(
            "reports.lateness_command:lateness",
            "Look",
            "How late rows arrive.",
            {"": Document("reports.lateness:LatenessForm")},
        ),
        "drift": Command(
            "reports.checks_command:drift",
            "Trust",
            "Days whose values are off, ranked.",
            {"": Document("reading.check_history:DriftForm")},
        ),
        "checklist": Command(
            "reports.checklist_command:checklist",
            "Look",
            "What makes this lake trustworthy, computed.",
            {"": Document("reports.checklist:ChecklistForm")},
        ),
    },
    tables={
        "days": "reports.system_tables:DAYS",
        "writes": "reports.system_tables:WRITES",
        "day_writes": "reports.system_tables:DAY_WRITES",
        "lateness": "reports.system_tables:LATENESS",
        "runs": "reports.system_tables:RUNS",
    },
    checks=("reports.system_tables:checked_gates",),
    offers={"brief_reason": "reports.show:brief_reason"},
)
