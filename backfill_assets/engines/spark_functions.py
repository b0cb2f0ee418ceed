"""Functions of Spark's that the parser of SQL has no name for, and that give the same for the same
rows: of one row, which may raise or not, and of many.

Not here: functions that the row does not decide (`kernel.core.unsteady`), and the searches for both
(`intake.select`, `sail_differences`).
"""

import re

# Window functions that are no aggregates to the parser, and aggregates that it knows as plain
# functions.
OF_MANY_ROWS = frozenset(
    [
        "any",
        "every",
        "some",
        "mean",
        "std",
        "try_avg",
        "try_sum",
        "measure",
        "histogram_numeric",
        "count_min_sketch",
        "bitmap_and_agg",
        "row_number",
        "rank",
        "dense_rank",
        "percent_rank",
        "cume_dist",
        "ntile",
        "lag",
        "lead",
        "nth_value",
        "window",
        "session_window",
        "inline_outer",
        "stack",
        "json_tuple",
        "explode_outer",
        "posexplode_outer",
    ]
)


# Functions of Spark that the parser has no name for, and that give the same for the same row. Any
# other may be one's own (a Python UDF), which no receipt records.
KNOWN = frozenset(
    [
        "array_repeat",
        "array_union",
        "arrays_overlap",
        "get",
        "nullifzero",
        "zeroifnull",
        "bin",
        "bround",
        "conv",
        "e",
        "expm1",
        "hypot",
        "log1p",
        "positive",
        "try_mod",
        "btrim",
        "find_in_set",
        "format_number",
        "is_valid_utf8",
        "luhn_check",
        "make_valid_utf8",
        "mask",
        "octet_length",
        "printf",
        "quote",
        "sentences",
        "try_to_binary",
        "try_to_number",
        "cardinality",
        "crc32",
        "hash",
        "xxhash64",
        "date_part",
        "datepart",
        "timestamp_micros",
        "timestamp_millis",
        "timestamp_seconds",
        "try_make_timestamp",
        "try_to_date",
        "try_to_timestamp",
        "weekday",
        "forall",
        "map_filter",
        "map_zip_with",
        "transform_keys",
        "transform_values",
        "zip_with",
        "json_array_length",
        "isnotnull",
        "isnull",
        "regexp",
        "map_concat",
        "map_entries",
        "map_values",
        "shiftrightunsigned",
        "try_parse_url",
        "try_url_decode",
        "try_validate_utf8",
        "url_encode",
        "try_element_at",
    ]
)


# Further ones that are so, but may raise: `select` sets such a row aside.
RAISING_TOO = frozenset(
    [
        "aes_decrypt",
        "assert_true",
        "from_csv",
        "from_xml",
        "is_valid_variant",
        "is_variant_null",
        "make_date",
        "make_dt_interval",
        "make_time",
        "make_timestamp_ltz",
        "make_timestamp_ntz",
        "make_ym_interval",
        "pmod",
        "raise_error",
        "schema_of_csv",
        "schema_of_json",
        "schema_of_variant",
        "schema_of_xml",
        "to_csv",
        "to_timestamp_ltz",
        "to_timestamp_ntz",
        "to_varchar",
        "to_variant_object",
        "to_xml",
        "try_aes_decrypt",
        "try_make_interval",
        "try_make_timestamp_ltz",
        "try_make_timestamp_ntz",
        "try_parse_json",
        "try_to_time",
        "try_variant_get",
        "url_decode",
        "validate_utf8",
        "variant_get",
    ]
)


# Sketches, places, times of a day and XPath, except aggregates of many rows.
FAMILIES = re.compile(
    r"(?:hll|kll|theta|tuple)_(?!\w*agg)\w+|(?:st|time|xpath)_\w+|xpath|to_time|vector_(?!avg$|sum$)\w+"
)


def is_spark_function(name: str, *, may_raise: bool = True) -> bool:
    """Whether a name that the parser does not know is a function of Spark's that gives the same for
    the same rows; unless it `may_raise`, one that raises for no row."""
    if not may_raise:
        return name in KNOWN
    return name in KNOWN | RAISING_TOO | OF_MANY_ROWS or FAMILIES.fullmatch(name) is not None
