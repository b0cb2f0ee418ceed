"""The standing proof draws days by the date, waits until the load has paid for it, and names days
that differ until they are mended.
Not here: computing again (`test_prove`)."""

import time
from dataclasses import asdict
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.compare.differences import DayDifference
from backfill_assets.compare.prove import ProofRequest, keep_proof, prove_days, why_not_due
from backfill_assets.compare.recompute import Recomputation, Recomputed, RecomputeVerdict
from backfill_assets.compare.settings import ProofSettings
from backfill_assets.kernel.core.clock import utc_now
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.core.receipts import DayEntry, Provenance
from backfill_assets.kernel.tables.folder import RECONCILED
from backfill_assets.kernel.tables.home import Lake
from backfill_assets.kernel.write.model import Pipeline
from backfill_assets.kernel.write.replace import Write, replace_days
from backfill_assets.reading.attention import sensor_alarms
from backfill_assets.reading.proofs import EQUAL, PROOFS, Proof, failed_proofs, proof_alarms
from backfill_assets_tests.builders import day
from backfill_assets_tests.files import bare_lake, write_json
from backfill_assets_tests.reading.test_check_history import PIPELINE, TABLE

pytestmark = pytest.mark.quick
DAYS, TODAY = 20, date(2024, 5, 1)


def write(lake: Lake, days: list[int], seconds: float) -> None:
    """A receipt over empty days that says that their write took so long."""
    entries = {day(d): DayEntry(0, "0", f"{seconds}") for d in days}
    began = Provenance("test", began=time.monotonic() - seconds)
    replace_days(
        lake, Write(TABLE, None, entries, -1, began), lambda of: dict.fromkeys(of, f"{seconds}")
    )


def outcome(days: list[date], *, equal: bool) -> Recomputation:
    differing = () if equal else tuple(DayDifference(d, 1, 1, 0, 0, 1, {"n": 1}) for d in days)
    return Recomputation(
        (RecomputeVerdict("t", tuple(Recomputed(d, 1, 1, equal) for d in days), differing),)
    )


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Twenty written days, two of which are proven a day."""
    made = bare_lake(tmp_path)
    write(made, list(range(DAYS)), 1.0)
    return with_proof(made, ProofSettings(days_per_day=2))


def prove(_: Lake, __: Pipeline, asked: ProofRequest) -> Recomputation:
    """Each day differs when it is computed again."""
    return outcome(list(asked.days or ()), equal=False)


def with_proof(lake: Lake, proof: ProofSettings) -> Lake:
    return Lake(lake.root, lake.settings.model_copy(update={"proof": proof}))


def test_the_date_draws_the_days_and_what_differs_needs_a_person_until_it_is_equal_or_written_again(
    lake: Lake,
) -> None:
    found = prove_days(lake, PIPELINE, TODAY, prove)
    assert [p.day for p in prove_days(lake, PIPELINE, TODAY, prove)] == [p.day for p in found]
    assert [p.day for p in prove_days(lake, PIPELINE, date(2024, 5, 2), prove)] != [
        p.day for p in found
    ]
    first, second = (date.fromisoformat(p.day) for p in found)
    line = (
        f"t {first} differs when computed again from the same inputs: 0 added, 0 removed, 1 "
        "changed, in n. Once mended:"
    )
    assert any(text.startswith(line) for text in proof_alarms(lake, PIPELINE).values())
    keep_proof(lake, PIPELINE, outcome([first], equal=True))
    assert str(first) not in str(failed_proofs(lake, PIPELINE))
    write(lake, [(second - day(0)).days], 2.0)
    assert not {str(first), str(second)} & {
        p.day for p in failed_proofs(lake, PIPELINE).get("t", ())
    }
    assert not {f"proof t {first}", f"proof t {second}"} & {*proof_alarms(lake, PIPELINE)}
    assert sensor_alarms(lake.root) == [], "nothing is kept that the next write would have to end"


def test_it_waits_until_its_share_of_the_load_has_paid_for_the_last_one(lake: Lake) -> None:
    assert why_not_due(with_proof(lake, ProofSettings()), PIPELINE) == "[proof] days_per_day is 0"
    assert not why_not_due(lake, PIPELINE), "the first one is due at once"
    last = [
        asdict(Proof("t", str(day(d)), utc_now().isoformat(), EQUAL, seconds=s))
        for d, s in ((1, 1.0), (2, 3.0))
    ]
    last[0]["at"] = last[1]["at"]
    write_json(lake.root / RECONCILED / PROOFS, {"proofs": last})
    assert "took 4.0 s and writes since then 0.0 s; the next is due after 400 s" in why_not_due(
        lake, PIPELINE
    )
    write(lake, [1], 300.0)
    assert why_not_due(lake, PIPELINE)
    write(lake, [2], 101.0)
    assert not why_not_due(lake, PIPELINE)


def test_a_damaged_file_of_proofs_is_named_with_what_to_do(lake: Lake) -> None:
    for damaged in ({"proofs": 3}, {"proofs": [{"table": "t"}]}):
        write_json(lake.root / RECONCILED / PROOFS, damaged)
        with pytest.raises(BackfillError, match=r"proofs\.json: it is not what was.*Delete it"):
            failed_proofs(lake, PIPELINE)
