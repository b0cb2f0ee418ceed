"""Columns of rows that somebody else made: their types as a contract names them, and their values
in these types.

A value is kept exactly or counted as a misfit; none is rounded, cut off or made NULL in silence.
Not here: where the rows come from and go to (`given_rows`). A timestamp without a zone counts as
UTC, as in landed files.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.kernel.core.column_types import (
    ALL_TYPES,
    ARRAY,
    DECIMAL,
    GREATEST_PRECISION,
    ColumnType,
    read_type,
)
from backfill_assets.kernel.core.contracts import Column, Contract
from backfill_assets.kernel.core.errors import ContractBroken
from backfill_assets.kernel.tables.columns import arrow_type

NO_TYPE = ColumnType("NULL")  # of a column, or of the elements of an array, without any value
SPARKS_WORDS = {
    "tinyint": "int",
    "smallint": "int",
    "float": "double",
    "timestamp_ntz": "timestamp",
}
WHOLE = ("INT", "BIGINT")
BITS = {"INT": 31, "BIGINT": 63, "DOUBLE": 53}  # whole numbers below 2 to this power are exact
DAY_MS = 86_400_000
BEYOND = "are beyond"  # begins what is said of values that a wider type holds


@dataclass(frozen=True)
class GivenColumn:
    """A column by its name, its type in the words of its library, and that type in ours: None where
    no column of a table is of it, NO_TYPE where nothing tells it."""

    name: str
    found: str
    kind: ColumnType | None


def arrow_columns(schema: "pa.Schema") -> tuple[GivenColumn, ...]:
    """The columns of an Arrow schema."""
    return tuple(GivenColumn(f.name, str(f.type), given_type(f.type)) for f in schema)


def spark_columns(dtypes: Sequence[tuple[str, str]]) -> tuple[GivenColumn, ...]:
    """The columns of a Spark frame, by its `dtypes`."""
    return tuple(GivenColumn(name, word, _spark_type(word)) for name, word in dtypes)


def _spark_type(word: str) -> ColumnType | None:
    """The type that Spark calls `word`; NO_TYPE for `void`, None if no column of a table is of
    it."""
    if word.startswith("array<"):
        return _array_of(_spark_type(word[len("array<") : -1]))
    if word.startswith(("varchar(", "char(")):
        return ColumnType("STRING")
    if word == "void":
        return NO_TYPE
    try:
        return read_type(SPARKS_WORDS.get(word, word))
    except ValueError:
        return None


def given_type(arrow: "pa.DataType") -> ColumnType | None:
    """The type that holds every value of an Arrow type (but dates, whole numbers and instants
    beyond our types' range); NO_TYPE for null, None if there is none."""
    is_ = pa.types
    if is_.is_dictionary(arrow):
        return given_type(arrow.value_type)
    if any(test(arrow) for test in (is_.is_list, is_.is_large_list, is_.is_fixed_size_list)):
        return _array_of(given_type(arrow.value_type))
    if is_.is_decimal(arrow):
        is_held = arrow.precision <= GREATEST_PRECISION and 0 <= arrow.scale <= arrow.precision
        return ColumnType(DECIMAL, arrow.precision, arrow.scale) if is_held else None
    tests: dict[str, tuple[Callable[[Any], bool], ...]] = {
        "INT": (is_.is_int8, is_.is_int16, is_.is_int32, is_.is_uint8, is_.is_uint16),
        "BIGINT": (is_.is_integer,),
        "DOUBLE": (is_.is_floating,),
        "BOOLEAN": (is_.is_boolean,),
        "STRING": (is_.is_string, is_.is_large_string, is_.is_string_view),
        "BINARY": (
            is_.is_binary,
            is_.is_large_binary,
            is_.is_binary_view,
            is_.is_fixed_size_binary,
        ),
        "DATE": (is_.is_date,),
        "TIMESTAMP": (is_.is_timestamp,),
        NO_TYPE.kind: (is_.is_null,),
    }
    for kind, of_kind in tests.items():
        if any(test(arrow) for test in of_kind):
            return ColumnType(kind)
    return None


def _array_of(element: ColumnType | None) -> ColumnType | None:
    """The type of lists of such elements; None for lists of lists, and of no type."""
    if element is None or element.element is not None:
        return None
    return ColumnType(ARRAY, element=element)


def contract_columns(given: Sequence[GivenColumn], what: str) -> tuple[Column, ...]:
    """The columns of a contract for these rows (`what`), all nullable and without a description.
    Raises ContractBroken listing every column that cannot be one."""
    refuse_equal_names(given, what)
    unknown = list[str]()
    for column in given:
        if column.kind is None:
            unknown.append(f"column {column.name} is {column.found}")
        elif NO_TYPE in (column.kind, column.kind.element):
            unknown.append(f"column {column.name} has no value and no type")
    if unknown:
        fix = f"Cast it to {ALL_TYPES} (a struct or a map: to a text of JSON)"
        raise unfit_rows_error(what, "; ".join(unknown), fix)
    return tuple(Column(c.name, str(c.kind), "", nullable=True) for c in given)


def refuse_equal_names(given: Sequence[GivenColumn], what: str) -> None:
    """Raise ContractBroken for two columns of one name, or of names that differ by case only."""
    first: dict[str, str] = {}
    for column in given:
        if before := first.get(column.name.lower()):
            differ = "differ by case only, and are one column for SQL"
            if before == column.name:
                differ = "have one name"
            raise unfit_rows_error(
                what, f"the columns {before} and {column.name} {differ}", "Rename one"
            )
        first[column.name.lower()] = column.name


def column_differences(
    given: Sequence[GivenColumn], contract: Contract, is_loose: bool
) -> list[str]:
    """Every difference of the columns from the contract's, in words. `is_loose`: of a library that
    makes whole numbers with missing ones floating, so that either stands for the other if the
    values are exactly whole."""
    by_name = {c.name: c for c in given}
    found = [f"column {n} is missing" for n in contract.column_names if n not in by_name]
    found += [
        f"column {n} is not in the contract" for n in by_name if n not in contract.column_names
    ]
    for column in contract.columns:
        returned = by_name.get(column.name)
        if returned is None:
            continue
        is_day = column.name == contract.day_column and column.type == "DATE"
        kind = returned.kind
        if kind is None or not _type_fits(kind, column.kind, is_day=is_day, is_loose=is_loose):
            found.append(f"column {column.name} is {returned.found}, not {column.type}")
    return found


def _type_fits(given: ColumnType, wanted: ColumnType, *, is_day: bool, is_loose: bool) -> bool:
    """Whether values of the type `given` may be exact values of the type `wanted`. `is_day`: of the
    column with the day, which may be a text or an instant; `is_loose`: whole numbers may have come
    as floating ones, and the other way round."""
    if given == NO_TYPE:
        return True
    if given.element is not None and wanted.element is not None:
        return _type_fits(given.element, wanted.element, is_day=False, is_loose=False)
    if given.kind == wanted.kind == DECIMAL:
        has_places = wanted.scale >= given.scale
        return has_places and _digits_before_point(wanted) >= _digits_before_point(given)
    numbers = {*WHOLE, "DOUBLE"} if is_loose else {*WHOLE}
    if {given.kind, wanted.kind} <= numbers:
        return True
    is_text_of_day = is_day and given.kind in ("STRING", "TIMESTAMP")
    return given == wanted or is_text_of_day


def _digits_before_point(kind: ColumnType) -> int:
    return kind.precision - kind.scale


def unfit_rows_error(what: str, culprit: str, fix: str) -> ContractBroken:
    """The error about given rows."""
    return ContractBroken(what, culprit, "Nothing was written", fix)


def stored_type(kind: ColumnType) -> Any:
    """The Arrow type in which values go to the writer: texts and lists of any length in one
    batch."""

    if kind.element is not None:
        return pa.large_list(stored_type(kind.element))
    wide = {"STRING": pa.large_string, "BINARY": pa.large_binary}
    return wide[kind.kind]() if kind.kind in wide else arrow_type(kind)


def converted_values(
    values: "pa.Array", kind: ColumnType
) -> "tuple[pa.Array, pa.Array | None, str]":
    """The values as `stored_type(kind)`; which of them are misfits (None: none can be; of a list:
    of its elements) and why, in words. Misfits come out as any value. Raises ArrowInvalid for what
    no check foresees."""
    found, target = values.type, stored_type(kind)
    if pa.types.is_dictionary(found):
        return converted_values(values.dictionary_decode(), kind)
    if kind.element is not None and not pa.types.is_null(found):
        flat, bad, why = converted_values(pc.list_flatten(values), kind.element)
        lengths = pc.fill_null(pc.cast(pc.list_value_length(values), pa.int64()), 0)
        ends = pc.cumulative_sum(lengths)
        offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends])
        return pa.LargeListArray.from_arrays(offsets, flat, mask=values.is_null()), bad, why
    if pa.types.is_timestamp(found):
        return _as_instants(values, kind)
    is_day_or_none = pa.types.is_date32(found) or pa.types.is_null(found)
    if kind.kind == "DATE" and not is_day_or_none:
        return _as_days(values)
    is_number = pa.types.is_integer(found) or pa.types.is_floating(found)
    if kind.kind in BITS and is_number:
        return _as_numbers(values, kind)
    return values.cast(target), None, ""


