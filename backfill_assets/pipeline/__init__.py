"""The tables of this product and of users: contracts, pure transforms and their binding to
settings.

Not here: writing, checking and scheduling tables, which serve any pipeline.
"""

from backfill_assets.kernel.core.rooms import Room

ROOM = Room(name="pipeline")
