"""Tables of text on a page: every cell escaped, the command named.

Tested here: `cli.rows_page`. Not tested here: what the tables say (`test_audit`, `test_compare`).
"""

from backfill_assets.cli.rows_page import TextTable, page


def test_whatever_a_cell_holds_is_shown_and_never_obeyed() -> None:
    made = page("audit", "Audit", "/lake", ["one line"], [TextTable("Writes", ("note",), [("<script>",)])])
    assert "&lt;script&gt;" in made
    assert "<script>" not in made
    assert "audit --html" in made
