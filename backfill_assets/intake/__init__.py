"""What landed becomes rows of raw: files and tables of others are listed, read, mapped, counted,
recorded.

Uses the kernel, `engines` and `buckets`. Adds the commands `scan` and `landing`. Not here: the
tables that are computed from raw (`pipeline`). Guides: own-files, several-sources.
"""

from backfill_assets.kernel.core.rooms import Command, Document, Room

ROOM = Room(
    name="intake",
    loaders=("intake.raw:load_raw",),
    deliveries=("intake.landed_state:source_deliveries",),
    commands={
        "scan": Command(
            "cli.landing_command:scan",
            "Load",
            "Take stock of the landing folder.",
            {"": Document("cli.landing_command:ScanAnswer")},
        ),
        "landing": Command(
            "cli.landing_command:landing",
            "Load",
            "Accept altered or missing files.",
            {"accept": Document("cli.landing_command:AcceptAnswer")},
        ),
    },
    offers={
        "log_fault": "intake.log_bounds:log_fault",
        "data_fault": "intake.log_bounds:data_fault",
        "plain_form": "intake.plain_form:plain_form",
    },
    fences=("intake.forgotten:erased_meanwhile",),
    settings="intake.settings:LandedSettings",
)
