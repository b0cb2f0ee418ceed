"""Real values for tests: a small pipeline's contracts, receipts, hand-written Delta logs, and a
lake told as a story. Here: `Story` (a lake in memory that is landed in, loaded and built in any
order, its digests taken from the code under test) and `make_commit`. Not here: Hypothesis
strategies (`strategies.py`) and Spark frames."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from backfill_assets.kernel.core.contracts import Column, Contract, Input, InputKind
from backfill_assets.kernel.core.days import ONE_DAY
from backfill_assets.kernel.core.digests import digest_of, raw_digest
from backfill_assets.kernel.core.frontier import frontier_of
from backfill_assets.kernel.core.readings import todays_parameters
from backfill_assets.kernel.core.receipts import Built, DayEntry, Receipt
from backfill_assets.kernel.core.states import Codes, State, States
from backfill_assets.kernel.core.view import DayReceipt, Deliveries, LakeView, LandedDay, TableView
from backfill_assets.kernel.write.gates import checks_of

START = date(2024, 2, 26)  # four days before a leap day, so that windows cross it
WINDOW, HORIZON, MATURITY = 3, 2, 1  # days: long enough to have edges, short enough to list by hand
CODE = Codes("code-1", "settings-1")
K = TypeVar("K")
V = TypeVar("V")


def turned(mapping: Mapping[K, V]) -> dict[K, V]:
    """The same mapping, read in the opposite order."""
    return dict(reversed(list(mapping.items())))


def day(number: int) -> date:
    """The lake's day of that number: `day(0)` is its first."""
    return START + ONE_DAY * number


def contract(
    name: str,
    day_column: str,
    *inputs: Input,
    key: Sequence[str] = ("entity",),
    waits: bool = False,
    matures: int | None = None,
) -> Contract:
    """A contract with an entity, a nullable number and a day, made from `inputs`."""
    columns = (
        Column("entity", "STRING", "whose row it is"),
        Column("value", "BIGINT", "any number", nullable=True),
        Column(day_column, "DATE", "the day"),
    )
    return Contract(
        name, f"{name} of the tests", columns, day_column, tuple(key), inputs, waits, matures
    )


RAW = contract("raw", "arrival_date", Input("landing", kind=InputKind.FILES))
STAGING = contract("staging", "event_date", Input("raw", kind=InputKind.ARRIVALS))
FEATURES = contract("features", "feature_date", Input("staging", before=WINDOW - 1))
AS_KNOWN = contract(
    "features_as_known",
    "feature_date",
    Input("staging", before=WINDOW - 1, kind=InputKind.KNOWN_AT_CUT),
    waits=True,
)
LABELS = contract(
    "labels",
    "label_date",
    Input("staging", before=-1, after=HORIZON),
    Input("features_as_known"),
    waits=True,
    matures=HORIZON + MATURITY,
)
TRAINING = contract(
    "training", "feature_date", Input("features_as_known"), Input("labels"), waits=True
)
CONTRACTS = (RAW, STAGING, FEATURES, AS_KNOWN, LABELS, TRAINING)
CHECKS = checks_of(STAGING)  # of tables without rules


def receipt(
    table: str = "staging", days: Mapping[date, DayEntry] | None = None, **facts: Any
) -> Receipt:
    """A receipt with plain facts, of which any can be given."""
    entries = {day(0): DayEntry(3, "A.B.C.D", "digest-0")} if days is None else days
    return Receipt(
        **{"write_id": "write-0", "table": table, "reason": "manual", "days": entries, **facts}
    )


def make_commit(
    table: Path,
    version: int,
    receipt: Receipt | None = None,
    actions: Iterable[Mapping[str, Any]] = (),
    info: Mapping[str, Any] | None = None,
) -> Path:
    """Write one commit of a table's Delta log by hand: `commitInfo` first, as with in-commit
    timestamps."""
    about: dict[str, Any] = {
        "operation": "WRITE",
        "inCommitTimestamp": 1_709_000_000_000 + version,
        **(info or {}),
    }
    if receipt is not None:
        about["userMetadata"] = receipt.to_json()
    path = table / "_delta_log" / f"{version:020d}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(json.dumps(a) + "\n" for a in ({"commitInfo": about}, *actions)), encoding="utf-8"
    )
    return path


