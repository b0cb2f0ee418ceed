"""Lakes and landings in object stores: S3, Azure and Google behind the port `Place`, leases, local
copies.

Uses the kernel. Adds the command `copy-lake`, and places by scheme. Not here: which address leads
where (`kernel.place.choice`), engines that reach a bucket themselves (`engines`). Guide: buckets.
"""

from backfill_assets.kernel.core.addresses import SCHEMES
from backfill_assets.kernel.core.rooms import Command, Document, Room

ROOM = Room(
    name="buckets",
    commands={
        "copy-lake": Command(
            "buckets.copy_command:copy_lake",
            "Keep",
            "A lake to another folder or bucket.",
            {"": Document("buckets.copy_lake:CopiedForm")},
        ),
    },
    places=dict.fromkeys(SCHEMES, "buckets.bucket:Bucket"),
    doctor={"the store": "buckets.doctor_store:examine_lake"},
)
