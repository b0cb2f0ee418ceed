"""Reconciliation: the rows of two sides matched by a business key, in both directions, by SQL that
is kept.

The report and its SQL are kept as `.reconciled/ID.json` and `ID.sql`. Controls are reconciliations
that `[controls]` declares: known totals; one that cannot be judged is an outcome of its own, never
a pass. Not here: what a side may be (`reconcile_sides`), matching the rows (`reading.matching`),
and drawing the report (`reconcile.reconcile_command`).
"""

import json
import re
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from backfill_assets.kernel.core.addresses import (
    bucket_address,
    with_bucket_addresses,
)
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.contracts import Contract
from backfill_assets.kernel.core.days import DayRange, inclusive_range
from backfill_assets.kernel.core.errors import BackfillError, refuse_unknown_names
from backfill_assets.kernel.core.ownership import whoami
from backfill_assets.kernel.core.records import json_of
from backfill_assets.kernel.place.choice import place_at
from backfill_assets.kernel.place.folder import Folder
from backfill_assets.kernel.tables.folder import RECONCILED
from backfill_assets.kernel.tables.home import Lake, unwritable_folder
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.reading.matching import (
    DOUBLED_LEFT,
    DOUBLED_RIGHT,
    KINDS,
    WITHIN,
    ColumnCount,
    DayCount,
    MatchedRow,
    Matching,
    compared_columns,
    parse_tolerances,
)
from backfill_assets.reading.outcomes import ControlOutcome, keep_outcomes, tables_read
from backfill_assets.reading.postgres import DATABASE
from backfill_assets.reading.queries import QUERY
from backfill_assets.reading.settings import ControlSettings, controls_of
from backfill_assets.reading.sql import known_tables, own_engine
from backfill_assets.reconcile.reconcile_sides import (
    LAKE,
    NOTHING_WAS_DONE,
    Side,
    open_side,
    refuse_lacking_columns,
    side_columns,
    totals_by_grain,
    translated_side_errors,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True)
class ReconcileRequest:
    """Two sides as the user writes them, and how their rows are matched."""

    left: str
    right: str
    # columns that identify a row; empty: key and day of the left or right table
    key: Sequence[str] = ()
    columns: Sequence[str] = ()  # to compare; empty: all that both sides have
    ignore: Sequence[str] = ()  # not compared
    # by column: a number, a share such as `1%`, or of times seconds such as `5s`
    tolerance: Mapping[str, str] = field(default_factory=dict)
    days: DayRange | None = None
    # Gives a row's day; None: as the lake's table says, if a side is one.
    day_column: str | None = None
    grain: str = ""  # the sides are totals of a `day`, a `month` or of `all`, which is then the key
    sample: int = 0  # keys of the spot check
    seed: int = 0  # draws the sample
    sha256: bool = False  # digest both sides, as a whole and by day


ControlsAnswer = list[ControlOutcome]


_KindsOfRows = TypedDict(
    "_KindsOfRows",
    {
        "missing left": int,
        "missing right": int,
        "doubled left": int,
        "doubled right": int,
        "differs": int,
        "within tolerance": int,
    },
)


class ReconcileForm(_KindsOfRows):
    """Two sides matched by key, with the rows of each kind over all days; pairs: left, right."""

    left: str
    right: str
    key: Sequence[str]
    days: Sequence[DayCount]
    columns: Sequence[ColumnCount]
    null_keys: tuple[int, int]
    doubled_keys: tuple[int, int]
    unmatched_columns: tuple[Sequence[str], Sequence[str]]
    examples: Sequence[MatchedRow]
    spot_check: Sequence[MatchedRow]
    digests: tuple[str, str] | None
    digests_by_day: Mapping[str, tuple[str, str]]
    sql: str
    rows_left: int
    rows_right: int
    mismatches: int


