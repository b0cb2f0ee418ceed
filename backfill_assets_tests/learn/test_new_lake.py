"""The text of a new lake.toml: what it spells out, what it only shows, and what is refused before it
is written. Not here: the command that writes it (`learn.test_init_command`)."""

import re
import tomllib
from datetime import date
from typing import Any

import pytest

from backfill_assets import LakeSettings
from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.kernel.tables.gate_bounds import ColumnGate, TableGate
from backfill_assets.learn.new_lake import commented_bounds, lake_toml
from backfill_assets.pipeline.tables import tables

VALUES: dict[str, Any] = {
    "start_date": date(2024, 3, 1),
    "files": "landing/**",
    "format": "jsonl",
    "select": "seq, 'ä\"' AS op",
}


def test_what_it_spells_out_is_what_a_lake_without_these_keys_has_and_no_other_is_written() -> None:
    spelled = LakeSettings.model_validate(tomllib.loads(lake_toml(VALUES)))
    source = {k: VALUES[k] for k in ("files", "format", "select")}
    assert spelled == LakeSettings.model_validate(
        {"start_date": VALUES["start_date"], "source": source}
    )
    for change, told in (
        ({"format": "xlsx"}, "source.format"),
        ({"start_date": "soon"}, "the new lake.toml"),
    ):
        with pytest.raises(BackfillError, match=told):
            lake_toml(VALUES | change)


def test_declared_features_and_the_label_that_are_commented_out_are_accepted() -> None:
    lines = lake_toml(VALUES).splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith("# [[features.columns]]"))
    end = next(n for n in range(begin, len(lines)) if not lines[n])
    declared = [line.removeprefix("# ") for line in lines[begin:end]]
    label = next(line.removeprefix("# ") for line in lines if line.startswith("# label ="))
    kept = [
        n
        for n in lines[:begin] + lines[end:]
        if not n.startswith(("windows_days", "measure =", "rule ="))
    ]
    place = kept.index("[labels]")
    text = "\n".join([*kept[:place], *declared, "[labels]", label, *kept[place + 1 :]])
    made = {t.name: t for t in tables(LakeSettings.model_validate(tomllib.loads(text)))}
    assert dict(made["features"].compiled)["spent_28d"].startswith(
        "sum(value) FILTER (WHERE (flag = 1))"
    )
    assert made["labels"].compiled["label"] == "sum_ahead > 2 * sum_behind"


def test_a_new_lake_shows_each_bound_with_an_example_that_is_one() -> None:
    for bounds in (TableGate, ColumnGate):
        shown = tomllib.loads(re.sub(r"(?m)^# ", "", commented_bounds(bounds)))
        assert shown.keys() == bounds.model_fields.keys() - {"columns"}
        bounds.model_validate(shown)
