"""An independent opinion on days that were made: by an engine of its own, from what their receipts
name.

Programs of their own ask, because sessions of Spark Connect need one; the other engine here is Sail
again, which starts at once. Both directions between Spark and Sail are in `end_to_end`.
"""

import json
from pathlib import Path

import pytest

from backfill_assets_tests.processes import run_python

ASKED = """
    import json, sys
    from dataclasses import replace
    from pathlib import Path
    from pyspark.sql import functions as F
    from backfill_assets.kernel.core.days import inclusive_range, parse_day
    from backfill_assets.engines.server import stop_server
    from backfill_assets.engines.session import drop_session
    from backfill_assets.engines.supervisor import ServerFolder
    from backfill_assets.kernel.write.model import make_pipeline
    from backfill_assets.compare.prove import check_engine
    from backfill_assets.pipeline.tables import tables
    from backfill_assets_tests.lakes import backfill, delivery, land, make_lake, snapshot

    def row(seq, arrived, event, key, entity="A", value=1):
        return delivery(seq, f"{arrived}T10:00:00Z", f"{event}T09:00:00Z", key, entity=entity, value=value)

    rows = [row(1, "2024-03-01", "2024-03-01", "a"), row(2, "2024-03-01", "2024-02-29", "b", value=-(2**62)),
            row(3, "2024-03-02", "2024-03-01", "a", "\u00c4", 2**62), row(4, "2024-03-02", "2024-03-02", "c", None)]
    lake = make_lake(Path(sys.argv[1]), rows, "2024-02-28", spark={"engine": "sail", "memory": "1g", "open_port": True})
    pipeline = make_pipeline(tables(lake.settings))
    backfill(lake, "2024-02-28", "2024-03-02")
    before = snapshot(lake)
    told = {"fresh": check_engine(lake, pipeline, None, None, "sail").to_dict()}
    land(lake, "late.jsonl", [row(5, "2024-03-03", "2024-03-01", "a", "B", 7)])
    backfill(lake, "2024-02-28", "2024-03-03", ["raw", "staging"])
    features = inclusive_range(parse_day("2024-02-28"), parse_day("2024-03-02"))
    told["what came since"] = check_engine(lake, pipeline, features, ["features"], "sail").to_dict()

    def otherwise(table):
        if table.name != "features":
            return table
        made = table.transform
        change = F.when(F.col("feature_date") == "2024-03-01", F.col("value_short") + 1).otherwise(F.col("value_short"))
        return replace(table, transform=lambda frames, chunk: made(frames, chunk).withColumn("value_short", change))

    other = replace(pipeline, tables=tuple(map(otherwise, pipeline.tables)))
    drop_session(lake.root)
    stop_server(lake.root, force=True)
    told["otherwise"] = check_engine(lake, other, features, ["features"], "sail").to_dict()
    told["a server of the lake"] = ServerFolder.of(lake.root).record() is not None
    told["untouched"] = snapshot(lake)["features"] == before["features"]
    named = "".join(c.read_text() for c in (lake.tables / "features/_delta_log").glob("*.json"))
    told["left over"] = [str(p) for p in (lake.tables / "features").rglob("*.parquet")
                         if p.name not in named and "_delta_log" not in p.parts]
    drop_session(lake.root)
    stop_server(lake.root, force=True)
    json.dump(told, sys.stdout)
"""


@pytest.mark.usefixtures("processes")
def test_days_are_computed_again_from_the_inputs_of_their_receipts_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    told = json.loads(run_python(ASKED, tmp_path))
    assert told["fresh"]["differing"] == 0
    assert told["fresh"]["refused"] == [], told
    assert {
        t["table"] for t in told["fresh"]["tables"] if any(not d["passed_over"] for d in t["days"])
    } == {"raw", "staging", "features", "features_as_known", "labels", "training"}
    assert (told["what came since"]["compared"], told["what came since"]["differing"]) == (4, 0)
    (features,) = told["otherwise"]["tables"]
    assert [d["day"] for d in features["days"] if not d["equal"]] == ["2024-03-01"]
    assert [set(d["columns"]) for d in features["differing"]] == [{"value_short"}]
    assert features["samples"][0]["key"]
    assert not told["a server of the lake"], "the opinion is an engine's of its own"
    assert told["untouched"]
    assert told["left over"] == []
