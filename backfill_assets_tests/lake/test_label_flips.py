"""Label flips against plain Python that looks at every version for every label, and against known answers. No JVM.

Tested here: `lake.label_flips`. Not tested here: which tables and which label it is asked of (`operations`).
"""

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.core.contracts import Column, Contract
from backfill_assets.core.days import ONE_DAY, midnight
from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.home import Lake
from backfill_assets.lake.label_flips import (
    MATURITIES_DAYS,
    Flip,
    LabelQuestion,
    LabelTerm,
    count_flips,
    declared_label,
    question_by_rule,
)
from backfill_assets.lake.settings import LabelSettings
from backfill_assets.pipeline import contracts
from backfill_assets_tests.builders import write_rows
from backfill_assets_tests.files import bare_lake
from backfill_assets_tests.pipeline import built_in

FIRST, ENTITY, HORIZON = date(2024, 2, 26), ("shop", "day"), 3
TYPES = {
    "event_key": "STRING", "event_ts": "TIMESTAMP", "shop": "STRING", "day": "INT", "total": "DECIMAL(18,2)",
    "size": "DOUBLE", "known_from": "TIMESTAMP", "known_until": "TIMESTAMP", "event_date": "DATE",
}  # fmt: skip
COLUMNS = tuple(Column(name, kind, name, nullable=name != "event_date") for name, kind in TYPES.items())
VERSIONS = Contract("seen", "versions", COLUMNS, "event_date", (), ())
ASKED = Contract(
    "who", "asked",
    (Column("shop", "STRING", "s"), Column("day", "INT", "d"), Column("feature_date", "DATE", "d")),
    "feature_date", ENTITY, (),
)  # fmt: skip
AS_KNOWN = built_in.contracts()["features_as_known"]
AHEAD, BEHIND = (-HORIZON, -1), (0, HORIZON - 1)
LABEL = LabelQuestion(
    ENTITY,
    (
        LabelTerm("sum_ahead", "sum", "total", "DECIMAL(18,2)", 9, *AHEAD),
        LabelTerm("sum_behind", "sum", "if(total < 0, NULL, total)", "DECIMAL(18,2)", 9, *BEHIND),
        LabelTerm("max_ahead", "max", "size", "DOUBLE", 9, *AHEAD),
    ),
    "sum_ahead > 2 * sum_behind OR max_ahead > 4.5D",
    HORIZON,
)


BUILT_IN = (contracts.staging(), 0), (AS_KNOWN, 0)


def version(number: int, entity: str | None, day: date, known: tuple[datetime, datetime | None], value: int = 1) -> Any:
    """A row of staging; its flag is 1 for odd values."""
    return {
        "event_key": f"k{number}", "event_ts": midnight(day), "entity": entity, "value": value, "flag": value % 2,
        "version_ts": known[0], "seq": number, "known_from": known[0], "known_until": known[1], "event_date": day,
    }  # fmt: skip


def asked(entity: str, day: date) -> dict[str, Any]:
    numbers = ("events_short", "events_long", "value_short", "value_long", "flagged_long", "days_since_last")
    return {"entity": entity, **dict.fromkeys(numbers, 1), "feature_date": day}


def table(folder: Path, contract: Contract, rows: Iterable[Mapping[str, Any]]) -> Lake:
    """A lake with a table of that contract at its first version."""
    lake = bare_lake(folder)
    write_rows(lake.table_path(contract.name), contract, list(rows))
    return lake


def _declared_version(number: int, since: datetime) -> dict[str, Any]:
    known = since + ONE_DAY * random.choice((-9, -1, 0, 1))
    until = random.choice((None, None, known + ONE_DAY, since if since > known else None))
    day = FIRST + ONE_DAY * random.randrange(24)
    return {
        "event_key": f"k{number}", "event_ts": midnight(day) + timedelta(hours=1), "shop": random.choice("ab"),
        "day": random.choice((1, 2, None)), "total": Decimal(random.randrange(-300, 900)) / 100,
        "size": random.choice((1.0, 4.75, None)), "known_from": known, "known_until": until, "event_date": day,
    }  # fmt: skip