@dataclass(frozen=True)
class ReconcileReport:
    """The outcome. Pairs are of the left and the right side."""

    left: str  # in words
    right: str  # in words
    key: tuple[str, ...]
    days: tuple[DayCount, ...]
    columns: tuple[ColumnCount, ...]
    null_keys: tuple[int, int]  # rows with a NULL in the key
    doubled_keys: tuple[int, int]  # keys that occur more than once
    unmatched_columns: tuple[tuple[str, ...], tuple[str, ...]]  # columns of one side alone
    examples: tuple[MatchedRow, ...]
    spot_check: tuple[MatchedRow, ...]
    digests: tuple[str, str] | None
    sql: str  # that was run; copies of objects by their addresses
    digests_by_day: Mapping[date | None, tuple[str, str]] = field(default_factory=dict)

    def total(self, kind: str) -> int:
        """Return the rows of a kind over all days."""
        return sum(d.kinds.get(kind, 0) for d in self.days)

    @property
    def rows(self) -> tuple[int, int]:
        """Return the rows of the left and the right side."""
        return sum(d.left for d in self.days), sum(d.right for d in self.days)

    @property
    def mismatches(self) -> int:
        """Return the rows that differ beyond tolerance or that one side lacks, and columns of
        another kind or of one side alone: what was not compared is not equal."""
        rows = sum(self.total(kind) for kind in KINDS if kind != WITHIN)
        of_other_kinds = sum(not c.same_kind for c in self.columns)
        return rows + of_other_kinds + sum(map(len, self.unmatched_columns))

    def to_dict(self) -> ReconcileForm:
        """Return the report as JSON values."""
        rows_left, rows_right = self.rows
        totals = {
            "rows_left": rows_left,
            "rows_right": rows_right,
            "mismatches": self.mismatches,
            **{k: self.total(k) for k in KINDS},
        }
        values: ReconcileForm = json_of(vars(self) | totals)
        return values


def keep_report(lake: Lake, report: ReconcileReport) -> str:
    """Write the report and its SQL below the lake; returns the JSON file's address."""
    at = utc_now()
    name = f"{RECONCILED}/{at:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"
    title = f"{report.left}\n-- against {report.right}\n-- {at:%Y-%m-%d %H:%M:%SZ}"
    lake.place.write(
        f"{name}.sql", f"-- {title}, {report.mismatches} mismatch(es)\n{report.sql}".encode()
    )
    body = {
        "at": at.isoformat(),
        "by": whoami(),
        **json.loads(json.dumps(report.to_dict(), default=str)),
    }
    lake.place.write_json(f"{name}.json", body)
    return lake.place.uri(f"{name}.json")


def reconcile(lake: Lake, pipeline: Pipeline, request: ReconcileRequest) -> ReconcileReport:
    """Match the rows of both sides; needs no JVM and changes nothing.

    Raises BackfillError for a side that cannot be read or changes meanwhile, for columns that a
    side lacks, and if both sides are empty.
    """
    with own_engine(lake) as engine:
        left, right = (
            open_side(engine, lake, pipeline, text) for text in (request.left, request.right)
        )
        try:
            report = _match_sides(engine, left, right, request)
        finally:
            for side in (left, right):
                side.refuse_changed()
        if not any(report.rows):
            raise BackfillError(
                "the reconciliation",
                f"neither {left.name} nor {right.name} has rows (of these days)",
                NOTHING_WAS_DONE,
                "Name sides that hold rows",
            )
        return report


def _match_sides(
    engine: "DuckDBPyConnection", left: Side, right: Side, request: ReconcileRequest
) -> ReconcileReport:
    """Match the rows of two sides, or their totals where the request asks for these."""
    if request.grain:
        left = totals_by_grain(engine, left, request.grain, request.columns)
        right = totals_by_grain(engine, right, request.grain, request.columns)
        request = replace(request, key=(request.grain,))
    matching, unmatched = _side_matching(engine, left, right, request)
    fix = "Leave the column out (--ignore), or cast it in a query"
    with translated_side_errors(f"{left.name} or {right.name}", fix):
        return _matching_report(matching, (left, right), unmatched, request)


Unmatched = tuple[tuple[str, ...], tuple[str, ...]]  # the columns of each side that the other lacks


def _side_matching(
    engine: "DuckDBPyConnection", left: Side, right: Side, request: ReconcileRequest
) -> tuple[Matching, Unmatched]:
    """Decide key, day and compared columns; raises BackfillError where a side lacks one."""
    contract = left.contract or right.contract
    key = _matching_key(contract, request)
    day = request.day_column or (contract.day_column if contract else None)
    types = [side_columns(engine, side) for side in (left, right)]
    key_and_day = [*key, day] if day else key
    for side, present in zip((left, right), types, strict=True):
        refuse_lacking_columns(side, key_and_day, present, "of --key or the day")
        compared = [*request.columns, *request.tolerance]
        refuse_lacking_columns(side, compared, present, "of --columns or --tolerance")
    if request.days and not day:
        raise BackfillError(
            "the reconciliation",
            "it is to compare days, and no column gives a row's day",
            NOTHING_WAS_DONE,
            "Name it with --day-column",
        )
    names = compared_columns(engine, types, key, request.columns, request.ignore)
    columns = parse_tolerances(names, request.tolerance)
    selects = left.select, right.select
    matching = Matching(
        engine=engine,
        sides=selects,
        key=key,
        day=day,
        columns=columns,
        within=_days_of_rows(contract, request, day),
        seed=request.seed,
    )
    return matching, _unmatched_columns(types, request)


