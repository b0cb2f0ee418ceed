"""Closed books: no run writes days up to a chosen one any more, and what came late for them is
listed.

Uses the kernel and `reading`. Adds the commands `close`, `reopen` and `closed`. What came late is
also a check and the system table `late_into_closed`. Not here: what refuses a write of a closed
day, which every write asks (`kernel.write.replace`), and days that a rollback holds (`plans`).
Guide: closed-books.
"""

from backfill_assets.kernel.core.rooms import Command, Document, Room

ROOM = Room(
    name="closing",
    commands={
        "close": Command(
            "closing.closing_command:close",
            "Correct",
            "Allow no write of days up to one.",
            {"": Document("closing.closing_command:MovesAnswer")},
        ),
        "reopen": Command(
            "closing.closing_command:reopen",
            "Correct",
            "Allow writes of closed days again.",
            {"": Document("closing.closing_command:MovesAnswer")},
        ),
        "closed": Command(
            "closing.closing_command:closed",
            "Look",
            "Closed tables, and what came late for them.",
            {"": Document("closing.closing_command:ClosedAnswer")},
        ),
    },
    offers={"late_lines": "closing.late_changes:late_lines"},
    tables={"late_into_closed": "closing.late_changes:LATE_INTO_CLOSED"},
    checks=("closing.late_changes:checked_closures",),
)
