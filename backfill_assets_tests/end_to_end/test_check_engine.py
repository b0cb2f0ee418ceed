"""Spark and Sail of each other: days that one made, computed again by the other.

A program of its own asks, with a server of Spark and one of Sail. What is asked without Spark is in `operations`.
"""

import json
from pathlib import Path

import pytest

from backfill_assets_tests.processes import run_python

BOTH = """
    import json, sys
    from pathlib import Path
    from backfill_assets.engine.server import stop_server
    from backfill_assets.engine.session import drop_session
    from backfill_assets.lake.model import make_pipeline
    from backfill_assets.operations.check_engine import check_engine, other_engine
    from backfill_assets.pipeline.tables import tables
    from backfill_assets_tests.lakes import backfill, delivery, make_lake

    def row(seq, arrived, event, key, entity="A", value=1, op="upsert"):
        return delivery(seq, f"{arrived}T10:00:00.123456Z", f"{event}T23:59:59.999999Z", key, op, entity, value)

    name = "\u00c4\u65e5"
    rows = [
        row(1, "1969-12-31", "1969-12-31", "a"),
        row(2, "1970-01-01", "1969-12-30", "b", value=2**62),
        row(3, "1970-01-02", "1969-12-31", "a", name, 2**62),
        row(4, "1970-01-02", "1970-01-01", "c", None),
        row(5, "1970-01-02", "1970-01-01", "d", name, 2**62),
        row(6, "1970-01-03", "1969-12-30", "b", op="delete"),
    ]
    told = {}
    for engine in ("sail", "embedded"):
        spark = {"engine": engine, "memory": "1g"} | ({"open_port": True} if engine == "sail" else {})
        lake = make_lake(Path(sys.argv[1]) / engine, rows, "1969-12-28", spark=spark)
        backfill(lake, "1969-12-28", "1970-01-03")
        drop_session(lake.root)
        stop_server(lake.root, force=True)
        report = check_engine(lake, make_pipeline(tables(lake.settings)), None, None, other_engine(lake))
        told[report.engine] = report.to_dict()
    json.dump(told, sys.stdout)
"""


@pytest.mark.usefixtures("processes")
def test_spark_and_sail_agree_on_what_the_other_made_before_1970_beyond_64_bits_and_without_an_entity(
    tmp_path: Path,
) -> None:
    told = json.loads(run_python(BOTH, tmp_path, timeout=400))
    assert {*told} == {"sail", "embedded"}
    for report in told.values():
        assert report["refused"] == []
        assert report["differing"] == 0, report
        assert report["compared"] >= 20
