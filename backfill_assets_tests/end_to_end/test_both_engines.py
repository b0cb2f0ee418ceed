"""What is declared, on Spark and on Sail: features and labels are equal on both, or refused by name on Sail.

Tested here: random declarations over awkward rows, arrays and bytes among them, in a program of its own that has a
session on either. Not tested here: whether Spark's answer is right (`pipeline.transforms.test_declared`).
"""

import json

import pytest

from backfill_assets_tests.processes import run_python
from backfill_assets_tests.strategies import examples

COLUMNS, EXAMPLES = 40, 4
ASKED = """
    import sys
    from backfill_assets_tests.second_engine_features import main
    main()
"""
OFTEN_REFUSED = {"avg of DECIMAL", "distinct", "cast as bigint"}


@pytest.mark.usefixtures("processes")
def test_random_declared_features_and_labels_are_equal_on_both_engines_or_refused_by_name() -> None:
    tried = examples(EXAMPLES)
    told = json.loads(run_python(ASKED, str(tried), str(COLUMNS), timeout=600))
    assert told["other"] == []
    assert told["labels"] > tried
    assert told["asked"] > tried * COLUMNS // 2
    assert told["refused"].keys() >= (OFTEN_REFUSED if tried == EXAMPLES else set())
