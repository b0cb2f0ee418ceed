"""The way of one day as callers see its failures: refusals with days and keys, strays, and inputs
that moved meanwhile. Not here: runs of Dagster (`dagster.adapter.test_runs`), and refusals as
people meet them (`end_to_end.test_fault_refusals`)."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, NoReturn

import pytest
import stamina

from backfill_assets.engines.lake_session import LakeSession
from backfill_assets.kernel.core.days import ONE_DAY, DayRange
from backfill_assets.kernel.core.errors import ContractBroken, Superseded
from backfill_assets.kernel.core.profiles import DayProfile, Finding
from backfill_assets.kernel.core.receipts import Provenance
from backfill_assets.kernel.write.candidate import RebuildRequest
from backfill_assets.kernel.write.gates import READS, ROW_COUNT, UNIQUE_KEY
from backfill_assets.kernel.write.known import KnownStates
from backfill_assets.kernel.write.rebuild import SUPERSEDED_ATTEMPTS, Rebuild
from backfill_assets_tests.files import stage_by_hand
from backfill_assets_tests.synthetic import START, synthetic_lake

SPAN = DayRange(START, START + ONE_DAY * 2)
NEXT = START + ONE_DAY * 2
FAR = "0001-01-01 (BC)"  # DuckDB's words for a day of which Python has no date


@pytest.fixture
def rebuild(tmp_path: Path) -> Rebuild:
    """Of two days of staging that are settled, so that nothing is to be computed."""
    lake, pipeline = synthetic_lake(tmp_path / "lake", 2)
    known = KnownStates(lake, pipeline)
    consumer_queries = RebuildRequest(
        LakeSession(lake), known, pipeline.table("staging"), SPAN, Provenance("manual")
    )
    return Rebuild(consumer_queries)


@pytest.fixture
def at_once() -> Iterator[None]:
    """Attempts without pauses."""
    with stamina.set_testing(True, attempts=SUPERSEDED_ATTEMPTS, cap=True):
        yield


def refusing(check: str, day: date) -> Finding:
    return Finding(check, day, passed=False, refuses=True, message="it is wrong")


def test_settled_days_are_judged_by_their_receipts_and_published_without_a_commit(
    rebuild: Rebuild,
) -> None:
    with pytest.raises(RuntimeError, match="prepare the rebuild first"):
        _ = rebuild.ready
    assert rebuild.days == SPAN
    findings = rebuild.prepare()
    assert {f.day for f in findings} == set(SPAN)
    assert not any(f.refuses for f in findings)
    assert not rebuild.publish().write_id
    assert list(rebuild.request.phases.seconds())[-2:] == ["gate", "publish"]


@dataclass
class Overtaken(Rebuild):
    """A rebuild whose inputs move while it is prepared, the first `times` times."""

    times: int = 0
    released: int = 0

    def prepare(self) -> list[Finding]:
        findings = super().prepare()
        if self.times:
            self.times -= 1
            self.candidate = replace(self.ready, commit=self._superseded, release=self._released)
        return findings

    def _superseded(self, kept_back: Collection[date] = ()) -> NoReturn:
        raise Superseded("the table staging", "newer inputs", "Nothing was written", "Wait")

    def _released(self) -> None:
        self.released += 1


def test_newer_inputs_are_prepared_again_and_what_older_ones_gave_is_freed(
    rebuild: Rebuild, at_once: None
) -> None:
    overtaken = Overtaken(rebuild.request, times=SUPERSEDED_ATTEMPTS - 1)
    overtaken.prepare()
    assert not overtaken.publish().write_id
    assert overtaken.released == SUPERSEDED_ATTEMPTS - 1
    restless = Overtaken(rebuild.request, times=SUPERSEDED_ATTEMPTS + 1)
    restless.prepare()
    with pytest.raises(Superseded):
        restless.publish()
    assert restless.times == 1


def test_a_refusal_names_days_check_keys_and_the_next_command(rebuild: Rebuild) -> None:
    rebuild.prepare()
    contract = rebuild.table.contract
    row = dict.fromkeys(contract.column_names) | {"event_key": "twice", contract.day_column: START}
    staged = stage_by_hand(rebuild.request.lake_session.lake, contract, [row, row])
    rebuild.candidate = replace(rebuild.ready, staged=staged)
    rebuild.findings = [refusing(UNIQUE_KEY, START), refusing(UNIQUE_KEY, START + ONE_DAY)]
    told = rebuild.refusal()
    assert "unique_key fails on 2 of 2 day(s)" in told.culprit
    assert '; for example {"event_key":"twice",' in told.culprit
    assert told.fix.endswith(
        f"`backfill-assets backfill --from {START} --to {START + ONE_DAY} --tables staging`"
    )
    assert rebuild.sample_keys(refusing(ROW_COUNT, START)) == [], "no row by itself breaks it"


@pytest.mark.parametrize(
    ("strays", "told", "advice"),
    [
        ({NEXT: 2}, f"2 row(s) of {NEXT}", f"run the range {START}..{NEXT}"),
        ({None: 3}, "3 row(s) without a day", "correct it"),
        ({FAR: 1, NEXT: 2}, f"3 row(s) of {FAR}..{NEXT}", f"run the range {FAR}..{NEXT}"),
        ({NEXT: 1, None: 1}, f"1 row(s) of {NEXT} and 1 row(s) without a day", f"{START}..{NEXT}"),
    ],
)
def test_rows_that_nobody_asked_for_are_told_with_the_range_that_would_hold_them(
    rebuild: Rebuild, strays: dict[Any, int], told: str, advice: str
) -> None:
    rebuild.prepare()
    profiles = {**rebuild.ready.profiles, **{d: DayProfile(n, "F") for d, n in strays.items()}}
    rebuild.candidate = replace(rebuild.ready, profiles=profiles)
    with pytest.raises(ContractBroken) as refused:
        rebuild._refuse_other_days()
    assert refused.value.culprit.endswith(f"the transform gave {told}")
    assert refused.value.fix.endswith(advice)


def test_a_read_of_a_consumer_that_fails_with_new_rows_refuses_their_days_alone(
    rebuild: Rebuild,
) -> None:
    rebuild.prepare()
    request, lake = rebuild.request, rebuild.request.lake_session.lake
    read = "SELECT CAST(event_key AS INTEGER) FROM staging"
    contract = replace(rebuild.table.contract, consumer_queries=(read,))
    row = dict.fromkeys(contract.column_names) | {"event_key": "twelve", contract.day_column: START}
    rebuild.request = replace(request, table=replace(request.table, contract=contract))
    rebuild.candidate = replace(
        rebuild.ready,
        staged=stage_by_hand(lake, contract, [row]),
        settled=frozenset({START + ONE_DAY}),
    )
    (lake.table_place("staging").local() / f"event_date={START + ONE_DAY}/part-1.parquet").unlink()
    found = {f.day: f for f in rebuild._judge_days(SPAN) if f.check == READS}
    assert (found[START].refuses, found[START + ONE_DAY].refuses) == (True, False)
    assert f"the read `{read}` fails: " in found[START].message
