"""The text of a plan, read back as a tree: operators, calls and what columns were called at first.

Tested here: `core.plan_text` on plans as Spark prints them. Not tested here: what is refused (`core.test_unsteady`).
"""

from backfill_assets.core.plan_text import brackets, calls, names_in, outputs, parse_plan

PLAN = """== Parsed Logical Plan ==
'Project [*]

== Analyzed Logical Plan ==
entity: string, n: int
Filter (n#5 = 1)
+- Join Inner, (key#1 = key#7)
   :- Window [row_number() windowspecdefinition(key#1, specifiedwindowframe(RowFrame, 1, 1)) AS n#5], [key#1]
   :  +- Project [event_key#0 AS key#1, concat(a#2, , note: "
(") AS b#3]
   :     +- Relation [event_key#0,a#2] parquet
   +- Aggregate [key#7], [key#7, first(value#8L, false) AS first(value)#9L]
      +- Relation [key#7,value#8L] parquet

== Optimized Logical Plan ==
Project [rand(3) AS x#10]
"""


def test_the_tree_is_that_of_the_analysed_plan() -> None:
    root = parse_plan(PLAN)
    assert root is not None
    assert [node.operator for node in root.walk()] == [
        "Filter", "Join", "Window", "Project", "Relation", "Aggregate", "Relation",
    ]  # fmt: skip
    join = root.children[0]
    assert [c.operator for c in join.children] == ["Window", "Aggregate"]
    assert '\n(")' in join.children[0].children[0].line
    assert parse_plan("nothing of the kind") is None


def test_calls_are_told_apart_from_columns_that_are_named_like_calls() -> None:
    found = [(c.name, c.arguments, c.within, c.is_numbered) for c in calls("sort(first(v#8L, false)) AS first(v)#9L")]
    assert found == [
        ("sort", "first(v#8L, false)", (), False),
        ("first", "v#8L, false", ("sort",), False),
        ("first", "v", (), True),
    ]


def test_a_bracket_that_never_closes_ends_with_the_line() -> None:
    assert [c.arguments for c in calls("f(a, (b")] == ["a, (b"]
    assert brackets("Project [a, [b]", 0) == "a, [b]"
    assert (brackets("A [x], [y]", 1), brackets("A [x]", 1)) == ("y", "")


def test_a_renamed_column_is_known_by_its_first_name_and_an_expression_by_its_own() -> None:
    root = parse_plan(PLAN)
    assert root is not None
    names = names_in(root)
    assert names.of("key#1") == {"key", "event_key"}
    assert names.of("b#3, n#5") == {"b", "n"}


def test_an_operator_gives_what_it_lists_or_what_stands_below_it() -> None:
    root = parse_plan(PLAN)
    assert root is not None
    window, aggregate = root.children[0].children
    assert outputs(aggregate) == {"7", "9"}
    assert outputs(window) == {"1", "3", "5"}
    assert outputs(root) == {"1", "3", "5", "7", "9"}
