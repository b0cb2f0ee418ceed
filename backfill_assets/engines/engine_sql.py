"""DuckDB's SQL in the words of the lake's engine: every query over rows of a table is written once,
for DuckDB, and sqlglot translates it.

Here are also the few expressions that sqlglot cannot translate so that both engines give the same
to the last bit, each with the reason, and who runs a translated query (`EngineRows`). Not here:
the queries (`kernel.tables.fingerprints`, `kernel.write.audit`, `intake.arrival_rows`,
`pipeline.transforms.queries`), and whether the engine is asked (`auditor`).
"""

from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING, Any

from backfill_assets.kernel.tables.fingerprints import NAN_BITS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from sqlglot import exp

Found = tuple[list[str], list[tuple[Any, ...]]]  # the names of the columns, and the rows
# Functions whose names sqlglot does not know.
SPARKS_NAMES = {"epoch_us": "unix_micros", "strlen": "octet_length"}
WHOLE_SUM = "DECIMAL(38, 0)"  # for HUGEINT: Spark has no whole number of more than 64 bits
# For CAST('0x…' AS BIGINT): Spark casts no hexadecimal text, and its sum of BIGINT is one of 64
# bits.
HEX_NUMBER = "CAST(conv(digits, 16, 10) AS DECIMAL(20, 0))"
MANTISSA, SIGN = 1 << 52, -(1 << 63)  # of the 64 bits of a DOUBLE
EXPONENT_OF_ONE, INFINITY_BITS = 1023, 0x7FF0000000000000
LEAST_NORMAL = "2.2250738585072014E-308D"


class EngineRows:
    """Frames of rows by name, and queries over them in DuckDB's SQL, which the engine runs."""

    def __init__(self, session: "SparkSession", **frames: "DataFrame") -> None:
        self.session, self.frames = session, frames

    def frame(self, query: str) -> "DataFrame":
        """The frame of a query that selects from the frames by their names."""
        return self.session.sql(spark_sql(query, self.frames), None, **self.frames)

    def fetched(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of such a query, in this process."""
        return [tuple(row) for row in self.frame(query).collect()]

    def found(self, query: str) -> Found:
        """The names of the columns and the rows of such a query."""
        frame = self.frame(query)
        return frame.columns, [tuple(row) for row in frame.collect()]


def spark_sql(query: str, frames: Collection[str] = ()) -> str:
    """A query or expression of DuckDB as Spark's, over frames of these names (in braces, as
    `SparkSession.sql` takes them)."""
    import sqlglot

    parsed = sqlglot.parse_one(query, read="duckdb")
    _rename_functions(parsed)
    _replace_casts(parsed)
    _replace_quantiles(parsed)
    text = parsed.sql("spark", identify=True)
    if not frames:
        return text
    text = text.replace("{", "{{").replace("}", "}}")
    for name in frames:
        text = text.replace(f"`{name}`", f"{{{name}}}")
    return text


def _rename_functions(parsed: "exp.Expr") -> None:
    from sqlglot import exp

    for called in parsed.find_all(exp.Anonymous):
        called.set("this", SPARKS_NAMES.get(called.name.lower(), called.name))


def _replace_casts(parsed: "exp.Expr") -> None:
    """Replace casts to types that Spark lacks, and from texts that it does not read."""
    from sqlglot import exp

    for kind in list(parsed.find_all(exp.DataType)):
        if kind.is_type("INT128"):
            kind.replace(exp.DataType.build(WHOLE_SUM, dialect="spark"))
    for cast in list(parsed.find_all(exp.Cast)):
        value = cast.this
        if isinstance(value, exp.Cast) and value.to.is_type("BIT"):
            cast.replace(_filled_expression(_double_bits(), value.this))
        elif isinstance(value, exp.Concat) and value.expressions[0].name == "0x":
            cast.replace(_filled_expression(HEX_NUMBER, value.expressions[1]))


def _filled_expression(text: str, value: "exp.Expr") -> "exp.Expr":
    """Spark's expression, with `value` in the place of its one column."""
    from sqlglot import exp

    filled = _parsed_expression(text).copy()
    for column in list(filled.find_all(exp.Column)):
        column.replace(value.copy())
    return filled


@cache
def _parsed_expression(text: str) -> "exp.Expr":
    import sqlglot

    return sqlglot.parse_one(text, read="spark")


def _double_bits() -> str:
    """The expression of the whole number that the 64 bits of the DOUBLE `x` are, by exact
    arithmetic, for CAST(CAST(x AS BIT) AS BIGINT): Spark has no cast that gives bits."""
    size = "abs(x)"
    rounded = f"CAST(floor(log2({size})) AS INT)"  # off by one where log2 rounds
    scaled = f"{size} / pow(2D, {rounded})"
    power = f"({rounded} + CASE WHEN {scaled} >= 2 THEN 1 WHEN {scaled} < 1 THEN -1 ELSE 0 END)"
    fraction = f"CAST(({size} / pow(2D, {power}) - 1) * {MANTISSA}D AS BIGINT)"
    normal = f"{fraction} + CAST({power} + {EXPONENT_OF_ONE} AS BIGINT) * {MANTISSA}L"
    subnormal = f"CAST({size} * pow(2D, 537) * pow(2D, 537) AS BIGINT)"
    sign = f"CASE WHEN x < 0 THEN {SIGN + 1}L - 1L ELSE 0L END"
    return (
        f"CASE WHEN x = 0 THEN 0L WHEN isnan(x) THEN {NAN_BITS}L "
        f"WHEN {size} = double('Infinity') THEN {INFINITY_BITS}L + {sign} "
        f"WHEN {size} < {LEAST_NORMAL} THEN {subnormal} + {sign} ELSE {normal} + {sign} END"
    )


def _replace_quantiles(parsed: "exp.Expr") -> None:
    """Replace quantiles, of one column and discrete, by those by rank, of a query whose first
    column is the day: the engine spills a sort, and holds all values that its own function has
    seen."""
    import sqlglot
    from sqlglot import exp

    for quantile in list(parsed.find_all(exp.PercentileDisc)):
        select, value = quantile.parent_select, quantile.this.sql("duckdb")
        if isinstance(select, exp.Select) and not select.find(exp.Window):
            of_day = f"OVER (PARTITION BY {select.expressions[0].sql('duckdb')}"
            ranks = (
                f"row_number() {of_day} ORDER BY {value}) AS place",
                f"count({value}) {of_day}) AS known",
            )
            select.from_(
                exp.select("*", *ranks, dialect="duckdb")
                .from_(select.args["from_"].this)
                .subquery(),
                copy=False,
            )
        ranked = f"max(CASE WHEN place = ceil(known * {quantile.expression}) THEN {value} END)"
        quantile.replace(expression=sqlglot.parse_one(ranked, read="duckdb"))
