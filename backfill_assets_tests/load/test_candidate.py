"""A request signs what it writes with code, settings and the parameters it was made with, and logs give them back.

Tested here: `load.candidate`. Not tested here: what follows from parameters (`core.test_parameters`).
"""

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from backfill_assets.core.days import ONE_DAY, DayRange
from backfill_assets.core.digests import PARAMETERS, parameters_of, parse_parameters
from backfill_assets.core.engines import ENGINE
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.receipts import Receipt
from backfill_assets.lake.log_state import LOGS
from backfill_assets.lake.model import make_pipeline
from backfill_assets.lake.replace import Provenance
from backfill_assets.lake.session import LakeSession
from backfill_assets.load.candidate import VERSIONS, RebuildRequest
from backfill_assets_tests.builders import day, make_commit, receipt
from backfill_assets_tests.operations.synthetic import START, synthetic_lake


def test_receipts_carry_the_parameters_and_keep_their_other_tags(tmp_path: Path) -> None:
    lake, pipeline = synthetic_lake(tmp_path, 1)
    span = DayRange(START, START + ONE_DAY)
    for name in ("features", "labels"):
        said = Provenance("manual", tags={"plan": "p"})
        asked = RebuildRequest(LakeSession(lake), pipeline, pipeline.table(name), span, said)
        states = asked.states()
        tags = asked.signed(states, {}).tags or {}
        assert parse_parameters(tags[PARAMETERS]) == parameters_of(pipeline.table(name).contract, states.view)
        assert tags["plan"] == "p"
        assert f"duckdb {version('duckdb')}" in tags[VERSIONS].split(", ")
    landed = RebuildRequest(LakeSession(lake), pipeline, pipeline.table("raw"), span, Provenance("manual"))
    assert set(landed.signed(landed.states(), {}).tags or {}) == {ENGINE, VERSIONS}


def test_nothing_is_signed_by_code_that_changed_since_it_was_loaded(tmp_path: Path) -> None:
    lake, made = synthetic_lake(tmp_path, 1)
    source = tmp_path / "own.py"
    source.write_text("x = 1\n")
    tables = [replace(t, sources=(source,)) if t.name == "features" else t for t in made.tables]
    pipeline, span = make_pipeline(tables), DayRange(START, START + ONE_DAY)
    features, labels = (
        RebuildRequest(LakeSession(lake), pipeline, pipeline.table(name), span, Provenance("manual"))
        for name in ("features", "labels")
    )
    states = features.states()
    assert features.signed(states, {}).code_digest == pipeline.codes["features"].code_digest
    source.write_text("x = 2\n")
    with pytest.raises(BackfillError, match=r"the code of features: \S+own\.py changed"):
        features.signed(states, {})
    labels.signed(states, {})


def test_a_log_gives_every_day_the_parameters_of_its_newest_receipt(tmp_path: Path) -> None:
    one: Receipt = receipt(tags={PARAMETERS: "one"})
    make_commit(tmp_path, 0, one)
    assert LOGS.state(tmp_path, "event_date").stamps[day(0)].parameters == "one"
    make_commit(tmp_path, 1, replace(one, tags={}))
    assert LOGS.state(tmp_path, "event_date").stamps[day(0)].parameters == ""
