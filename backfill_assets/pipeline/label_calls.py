"""The calls of aggregates ahead and behind in the expression of a label.

Not here: what such a call computes (`declared`).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot.tokens import Token  # type: ignore[attr-defined]


TERM = re.compile(r"(\w+)_(ahead|behind)", re.IGNORECASE)


@dataclass(frozen=True)
class LabelCall:
    """An aggregate as written: its word, its side ("ahead" or "behind"), its argument ("" or "*":
    none), and its place.

    The text of the call is `text[start:end]`.
    """

    agg: str
    side: str
    of: str
    start: int
    end: int


def label_calls(label: str) -> Iterator[LabelCall]:
    """Yield the calls that look like aggregates of a horizon, in order. Raises ValueError for
    unreadable text."""
    from sqlglot.dialects.spark import Spark
    from sqlglot.errors import TokenError

    try:
        tokens = Spark().tokenize(label)
    except TokenError as error:
        raise ValueError(f"it cannot be read ({error})") from None
    for index, token in enumerate(tokens[:-1]):
        term = TERM.fullmatch(label[token.start : token.end + 1])
        if term and tokens[index + 1].token_type.name == "L_PAREN":
            closing = _closing_bracket(tokens, index + 1)
            argument = label[tokens[index + 1].end + 1 : closing.start]
            yield LabelCall(
                term[1].lower(), term[2].lower(), argument, token.start, closing.end + 1
            )


def _closing_bracket(tokens: "Sequence[Token]", opening: int) -> "Token":
    """The bracket that closes the one at the place `opening`. Raises ValueError without one."""
    depth = 0
    for token in tokens[opening:]:
        depth += (token.token_type.name == "L_PAREN") - (token.token_type.name == "R_PAREN")
        if depth == 0:
            return token
    raise ValueError("its brackets do not match")
