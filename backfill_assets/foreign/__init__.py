"""Delta tables of others: external ones that a lake only observes, adopted ones that it writes from
now on.

Uses the kernel and `engines`. Adds the commands `adopt` and `locate`. Not here: a Delta table as a
source of deliveries (`intake.source_log`). Guide: tables-of-others.
"""

from backfill_assets.kernel.core.rooms import Room

ROOM = Room(name="foreign")