def _as_instants(values: "pa.Array", kind: ColumnType) -> "tuple[pa.Array, pa.Array | None, str]":
    """Timestamps of any unit in microseconds of UTC, or as the days whose midnights they are
    (`kind`); which of them are none, and why, as of `converted_values`."""
    bad = None
    if values.type.unit == "ns":
        ticks = values.view(pa.int64())
        micros = pc.divide(ticks, 1000)
        bad = pc.not_equal(pc.multiply(micros, 1000), ticks)
    else:
        micros = pc.multiply_checked(
            values.view(pa.int64()), {"s": 1_000_000, "ms": 1000, "us": 1}[values.type.unit]
        )
    if kind.kind == "TIMESTAMP":
        return micros.view(stored_type(kind)), bad, "have parts of a microsecond"
    days = pc.cast(micros.view(pa.timestamp("us")), pa.date32(), safe=False)
    at_midnight = pc.cast(days, pa.timestamp("us")).view(pa.int64())
    not_one = pc.not_equal(at_midnight, micros)
    return days, not_one if bad is None else pc.or_(bad, not_one), "are no midnight of UTC"


def _as_days(values: "pa.Array") -> "tuple[pa.Array, pa.Array | None, str]":
    """Texts and dates in milliseconds as days; which values are none (None: no value), and what is
    wrong with them."""
    if pa.types.is_date64(values.type):
        ms = values.view(pa.int64())
        not_midnight = pc.not_equal(pc.multiply(pc.divide(ms, DAY_MS), DAY_MS), ms)
        return pc.cast(values, pa.date32(), safe=False), not_midnight, "are no midnight"
    texts = values.cast(pa.large_string())
    # It takes 30 February for 1 March, and 2024-3-1: a day is what comes out as it came in.
    days = pc.cast(
        pc.strptime(texts, format="%Y-%m-%d", unit="s", error_is_null=True), pa.date32(), safe=False
    )
    same = pc.fill_null(pc.equal(days.cast(pa.large_string()), texts), False)
    return days, pc.and_not(texts.is_valid(), same), "are no day such as 2024-03-01"


def _as_numbers(values: "pa.Array", kind: ColumnType) -> "tuple[pa.Array, pa.Array | None, str]":
    """Numbers as whole ones or as floating ones (`kind`); which of them are none exactly, and why,
    as of `converted_values`."""
    found, target, bits = values.type, stored_type(kind), BITS[kind.kind]
    if pa.types.is_floating(found):
        if kind.kind == "DOUBLE":
            return values.cast(target), None, ""
        bound = 2.0 ** min(bits, BITS["DOUBLE"])
        whole = pc.and_(pc.less(pc.abs(values), bound), pc.equal(pc.floor(values), values))
        return (
            pc.cast(values, target, safe=False),
            pc.invert(whole),
            f"are not whole numbers of {kind}",
        )
    value_bits = found.bit_width - (1 if pa.types.is_signed_integer(found) else 0)
    if value_bits <= bits:
        return values.cast(target), None, ""
    bound = pa.scalar((1 << bits) - 1, found)
    bad = pc.greater(values, bound)
    if pa.types.is_signed_integer(found):
        bad = pc.or_(bad, pc.less(values, pa.scalar(-(1 << bits), found)))
    return pc.cast(values, target, safe=False), bad, f"{BEYOND} {kind}"
