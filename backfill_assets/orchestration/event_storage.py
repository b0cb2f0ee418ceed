"""The event storage under the name that `dagster.yaml` of homes made by any release has.

Not here: what it does (`dagster.adapter.event_storage`).
"""

from backfill_assets.dagster.adapter.event_storage import BatchedEventLogStorage

__all__ = ["BatchedEventLogStorage"]
