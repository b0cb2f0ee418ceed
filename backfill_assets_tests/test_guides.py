"""The guides do what they say: settings are read; commands, options and links exist.
Not here: the blocks that are run (`end_to_end.test_guide_steps`), and the README's own
(`end_to_end.test_readme`)."""

import ast
import re
import shlex
from pathlib import Path

import click
import pytest

import backfill_assets
from backfill_assets.cli.app import all_commands, app
from backfill_assets.kernel.tables.settings import load_settings
from backfill_assets_tests.files import SMALLEST
from backfill_assets_tests.sources import CHECKOUT

GUIDES = sorted((CHECKOUT / "backfill_assets" / "guides").glob("*.md"))
LONGEST = 200  # lines, terminal excerpts included: what is longer is two guides
SUPERSEDED = re.compile(
    r"\bdagster (?:asset materialize|definitions validate|dev|job execute|project scaffold)\b"
)


def _blocks(language: str) -> list[str]:
    return [
        b
        for g in GUIDES
        for b in re.findall(rf"^```{language}\n(.*?)^```", g.read_text("utf-8"), re.M | re.S)
    ]


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_a_guide_is_short_and_the_readme_leads_to_it(guide: Path) -> None:
    assert len(guide.read_text("utf-8").splitlines()) <= LONGEST
    assert f"(backfill_assets/guides/{guide.name}" in (CHECKOUT / "README.md").read_text("utf-8")


def test_blocks_that_no_test_runs_say_what_they_need() -> None:
    assert [block for block in _blocks("console") if not block.startswith("# needs ")] == []


def test_no_text_tells_to_call_what_dagster_calls_superseded() -> None:
    texts = (
        CHECKOUT / "README.md",
        *GUIDES,
        *CHECKOUT.glob("backfill_assets/learn/examples/*/*.md"),
    )
    assert {
        str(p): found for p in texts if (found := SUPERSEDED.findall(p.read_text("utf-8")))
    } == {}


@pytest.mark.whole_house
@pytest.mark.parametrize(
    "block", _blocks("toml"), ids=lambda block: block.split("\n")[0].strip("[]")
)
def test_the_settings_of_the_guides_are_read(block: str, tmp_path: Path) -> None:
    text = f"{SMALLEST}\n{block}"
    if "payload" in block:  # columns of one's own need features over them
        text += (
            '[features]\nentity = ["customer_id"]\n[[features.columns]]\nname = "n"\nagg = '
            '"count"\ndays = 7\n'
        )
        text += '[labels]\nlabel = "sum_ahead(total) > 2"\n'
    (tmp_path / "lake.toml").write_text(text)
    assert load_settings(tmp_path).source is not None


def test_the_python_of_the_guides_names_parameters_that_exist() -> None:
    (block,) = _blocks("python")
    (call,) = [node for node in ast.walk(ast.parse(block)) if isinstance(node, ast.Call)]
    assert {k.arg for k in call.keywords} <= set(backfill_assets.Table.__dataclass_fields__)


def _of_prose(text: str) -> list[str]:
    return re.findall(r"`backfill-assets ([^`]+)`", re.sub(r"\s+", " ", text))


def _of_console(text: str) -> list[str]:
    """The commands of the blocks that no test can run: lines behind `$`, or all lines where there
    is no `$`."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", text, re.M | re.S):
        lines = block.replace("\\\n", " ").splitlines()
        asked = [line[2:] for line in lines if line.startswith("$ ")] or lines
        found += [c for line in asked for c in re.findall(r"backfill-assets (.*?)(?: && |$)", line)]
    return found


def _commands() -> list[list[str]]:
    texts = [g.read_text("utf-8") for g in GUIDES]
    return [shlex.split(c, comments=True) for t in texts for c in (*_of_prose(t), *_of_console(t))]


@pytest.mark.whole_house
def test_the_guide_commands_has_a_line_for_every_command() -> None:
    """`end_to_end.test_readme` runs them."""
    page = CHECKOUT / "backfill_assets" / "guides" / "commands.md"
    named = {words.split()[0] for words in _of_console(page.read_text("utf-8"))}
    missing = {*all_commands()} - named - {"demo"}
    assert not missing, f"write a line about {missing} in {page.name}, with words that run"


@pytest.mark.whole_house
@pytest.mark.parametrize("words", _commands(), ids=" ".join)
def test_the_commands_that_no_test_runs_exist_and_so_do_their_options(words: list[str]) -> None:
    command: click.Command = app
    context = click.Context(app)
    if words[0] == "--lake":
        words = words[2:]
    while (
        isinstance(command, click.Group)
        and words
        and not (command.invoke_without_command and words[0][0] == "-")
    ):
        found = command.get_command(context, words[0])
        assert found is not None, words
        command, words = found, words[1:]
    known = {option for p in command.params for option in p.opts}
    assert {w for w in words if w.startswith("--")} <= known


def test_links_between_readme_and_guides_lead_to_headings() -> None:
    for file in (CHECKOUT / "README.md", *GUIDES):
        for target, anchor in re.findall(r"\]\(([\w/.-]+\.md)#([\w-]+)\)", file.read_text("utf-8")):
            headings = re.findall(r"^#+ (.+)$", (file.parent / target).read_text("utf-8"), re.M)
            assert anchor in [
                re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings
            ], anchor
