"""Reading a lake without a JVM: `open_lake`, SQL over its tables, the tables `system.*`, the
account of all rows, and what would follow from a rebuild.

Uses the kernel. Adds the commands `sql` and `attach`. Not here: any write. Guide: as-others-write.
A name is imported at its first use.
"""

from typing import TYPE_CHECKING

from backfill_assets.kernel.core.process import imported_when_used
from backfill_assets.kernel.core.rooms import Command, Document, Room

if TYPE_CHECKING:
    from backfill_assets.reading.opening import ReadersWait, open_lake

__all__ = ["ReadersWait", "open_lake"]

ROOM = Room(
    name="reading",
    settings="reading.settings:ReadingSettings",
    staged_checks=("reading.queries:failed_staged_reads",),
    commands={
        "sql": Command(
            "cli.sql_command:sql",
            "Look",
            "A SELECT over the lake's tables.",
            {"": Document("cli.sql_command:SqlAnswer")},
        ),
        "attach": Command(
            "cli.sql_command:attach",
            "Keep",
            "Tables by name for DuckDB, Polars, Spark.",
            {"": Document("cli.sql_command:AttachAnswer")},
        ),
    },
    tables={
        "checks": "reading.system_tables:CHECKS",
        "rejected": "reading.system_tables:REJECTED",
        "landed": "reading.system_tables:LANDED",
        "columns": "reading.system_tables:COLUMNS",
    },
    standing=("reading.proofs:proof_lines", "reading.outcomes:broken_controls"),
    checks=("reading.proofs:checked_proofs", "reading.outcomes:checked_controls"),
)

if not TYPE_CHECKING:  # for a type checker, a name that is not above is a mistake
    __getattr__ = imported_when_used(__name__, {"opening": ("ReadersWait", "open_lake")})