def _days_of_rows(
    contract: Contract | None, request: ReconcileRequest, day_column: str | None
) -> DayRange | None:
    """The days of the rows to match (None: all). The rows of a month, or of another partition of
    several days, have its first day: those of each with a day of the request are matched."""
    days = request.days
    if days is None or contract is None or day_column != contract.day_column:
        return days
    if contract.calendar.is_of_days:
        return days
    keys = contract.calendar.keys_in(days)
    return inclusive_range(keys[0], keys[-1])


def _matching_key(contract: Contract | None, request: ReconcileRequest) -> tuple[str, ...]:
    """The columns that identify a row: those of the request, else day and key of a lake's table
    with this contract. Raises BackfillError where nobody names any."""
    if request.key:
        return tuple(request.key)
    if contract is None:
        raise BackfillError(
            "the reconciliation",
            "no key is known: neither side is a table of a lake",
            NOTHING_WAS_DONE,
            "Name the columns that identify a row: --key a,b",
        )
    return tuple(dict.fromkeys((contract.day_column, *contract.key)))


def _unmatched_columns(types: Sequence[Collection[str]], request: ReconcileRequest) -> Unmatched:
    """The columns of each side that the other lacks; none where the request names what is
    compared."""
    if request.columns:
        return (), ()
    left, right = types
    only_left = tuple(c for c in left if c not in (*right, *request.ignore))
    only_right = tuple(c for c in right if c not in (*left, *request.ignore))
    return only_left, only_right


def _matching_report(
    matching: Matching, sides: tuple[Side, Side], unmatched: Unmatched, request: ReconcileRequest
) -> ReconcileReport:
    """Match the rows, and gather what was found."""
    nulls, doubled = matching.match([statement for side in sides for statement in side.setup])
    days, columns, examples = matching.days(), matching.column_differences(), matching.examples()
    drawn = matching.spot_check(request.sample)
    digests, by_day = None, dict[date | None, tuple[str, str]]()
    if request.sha256:
        left, right = matching.digests()
        digests = str(left[0][0]), str(right[0][0])
        by_day = _digests_by_day(matching)
    return ReconcileReport(
        left=sides[0].name,
        right=sides[1].name,
        key=tuple(matching.key),
        days=days,
        columns=columns,
        null_keys=nulls,
        doubled_keys=doubled,
        unmatched_columns=unmatched,
        examples=examples,
        spot_check=drawn,
        digests=digests,
        sql=with_bucket_addresses(";\n".join([*matching.script, ""])),
        digests_by_day=by_day,
    )


def _digests_by_day(matching: Matching) -> dict[date | None, tuple[str, str]]:
    """The digests of each day on the left and the right side, rows without a day first; none where
    no column gives a row's day."""
    if not matching.day:
        return {}
    left, right = (dict[date | None, str](rows) for rows in matching.digests('"@day"'))
    days = sorted({*left, *right}, key=lambda day: day or date.min)
    return {day: (left.get(day, ""), right.get(day, "")) for day in days}


VALUE, SHOWN = "value", 3
NO_ROWS = "has no rows with a value"
NUMBER = re.compile(r"[-+]?\d+(\.\d+)?")


def judge_controls(
    lake: Lake, pipeline: Pipeline, names: Collection[str] = ()
) -> list[ControlOutcome]:
    """Judge the controls (names: empty = all) now, without a JVM; keep the outcomes if this user
    may write the lake.

    Raises UnknownName for an unknown name only.
    """
    settings = controls_of(lake.settings)
    refuse_unknown_names("control", names, settings, "Nothing was judged")
    chosen = [name for name in settings if name in names] if names else [*settings]
    outcomes = [_judge_control(lake, pipeline, name, settings[name]) for name in chosen]
    if unwritable_folder(lake) is None:
        keep_outcomes(lake, outcomes)
    return outcomes


def judge_affected_controls(
    lake: Lake, pipeline: Pipeline, written: Collection[str]
) -> list[ControlOutcome]:
    """Judge now the controls that read one of these tables (`affected_controls`)."""
    names = affected_controls(lake, pipeline, written)
    return judge_controls(lake, pipeline, names) if names else []


def affected_controls(lake: Lake, pipeline: Pipeline, written: Collection[str]) -> list[str]:
    """Names of the controls that read one of these tables or a table made from them; and of the
    controls whose tables are unknown."""
    known = {*known_tables(lake, pipeline), *(c.name for c in pipeline.followers)}
    affected = _affected_tables(lake, pipeline, written, known)
    names = list[str]()
    for name, control in controls_of(lake.settings).items():
        read = tables_read(control)
        if read is None or read & affected or not read & known:
            names.append(name)
    return names


