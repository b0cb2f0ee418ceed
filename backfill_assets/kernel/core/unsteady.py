"""Names of functions that the row does not decide, or not alone, for every search for them.

Not here: the searches (`engines.frames`, `intake.select`, `engines.sail_differences`), and rows
computed again in another order (`kernel.write.computing`).
"""

# What the row does not decide: the clock, chance, and where and by whom it is computed.
CLOCK = frozenset(
    {"current_timestamp", "now", "current_date", "curdate", "localtimestamp", "current_time"}
)
CHANCE = frozenset(
    {
        "rand",
        "random",
        "randn",
        "uuid",
        "shuffle",
        "randstr",
        "uniform",
        "aes_encrypt",
        "try_aes_encrypt",
    }
)
PLACE = frozenset(
    {
        "monotonically_increasing_id",
        "spark_partition_id",
        "input_file_name",
        "input_file_block_start",
        "input_file_block_length",
        "current_user",
        "user",
        "session_user",
        "reflect",
        "java_method",
        "try_reflect",
        "version",
        "current_catalog",
        "current_database",
        "current_path",
        "current_schema",
        "current_timezone",
    }
)
# The last reads the clock where it has no argument.
UNDECIDED = CLOCK | CHANCE | PLACE | {"unix_timestamp"}
# Without brackets, too.
BARE = UNDECIDED & {
    "current_timestamp",
    "current_date",
    "current_time",
    "localtimestamp",
    "session_user",
    "current_user",
    "current_path",
}
