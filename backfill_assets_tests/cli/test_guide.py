"""`backfill-assets guide` lists the guides and prints one of them, for people and for programs. No JVM.

Tested here: the command. Not here: whether the guides are right (`test_guides`, `end_to_end.test_guide_steps`).
"""

import json

from click.testing import CliRunner, Result

from backfill_assets.cli.app import app
from backfill_assets.cli.guide import FIRST, guides


def _guide(*words: str) -> Result:
    return CliRunner().invoke(app, ["guide", *words])


def test_the_list_has_one_line_for_each_guide_in_the_order_in_which_to_read_them() -> None:
    lines = _guide().stdout.splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == list(guides())
    assert tuple(guides())[: len(FIRST)] == FIRST, "every guide of the first reading exists"
    assert list(json.loads(_guide("--json").stdout)) == list(guides())


def test_a_guide_is_printed_as_it_stands() -> None:
    text = guides()["trust"].read_text(encoding="utf-8")
    assert _guide("trust").stdout == text
    assert json.loads(_guide("trust", "--json").stdout) == {"guide": "trust", "text": text}


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    result = _guide("nothing")
    assert result.exit_code == 2
    assert "Take one of first-lake, own-files" in result.stderr