def commit_days(table: Path, version: int, *numbers: int, **facts: Any) -> None:
    """Write a commit of ours by hand, with `version` rows on each of these days."""
    days = {day(n): DayEntry(version, f"content-{version}", f"digest-{version}") for n in numbers}
    make_commit(table, version, receipt(days=days, write_id=f"write-{version}", **facts))


def landed_day(names: Collection[str], usable_rows: int) -> LandedDay:
    """A day on which contents of these names landed, with their usable rows."""
    return LandedDay(len(names), digest_of(sorted(names)), usable_rows, frozenset(names))


def write_rows(
    table: Path,
    made: Contract,
    rows: Sequence[Mapping[str, Any]],
    receipt: Receipt | None = None,
    where: str = "",
) -> None:
    """Write rows to a real Delta table of a contract, without a JVM (the product itself only reads
    this way): in place of those for which `where` holds, else beside all others."""
    import pyarrow as pa
    from deltalake import CommitProperties, write_deltalake

    from backfill_assets.kernel.tables.columns import arrow_type

    schema = pa.schema([pa.field(c.name, arrow_type(c.kind), c.nullable) for c in made.columns])
    layout = [made.partition_column] if made.partition_column else None
    said = (
        CommitProperties(custom_metadata={"userMetadata": receipt.to_json()}) if receipt else None
    )
    data = pa.Table.from_pylist([dict(r) for r in rows], schema)
    if where and (table / "_delta_log").exists():
        write_deltalake(table, data, mode="overwrite", predicate=where, commit_properties=said)
    else:
        write_deltalake(table, data, mode="append", partition_by=layout, commit_properties=said)


def add(
    value: str | None, column: str = "event_date", *, data_change: bool = True
) -> dict[str, Any]:
    """An `add` action for a file of the partition `column=value`."""
    facts = {"path": "x.parquet", "size": 1, "modificationTime": 0}
    return {"add": {**facts, "partitionValues": {column: value}, "dataChange": data_change}}


