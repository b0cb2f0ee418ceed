"""The text of a new `lake.toml`: accepted as it is written, and refused before anybody writes it.

Tested here: `lake.settings.lake_toml`. Not tested here: the command (`cli.test_init`) and the keys' own rules
(`lake.test_settings`).
"""

import re
import tomllib
from datetime import date
from typing import Any

import pytest

from backfill_assets.core.errors import BackfillError
from backfill_assets.lake.settings import TEMPLATE, LakeSettings, lake_toml
from backfill_assets.pipeline.tables import tables

VALUES: dict[str, Any] = {
    "start_date": date(2024, 3, 1), "files": "landing/**", "format": "jsonl", "select": "seq, 'ä\"' AS op",
}  # fmt: skip


def test_what_it_spells_out_is_what_a_lake_without_these_keys_has() -> None:
    spelled = LakeSettings.model_validate(tomllib.loads(lake_toml(VALUES)))
    source = {k: VALUES[k] for k in ("files", "format", "select")}
    bare = LakeSettings.model_validate({"start_date": VALUES["start_date"], "source": source})
    assert spelled == bare


def test_every_section_of_the_settings_is_in_it() -> None:
    told = set(re.findall(r"^#? ?\[(\w+)", TEMPLATE.read_text("utf-8"), re.MULTILINE))
    sections = {n for n, f in LakeSettings.model_fields.items() if hasattr(f.annotation, "model_fields")}
    assert sections <= told


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"format": "xlsx"}, "source.format"),
        ({"windows_days": [28, 7]}, "windows_days"),
        ({"start_date": "soon"}, "the new lake.toml"),
        ({"files": ""}, "files"),
    ],
)
def test_what_would_not_be_accepted_is_refused_and_says_that_nothing_was_written(
    change: dict[str, Any], told: str
) -> None:
    with pytest.raises(BackfillError, match=told):
        lake_toml(VALUES | change)


def test_the_declared_features_and_the_label_that_are_commented_out_are_accepted_as_they_stand() -> None:
    lines = lake_toml(VALUES).splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith("# [[features.columns]]"))
    end = next(n for n in range(begin, len(lines)) if not lines[n])
    declared = [line.removeprefix("# ") for line in lines[begin:end]]
    label = next(line.removeprefix("# ") for line in lines if line.startswith("# label ="))
    kept = [n for n in lines[:begin] + lines[end:] if not n.startswith(("windows_days", "measure =", "rule ="))]
    place = kept.index("[labels]")
    text = "\n".join([*kept[:place], *declared, "[labels]", label, *kept[place + 1 :]])
    made = {t.name: t for t in tables(LakeSettings.model_validate(tomllib.loads(text)))}
    assert dict(made["features"].compiled)["spent_28d"].startswith("sum(value) FILTER (WHERE (flag = 1))")
    assert made["labels"].compiled["label"] == "sum_ahead > 2 * sum_behind"