def _affected_tables(
    lake: Lake, pipeline: Pipeline, written: Collection[str], known: Collection[str]
) -> set[str]:
    """These tables and all that are made from them, of the `known` ones; with a landed table the
    ledgers of what landed."""
    affected = {*written}
    for contract in pipeline.contracts:
        is_made_from = any(i.table in affected for i in contract.inputs)
        if is_made_from and lake.writes(contract.name):
            affected.add(contract.name)
    landed = {c.name for c in pipeline.contracts if c.is_landed}
    if landed & affected:
        affected |= {*known} - {c.name for c in pipeline.contracts}
    return affected


def _judge_control(
    lake: Lake, pipeline: Pipeline, name: str, control: ControlSettings
) -> ControlOutcome:
    """Compare the two sides of a control now. It holds if nothing differs; it is broken if a side
    has no row or cannot be read."""
    at = utc_now().isoformat(timespec="seconds")
    try:
        report = reconcile(lake, pipeline, control_request(lake, pipeline, control))
    except BackfillError as error:
        words = _unwritten_table_error(pipeline, str(error)) or str(error)
        return ControlOutcome(name, False, error=words, at=at)
    queried, expected = report.rows
    if not queried:
        return ControlOutcome(name, False, expected, error=f"the query {NO_ROWS}", at=at)
    if not expected:
        return ControlOutcome(name, False, 0, error=f"what is expected {NO_ROWS}", at=at)
    return ControlOutcome(
        name, not report.mismatches, report.mismatches, _difference_words(report), at=at
    )


def _unwritten_table_error(pipeline: Pipeline, error: str) -> str:
    """The error in words where the query reads a table without any write; else empty."""
    for table in pipeline.tables:
        if f"Table with name {table.name} does not exist" in error:
            advice = "Make its days first: `backfill-assets catch-up`"
            return f"nothing was written to {table.name} yet. {advice}"
    return ""


def control_request(lake: Lake, pipeline: Pipeline, control: ControlSettings) -> ReconcileRequest:
    """Return the request that holds the control's query against the expected values; paths start at
    the lake."""
    tolerance = {VALUE: control.tolerance} if control.tolerance else {}
    right = _expected_side(lake, pipeline, control.expected)
    return ReconcileRequest(
        f"{QUERY}{control.query}", right, columns=(VALUE,), tolerance=tolerance, grain=control.grain
    )


def _expected_side(lake: Lake, pipeline: Pipeline, expected: str) -> str:
    """The side that gives the expected values; a number is one value."""
    if NUMBER.fullmatch(expected):
        return f"{QUERY}SELECT {expected} AS {VALUE}"
    if expected.startswith(LAKE):
        return f"{LAKE}{_path_from_base_lake(lake, expected.removeprefix(LAKE))}"
    if expected.startswith((QUERY, *DATABASE)):
        return expected
    is_table = expected.partition("@")[0] in known_tables(lake, pipeline)
    return expected if is_table else str(_path_from_base_lake(lake, expected))


def _path_from_base_lake(lake: Lake, path: str) -> Path:
    """The path below the lake; of a candidate below its base lake, from which its lake.toml was
    copied, unless the candidate has the file itself."""
    own = fetched_path(lake.root, path)
    return own if lake.shared is None or own.exists() else fetched_path(lake.shared, path)


def _difference_words(report: ReconcileReport) -> str:
    """The first values that differ, or that the values are of another type."""
    texts = [
        f"{VALUE} is {c.left_type}, expected {c.right_type}"
        for c in report.columns
        if not c.same_kind
    ]
    differing = [row for row in report.examples if row.kind != WITHIN]
    texts += map(_row_words, differing[:SHOWN])
    more = report.mismatches - len(texts)
    if more > 0:
        texts.append(f"and {more} more")
    return "; ".join(texts)


def _row_words(row: MatchedRow) -> str:
    """A value that differs from the expected one, behind its key."""
    where = ", ".join(str(v) for v in row.key.values())
    left, right = (side.get(VALUE) or "nothing" for side in (row.left, row.right))
    doubled = f" ({row.kind})" if row.kind in (DOUBLED_LEFT, DOUBLED_RIGHT) else ""
    return f"{where}: {left}, expected {right}{doubled}"


def fetched_path(root: Path, name: str) -> Path:
    """The path of a file that people keep in a lake, on this machine with its content of now; it
    need not exist."""
    if bucket_address(root) and (place := place_at(root)).exists(name):
        Folder(str(root)).write(name, place.read(name))
    return root / name