def _is(who: tuple[str, int], day: date, known: list[dict[str, Any]]) -> bool:
    mine = [(r, (r["event_date"] - day).days) for r in known if (r["shop"], r["day"]) == who]
    ahead = [r for r, far in mine if 1 <= far <= HORIZON]
    behind = [r for r, far in mine if 1 - HORIZON <= far <= 0]
    spent = sum((r["total"] for r in behind if r["total"] >= 0), Decimal(0))
    sizes = [r["size"] for r in ahead if r["size"] is not None]
    return sum((r["total"] for r in ahead), Decimal(0)) > 2 * spent or max(sizes, default=0) > 4.5


def test_flips_of_a_declared_label_are_what_looking_at_every_version_gives(tmp_path: Path) -> None:
    random.seed(5)
    since = datetime(2024, 3, 22, tzinfo=UTC)
    versions = [_declared_version(n, since) for n in range(150)]
    rows = [((shop, day), FIRST + ONE_DAY * n) for shop in "ab" for day in (1, 2) for n in range(0, 24, 2)]
    lake = bare_lake(tmp_path)
    write_rows(lake.table_path(VERSIONS.name), VERSIONS, versions)
    asked = [{"shop": shop, "day": day, "feature_date": d} for (shop, day), d in rows]
    write_rows(lake.table_path(ASKED.name), ASKED, asked)
    now = [r for r in versions if r["known_until"] is None]
    then = [r for r in versions if r["known_from"] < since and (r["known_until"] or since) >= since]
    expected = []
    for maturity in MATURITIES_DAYS:
        ripe = [(who, d) for who, d in rows if midnight(d + ONE_DAY * (1 + HORIZON + maturity)) <= since]
        expected.append(Flip(maturity, len(ripe), sum(_is(*r, now) != _is(*r, then) for r in ripe)))
    found = count_flips(lake, LABEL, ((VERSIONS, 0), (ASKED, 0)), since)
    assert found == tuple(expected)
    assert found[0].flipped, "the case must have something to find"
    strange = replace(LABEL, condition="no_such_function(sum_ahead)")
    with pytest.raises(BackfillError, match=r"cannot be asked without Spark.*were not counted"):
        count_flips(lake, strange, ((VERSIONS, 0), (ASKED, 0)), since)


def test_only_tables_of_declared_labels_tell_one() -> None:
    assert declared_label({"horizon_days": 3}) is None
    value = {"of": None, "type": "INT", "where": None, "scale": 9}
    told = {"entity": ["e"], "terms": [["n", "count", value, [-2, -1]]], "condition": "n > 0", "horizon_days": 2}
    assert declared_label(told) == LabelQuestion(("e",), (LabelTerm("n", "count", "1", "INT", 9, -2, -1),), "n > 0", 2)


@pytest.mark.parametrize(("measure", "rule"), [("events", "any"), ("value", "rise"), ("flag", "rise")])
def test_flips_are_what_counting_each_label_twice_gives(tmp_path: Path, measure: Any, rule: Any) -> None:
    random.seed(11)
    labels = LabelSettings(measure=measure, rule=rule, horizon_days=3)
    since = midnight(FIRST + ONE_DAY * 25)
    staging = [_random_version(number, since) for number in range(120)]
    rows = [(entity, FIRST + ONE_DAY * n) for entity in "ABC" for n in range(0, 24, 2)]
    table(tmp_path, contracts.staging(), staging)
    lake = table(tmp_path, AS_KNOWN, [asked(*r) for r in rows])

    def answer(entity: str, day: date, known: list[dict[str, Any]]) -> bool:
        def total(first: int, last: int) -> int:
            reach = [r for r in known if r["entity"] == entity and first <= (r["event_date"] - day).days <= last]
            return sum(1 if measure == "events" else r[measure] for r in reach)

        return total(1, 3) > (0 if rule == "any" else total(-2, 0))

    now = [r for r in staging if r["known_until"] is None]
    then = [r for r in staging if r["known_from"] < since and (r["known_until"] or since) >= since]
    expected = []
    for maturity in MATURITIES_DAYS:
        ripe = [(e, d) for e, d in rows if midnight(d + ONE_DAY * (4 + maturity)) <= since]
        expected.append(Flip(maturity, len(ripe), sum(answer(*r, now) != answer(*r, then) for r in ripe)))
    assert count_flips(lake, question_by_rule(labels), BUILT_IN, since) == tuple(expected)
    assert expected[0].flipped, "the case must have something to find"


