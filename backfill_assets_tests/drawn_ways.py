"""The steps that the guide *How it works* draws, and the functions that take them. Here: reading the
drawings. Not here: whether a run takes the steps in this order (`end_to_end.test_way_of_a_day`)."""

import inspect
import pkgutil
import re
from dataclasses import dataclass
from types import CodeType

import backfill_assets
from backfill_assets_tests.sources import CHECKOUT, PACKAGE

GUIDE = CHECKOUT / PACKAGE / "guides" / "how-it-works.md"
WAY = re.compile(r"^### (?P<name>.+?)\n(?P<text>.*?)(?=^##)", re.MULTILINE | re.DOTALL)
STEP = re.compile(r"^ ?(\d+) ([a-z ]+?) +([\w.]+:[\w.]+)", re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """A line of a drawing: `function` is `module:name` below the package."""

    number: int
    name: str
    function: str


def drawn_steps() -> dict[str, list[Step]]:
    """The steps of each way that the guide draws, by the heading of the way."""
    text = GUIDE.read_text("utf-8")
    found = {
        way["name"]: [Step(int(number), name, of) for number, name, of in STEP.findall(way["text"])]
        for way in WAY.finditer(text)
    }
    return {name: steps for name, steps in found.items() if steps}


def step_code(step: Step) -> CodeType:
    """The code of the function that takes a step. Raises AttributeError or ImportError where the
    guide names none."""
    function = pkgutil.resolve_name(f"{backfill_assets.__name__}.{step.function}")
    code = inspect.unwrap(function).__code__
    assert isinstance(code, CodeType)
    return code
