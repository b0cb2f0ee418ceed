"""The plan of a frame as Spark Connect sends it: its messages above the frames of inputs, and what
no input decides.

Not here: orders and sums that only show in rows (`kernel.write.computing`), and what an engine
computes otherwise (`abilities`). A frame of a session without Spark Connect has no such
plan; nothing is found in it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from backfill_assets.kernel.core.unsteady import BARE, CHANCE, CLOCK, UNDECIDED

PYTHON = frozenset(
    [
        "map_partitions",
        "group_map",
        "co_group_map",
        "apply_in_pandas_with_state",
        "common_inline_user_defined_function",
        "common_inline_user_defined_table_function",
    ]
)
CLOCK_ADVICE = "take days and times from the chunk or from columns"
CHANCE_ADVICE = (
    "choose by a hash of the key and a seed that is a parameter, such as xxhash64(key, 7)"
)
PYTHON_ADVICE = "write it with Spark's own functions"
SAMPLE_RELATION = "sample"
UNIX_TIMESTAMP = "unix_timestamp"  # reads the clock where it has no argument
UNDECIDED_KINDS = PYTHON | {SAMPLE_RELATION}  # of relations and expressions


def undecided_names(frame: Any, inputs: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of a frame's plan, above its input frames, by which rows depend on more than
    inputs: the clock, chance, the place of the computation, Python. Each with its reason, and then
    what to write instead.

    Views that a transform made are not looked into.
    """
    if not hasattr(frame, "_plan"):
        return {}
    found = dict[str, str]()
    for message in plan_messages(frame, inputs):
        found |= dict(map(_reason_and_advice, _undecided_names_in(message)))
    return found


def plan_messages(frame: Any, inputs: Mapping[str, Any]) -> Iterator[Any]:
    """Yield every message of a frame's plan that does not lie below the plan of an input frame."""
    known = frozenset(int(f._plan._plan_id) for f in inputs.values())
    return _walk_plan(frame._plan.to_proto(frame._session.client).root, known)


def message_parts(message: Any) -> Iterator[Any]:
    """Yield the messages right below one."""
    for field, value in message.ListFields():
        if field.type != field.TYPE_MESSAGE:
            continue
        if field.message_type.GetOptions().map_entry:
            found = value.values()
        else:
            found = value if field.is_repeated else [value]
        yield from (part for part in found if hasattr(part, "DESCRIPTOR"))


def _walk_plan(message: Any, known: Collection[int]) -> Iterator[Any]:
    if message.DESCRIPTOR.name == "Relation" and message.common.plan_id in known:
        return
    yield message
    for part in message_parts(message):
        yield from _walk_plan(part, known)


def _undecided_names_in(message: Any) -> Iterator[str]:
    """Yield the names in one message that no row decides."""
    kind = message.DESCRIPTOR.name
    if kind == "Relation":
        yield from {message.WhichOneof("rel_type")} & UNDECIDED_KINDS
    elif kind == "Expression":
        yield from {message.WhichOneof("expr_type")} & UNDECIDED_KINDS
    elif kind == "UnresolvedFunction":
        name = message.function_name.lower()
        is_of_argument = name == UNIX_TIMESTAMP and message.arguments
        if name in UNDECIDED and not is_of_argument:
            yield name
    elif kind == "SQL":
        yield from _undecided_sql_words(message.query)
    elif kind == "ExpressionString":
        yield from _undecided_sql_words(message.expression)


def _undecided_sql_words(text: str) -> Iterator[str]:
    """Yield the names in a text of SQL that no row decides; none where Spark cannot read it
    either."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        tokens = sqlglot.tokenize(text, read="spark")
    except SqlglotError:
        return
    for at, token in enumerate(tokens):
        kind, name = token.token_type.name, token.text.lower()
        if kind == "STRING":
            continue
        after = [t.text for t in tokens[at + 1 : at + 3]]
        is_word = name in BARE and kind != "IDENTIFIER"
        if is_word or _is_undecided_call(name, after):
            yield name
        elif kind == "TABLE_SAMPLE":
            yield SAMPLE_RELATION


def _is_undecided_call(name: str, after: Sequence[str]) -> bool:
    """Whether a name and the next two tokens call a function that no row decides."""
    if name not in UNDECIDED:
        return False
    if name == UNIX_TIMESTAMP:
        return after == ["(", ")"]
    return after[:1] == ["("]


def _reason_and_advice(name: str) -> tuple[str, str]:
    """The name with its reason, and what to write instead."""
    if name in PYTHON:
        return f"`{name}` runs Python on rows", PYTHON_ADVICE
    if name in CLOCK | {UNIX_TIMESTAMP}:
        return f"`{name}()` reads the clock", CLOCK_ADVICE
    if name in CHANCE | {SAMPLE_RELATION}:
        return (
            f"`{name}()` is chance, with a seed too: it depends on how rows are spread over tasks",
            CHANCE_ADVICE,
        )
    return f"`{name}()` depends on where and by whom rows are computed", CLOCK_ADVICE
