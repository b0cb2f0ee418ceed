"""Each door of a lake says of every feature whether it has it; one that nobody named is refused. Not
here: what tables with it look like (`end_to_end.test_delta_features`)."""

import re

from backfill_assets.kernel.log.features import (
    FEATURES,
    IGNORED,
    READ,
    REFUSED,
    refused_features,
)
from backfill_assets_tests.sources import CHECKOUT, PACKAGE

GUIDE = CHECKOUT / PACKAGE / "guides" / "tables-of-others.md"
ROW = re.compile(
    r"^\| [^|]*\((?P<names>`[^|]*`)\) \| (?P<source>\w+)[^|]* \| (?P<input>\w+)[^|]* "
    r"\| (?P<adopted>\w+)[^|]* \|$"
)


def test_every_door_says_of_every_feature_what_it_makes_of_it() -> None:
    named = [feature.name for feature in FEATURES]
    assert len(named) == len({*named})
    said = {word for f in FEATURES for word in (f.source, f.input, f.adopted)}
    assert said == {READ, IGNORED, REFUSED}


def test_a_feature_that_nobody_named_is_refused_by_each_door() -> None:
    assert refused_features(["deletionVectors", "ofTomorrow"], "source") == ["ofTomorrow"]
    assert refused_features(["appendOnly", "ofTomorrow"], "adopted") == ["ofTomorrow"]


def test_what_an_adopted_table_cannot_keep_is_refused() -> None:
    asked = ["appendOnly", "columnMapping", "deletionVectors"]
    assert refused_features(asked, "adopted") == ["columnMapping", "deletionVectors"]


def test_the_guide_says_of_every_feature_what_each_door_makes_of_it() -> None:
    rows = [found for line in GUIDE.read_text("utf-8").splitlines() if (found := ROW.match(line))]
    told = [
        (name, row["source"], row["input"], row["adopted"])
        for row in rows
        for name in re.findall(r"`([^`]+)`", row["names"])
    ]
    assert sorted(told) == sorted((f.name, f.source, f.input, f.adopted) for f in FEATURES)
