"""features_as_known: the contract of features, made from what was known at the cut.

Tested here: `pipeline.daily.features_as_known`. Not tested here: what was known at a cut
(`transforms`).
"""

from dataclasses import replace

from backfill_assets.kernel.core.contracts import Input, InputKind
from backfill_assets_tests.pipeline.built_in import contract
from backfill_assets_tests.pipeline.daily.test_features import DECLARED


def test_it_looks_at_the_days_that_features_look_at_as_known_at_the_cut_and_waits_for_it() -> None:
    assert contract("features_as_known").inputs == (
        Input("staging", before=27, kind=InputKind.KNOWN_AT_CUT),
    )
    for known, now in (
        (contract("features_as_known"), contract("features")),
        (DECLARED["features_as_known"], DECLARED["features"]),
    ):
        assert known.waits_for_cut
        same = replace(
            now,
            name=known.name,
            description=known.description,
            inputs=known.inputs,
            waits_for_cut=True,
        )
        assert known == same
