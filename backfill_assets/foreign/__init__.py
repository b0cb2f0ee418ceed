"""Delta tables of others: external ones that a lake only observes, adopted ones that it writes from
now on.

Uses the kernel, `assets`, with which it goes, `engines`, `pipeline`, `reading`. Adds `adopt`,
`locate` and `register`. Not here: a Delta table as a source of deliveries (`intake.source_log`).
Guide: tables-of-others.
"""

from backfill_assets.kernel.core.rooms import Command, Document, Room

ROOM = Room(
    name="foreign",
    needs=("assets",),
    commands={
        "adopt": Command(
            "foreign.adopt_command:adopt",
            "Load",
            "A Delta table becomes one of the lake.",
            {"": Document("foreign.adopting:AdoptedForm")},
        ),
        "locate": Command(
            "foreign.catalog_command:locate",
            "Load",
            "Where a catalog has a table of others.",
            {"": Document("foreign.catalog_command:LocateAnswer")},
        ),
        "register": Command(
            "foreign.catalog_command:register",
            "Keep",
            "Tables by name in Spark's own catalog.",
            {"": Document("foreign.catalog_command:RegisterAnswer")},
        ),
    },
    offers={
        "entity_in_external": "foreign.observing:entity_in_external",
        "observe_input": "foreign.in_dagster:observe_input",
        "is_followed": "foreign.adopting:is_followed",
        "observe_each": "foreign.observing:observe_tables",
        "register_new_table": "foreign.catalog:register_new_table",
        "tables_of_others": "foreign.external:tables_of_others",
        "unseen_version": "foreign.observing:unseen_version",
    },
    public={
        "dagster.external_table": "foreign.in_dagster:external_table",
        "external_table": "foreign.external:external_table",
    },
    settings="foreign.settings:ForeignSettings",
    sessions=("foreign.located:refuse_moved_names",),
)