def _random_version(number: int, since: datetime) -> Any:
    """A version that became known around `since`, at that very instant among others."""
    known = since + ONE_DAY * random.choice((-9, -1, 0, 1))
    until = random.choice((None, None, known + ONE_DAY, since if since > known else None))
    day = FIRST + ONE_DAY * random.randrange(24)
    return version(number, random.choice(("A", "B", "C", None)), day, (known, until), random.randrange(5))


def test_a_version_is_known_from_after_its_arrival_until_its_replacement_has_arrived(tmp_path: Path) -> None:
    since = midnight(FIRST + ONE_DAY * 9)
    table(tmp_path, AS_KNOWN, [asked(e, FIRST) for e in ("arrives at the instant", "is replaced at it")])
    rows = [
        version(0, "arrives at the instant", FIRST + ONE_DAY, (since, None)),
        version(1, "is replaced at it", FIRST + ONE_DAY, (midnight(FIRST), since)),
    ]
    lake = table(tmp_path, contracts.staging(), rows)
    label = question_by_rule(LabelSettings(horizon_days=1))
    assert count_flips(lake, label, BUILT_IN, since)[0] == Flip(0, 2, 2)


@pytest.mark.slow
def test_a_year_of_real_commits_gives_the_known_flips(tmp_path: Path, shared: Path) -> None:
    known = json.loads((shared / "data" / "openstack_changes" / "golden.json").read_text(encoding="utf-8"))
    lake = bare_lake(tmp_path)
    _golden_tables(tmp_path / "tables", known["sql"], shared)
    since = datetime.fromisoformat(known["params"]["T1"]).replace(tzinfo=UTC)
    label = question_by_rule(LabelSettings(horizon_days=known["params"]["H"]))
    turned = count_flips(lake, label, (_narrow(BUILT_IN[0][0]), _narrow(BUILT_IN[1][0])), since)
    assert {f"M={f.maturity_days}d": {"n": f.labels, "flipped": f.flipped} for f in turned} == known["golden"][
        "label_flips_T1_to_T_by_maturity_lag"
    ]


def _narrow(contract: Contract) -> tuple[Contract, int]:
    """The contract with the columns of the known answers alone, and the first version."""
    written = {"entity", "value", "flag", "event_date", "known_from", "known_until", "feature_date"}
    kept = tuple(c for c in contract.columns if c.name in written)
    return replace(contract, columns=kept, key=(), inputs=(), rules=()), 0


def _golden_tables(folder: Path, sql: Mapping[str, str], shared: Path) -> None:
    """staging and features_as_known as the known answers' own SQL makes them, with the columns that are read."""
    import duckdb
    from deltalake import write_deltalake

    engine = duckdb.connect()
    engine.execute("SET TimeZone = 'UTC'")
    for step in ("deliveries_view", "winners", "days", "feat_pit"):
        engine.execute(sql[step].replace("$DATASETS", str(shared / "data")))
    queries = {
        "staging": "SELECT entity, value, flag, event_ts::DATE AS event_date, arrival_ts::TIMESTAMPTZ AS known_from, "
        "valid_to::TIMESTAMPTZ AS known_until FROM win WHERE op <> 'delete'",
        "features_as_known": "SELECT entity, d AS feature_date FROM feat_pit",
    }
    for name, query in queries.items():
        day = "event_date" if name == "staging" else "feature_date"
        write_deltalake(folder / name, engine.sql(query).to_arrow_table(), partition_by=[day])