@dataclass
class Story:
    """A lake in memory. Each verb does what its namesake in the kernel leaves behind, in receipts
    and ledgers."""

    as_of: datetime | None = None
    grace: timedelta = timedelta()
    start: date = START
    codes: dict[str, Codes] = field(default_factory=lambda: {c.name: CODE for c in CONTRACTS})
    landed: dict[date, LandedDay] = field(default_factory=dict)
    ledger: dict[date, dict[date, str]] = field(default_factory=dict)
    tables: dict[str, TableView] = field(default_factory=dict)
    writes: int = 0
    contracts: tuple[Contract, ...] = CONTRACTS

    def view(self) -> LakeView:
        """The lake as `kernel.tables.view` would read it now."""
        arrivals = {d: tuple(sorted(rows.items())) for d, rows in self.ledger.items() if rows}
        delivered = {"raw": Deliveries(dict(self.landed), arrivals)}
        return LakeView(self.start, self.as_of, self.grace, dict(self.tables), delivered)

    def states(self) -> States:
        """The states of all its days."""
        return States(self.contracts, self.view(), self.codes)

    def state(self, table: str, of: date) -> State:
        """The state of one day."""
        return self.states().of(table, of)

    def digest(self, table: str, of: date) -> str:
        """Today's input digest of one day."""
        return self.states().digests.of(table, of)

    def frontier(self) -> datetime | None:
        """The frontier now."""
        return frontier_of(self.view().source("raw"))

    def land(self, arrival: date, *shas: str, usable: int = 1) -> "Story":
        """Files with these contents land, each with `usable` usable rows of that arrival day."""
        before = self.landed.get(arrival, landed_day((), 0))
        names = before.names or frozenset()
        new = frozenset(shas) - names
        self.landed[arrival] = landed_day(names | new, before.usable_rows + usable * len(new))
        return self

    def load(
        self, *arrivals: date, touching: Iterable[date] | None = None, finish: bool = True
    ) -> "Story":
        """Load raw days; each touches its own event day, or `touching`. `finish=False`: killed
        before `arrivals`."""
        for arrival in arrivals:
            view = self.view()
            landed = self.landed.get(arrival) if view.is_due(arrival) else None
            rows = landed.usable_rows if landed else 0
            said = "+".join(sorted(landed.names or ())) if landed and rows else "0"
            self.receipt(
                "raw", arrival, DayEntry(rows, said, raw_digest(arrival, view.source("raw")))
            )
            rejected = self.tables.get("quarantine", TableView())
            self.tables["quarantine"] = replace(rejected, foreign=rejected.foreign - {arrival})
            for event in [arrival] if touching is None else touching:
                self.ledger.setdefault(event, {}).pop(arrival, None)
                if rows:
                    self.ledger[event][arrival] = said
        return self.finish() if finish else self

    def finish(self) -> "Story":
        """Commit `arrivals`: it names raw's head, and the frontier that follows. What others did to
        it is undone."""
        before, head = self.tables.get("arrivals", TableView()), self.tables["raw"].version
        named = replace(
            before, version=before.version + 1, inputs={"raw": head}, foreign=frozenset()
        )
        self.tables["arrivals"] = named
        self.tables["arrivals"] = replace(named, frontier=self.frontier())
        return self

    def build(
        self, table: str, *days: date, rows: int = 1, content: str = "", built: Built | None = None
    ) -> "Story":
        """Build days from today's inputs. Their content is what the inputs say, unless `content` is
        given."""
        states = self.states()
        for d in days:
            digest = states.digests.of(table, d)
            said = built or states.built_as(table, d)
            filled = 0 if said is Built.PENDING else rows
            self.receipt(
                table, d, DayEntry(filled, (content or digest) if filled else "0", digest, said)
            )
        return self

    def build_all(self, *days: date) -> "Story":
        """Build days of every table but raw, upstream first."""
        for made in self.contracts[1:]:
            self.build(made.name, *days)
        return self

    def receipt(self, table: str, of: date, entry: DayEntry) -> "Story":
        """Commit a receipt for one day of a table."""
        self.writes += 1
        before, codes = self.tables.get(table, TableView()), self.codes.get(table, CODE)
        version = before.version + 1
        new = DayReceipt(
            entry,
            version,
            f"write-{self.writes}",
            codes.code_digest,
            codes.settings_digest,
            "run",
            self._made_with(table),
        )
        latest = {**before.latest, of: new}
        self.tables[table] = replace(
            before, version=version, latest=latest, foreign=before.foreign - {of}
        )
        return self

    def _made_with(self, table: str) -> str:
        contract = next((c for c in self.contracts if c.name == table), None)
        settings_alone = LakeView(
            self.start, self.as_of, self.grace, {}, {}
        )  # all that is asked of it, for each receipt
        return todays_parameters(contract, settings_alone).to_json() if contract else ""

    def rewrite(self, table: str, of: date, **changes: Any) -> "Story":
        """Commit the newest receipt of a day again, with other facts (a rollback:
        `built=Built.HELD`)."""
        return self.receipt(table, of, replace(self.tables[table].latest[of].entry, **changes))

    def edit(self, table: str, *days: date) -> "Story":
        """A commit that is not ours touches days."""
        before = self.tables[table]
        self.tables[table] = replace(
            before, version=before.version + 1, foreign=before.foreign | set(days)
        )
        return self


def loaded(days: int, **facts: Any) -> Story:
    """A lake whose first days each landed one file and are loaded."""
    story = Story(**facts)
    for n in range(days):
        story.land(day(n), f"file-{n}")
    return story.load(*map(day, range(days)))
