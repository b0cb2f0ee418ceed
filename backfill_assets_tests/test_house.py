"""The budget of the house: sizes, signs on doors, and what lies in the repository.
Not here: who may import whom (`test_architecture.py`). Each failure lists every offender, so that
one run is enough to tidy up."""

import ast
import re
from pathlib import Path

import pytest

from backfill_assets_tests.sources import (
    CHECKOUT,
    PACKAGE,
    TESTS,
    Function,
    Source,
    body_lines,
    sources,
    tracked_files,
)

MOST_LINES_PER_FILE = 600
MOST_LINES_PER_BODY = 40
# As the formatter lays them out; whoever cuts one by sense lowers the number, and nobody raises it.
TOO_LONG = {PACKAGE: 2, ".ci": 0, TESTS: 0}
FEWEST_SENTENCES_PER_SIGN = 2
MOST_BYTES_PER_FILE = 100_000
MOST_BYTES_OF_LOCK = 1_000_000  # hashes of every platform's wheels
LOCK = ".ci/requirements.txt"

TOP_LEVEL = {"pyproject.toml", PACKAGE, TESTS, "workspace.yaml", "dagster.yaml", "README.md"}

SENTENCE_END = re.compile(r"[.!?…](?=\s|$|[`\"')])")
SIGNPOST = re.compile(r"`([a-z_]+(?:\.(?!toml`|yaml`)[a-z_]+)+)")
# Written in pieces, so that this file does not offend against its own rule.
MACHINE_PATH = re.compile(
    r"(?<![\w.$}/-])/(?:"
    + "|".join(("tmp", "root", "work", "farm", "opt", "home", "Users"))
    + r")/[\w.-]+"
)
REGISTRY_HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("repo1", "maven"),
        ("repo", "maven", "apache"),
        ("registry", "npmjs"),
    )
)
INDEX_ADDRESS = re.compile(
    r"https?://[^\s/]+/(?:simple|maven2|packages)/|--(?:extra-)?index-" + "url"
)

CALLED_BY_PYTHON = {"__dir__"}
NAMED_IN_DAGSTER_YAML = {"BatchedEventLogStorage"}
# A test that swaps a name of the product's knows its inside: constructors, parameters and the
# assembler take what it needs instead. These are left; whoever takes one away lowers the number,
# and nobody raises it.
MOST_PATCHES = 29
# Full disks, power cuts, other libraries.
NEIGHBOURS = {
    "os",
    "grp",
    "pwd",
    "time",
    "psutil.Process",
    "DeltaTable",
    "ScriptDirectory",
    "dg.DagsterInstance",
    "obstore",
}
# What they name is for users.
PUBLIC_DOORS = (f"{PACKAGE}/__init__.py", f"{PACKAGE}/dagster/__init__.py", f"{PACKAGE}/testing.py")
EVERYWHERE = (PACKAGE, TESTS, ".ci")

# What a stranger stumbles over: times without a noun, a licence that is none, numbers of a tracker
# nobody else has.
STUMBLING_BLOCKS = re.compile(r"\bof before\b|\'s licence\b|\bS\d-\d\d\b")


def _is_empty_door(source: Source) -> bool:
    """A test room's `__init__.py` without a word in it."""
    return source.place.startswith(TESTS) and not source.text.strip()


@pytest.mark.whole_house
def test_every_module_of_a_room_has_its_test_file() -> None:
    """`room/module.py` has `room/test_module.py` in the tests, where a reader looks first;
    transforms likewise."""
    modules = [
        Path(f.place).relative_to(PACKAGE) for f in sources(PACKAGE) if f.room and not _is_door(f)
    ]
    tests = {f.place for f in sources(TESTS)}
    missing = {str(m) for m in modules if f"{TESTS}/{m.parent}/test_{m.name}" not in tests}
    assert missing == set(), "write one beside its neighbours"


def _is_door(source: Source) -> bool:
    """A room's `__init__`, and front doors that are a file and no room."""
    return (
        source.place.endswith("__init__.py")
        or source.place.count("/") == 1
        or source.room == "orchestration"
    )


def test_files_are_short_enough_to_read_at_once() -> None:
    sizes = {f.place: f.text.count("\n") for f in sources(*EVERYWHERE)}
    assert not {place: lines for place, lines in sizes.items() if lines > MOST_LINES_PER_FILE}


@pytest.mark.slow
@pytest.mark.parametrize("folder", [PACKAGE, ".ci", TESTS])
def test_functions_that_are_too_long_to_hold_in_mind_become_fewer(folder: str) -> None:
    offences = [
        f"{f.place}:{function.lineno} {function.name} has {body_lines(function)} lines"
        for f in sources(folder)
        for function in f.functions()
        if body_lines(function) > MOST_LINES_PER_BODY
    ]
    assert len(offences) <= TOO_LONG[folder], "\n".join(offences)


def test_every_module_has_a_sign_of_two_sentences_or_more() -> None:
    offences = [
        f.place
        for f in sources(*EVERYWHERE)
        if not _is_empty_door(f) and len(SENTENCE_END.findall(f.sign)) < FEWEST_SENTENCES_PER_SIGN
    ]
    assert not offences, "say above all code what is here, and what one looks for here in vain"


def test_signs_lead_to_modules_that_exist() -> None:
    """`room.module` in a sign: whoever moves a module takes its name along, also where others send
    a reader to it."""
    modules = {f.module.split(".", 1)[-1] for f in sources(PACKAGE, TESTS)}
    folders = {m.rpartition(".")[0] for m in modules}
    offences = [
        f"{f.place}: {named}"
        for f in sources(*EVERYWHERE)
        for named in SIGNPOST.findall(f.sign)
        if _leads_nowhere(named, modules, folders)
    ]
    assert not offences, "name each by its folder and module as they are now"


def _leads_nowhere(named: str, modules: set[str], folders: set[str]) -> bool:
    """Whether it begins with a folder's name, and no module or folder of that name is there."""
    parts = named.split(".")
    beginnings = {".".join(parts[:n]) for n in range(1, len(parts) + 1)}
    deepest = max((b for b in beginnings if b in folders), key=len, default="")
    following = parts[deepest.count(".") + 1 :] if deepest else []
    return bool(following) and not beginnings & modules


def test_every_public_name_says_what_it_is() -> None:
    offences = [
        f"{f.place}:{node.lineno} {node.name}"
        for f in sources(PACKAGE, ".ci")
        for node in f.public_definitions()
        if not ast.get_docstring(node) and not _is_overload(node)
    ]
    assert not offences


def test_no_two_classes_of_the_package_share_a_name() -> None:
    places: dict[str, list[str]] = {}
    for source in sources(PACKAGE):
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(source.place)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_texts_hold_no_phrase_that_only_their_author_understands() -> None:
    texts = {f.place: f.text for f in sources(PACKAGE)} | {
        "README.md": (CHECKOUT / "README.md").read_text("utf-8")
    }
    lines = [
        (place, n, line)
        for place, text in texts.items()
        for n, line in enumerate(text.splitlines(), 1)
    ]
    assert not [
        f"{place}:{n} {line.strip()}" for place, n, line in lines if STUMBLING_BLOCKS.search(line)
    ]


@pytest.mark.whole_house
def test_what_the_package_defines_it_also_uses() -> None:
    """Of a module's functions and classes; what only tests call is dead code with a test.
    Decorators call by name."""
    used = {name for f in sources(PACKAGE) for name in _names_used(f)} | CALLED_BY_PYTHON
    used |= NAMED_IN_DAGSTER_YAML | _names_in_references()
    used |= {
        str(text.value) for f in sources(PACKAGE) if f.place in PUBLIC_DOORS for text in f.texts
    }
    defined = [
        (f.place, node)
        for f in sources(PACKAGE)
        for node in f.tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
        and not (isinstance(node, Function) and node.decorator_list)
    ]
    unused = [
        f"{place}:{n.lineno} {n.name}"
        for place, n in defined
        if n.name not in used and not n.name.startswith("__")
    ]
    assert unused == [], "call each from the package, or delete it with its test"


def _names_in_references() -> set[str]:
    """Names that rooms give by text references (`"room.module:name"`) in their `__init__`."""
    doors = [f for f in sources(PACKAGE) if f.place.endswith("/__init__.py")]
    texts = [str(text.value) for f in doors for text in f.texts]
    return {found[1] for text in texts if (found := re.fullmatch(r"[\w.]+:(\w+)", text))}


def _names_used(source: Source) -> set[str]:
    """Names that are read, imported attributes of modules, and words of annotations in quotes."""
    found = {n.id for n in source.of(ast.Name)} | {n.attr for n in source.of(ast.Attribute)}
    found |= {a.name for n in source.of(ast.ImportFrom) for a in n.names if a.asname}
    notes = [
        *(n.annotation for n in source.of(ast.arg)),
        *(n.annotation for n in source.of(ast.AnnAssign)),
    ]
    notes += [n.returns for n in source.functions()]
    quoted = [
        c.value for note in notes if note for c in ast.walk(note) if isinstance(c, ast.Constant)
    ]
    return found | {word for text in quoted for word in re.findall(r"\w+", str(text))}


def test_tests_swap_names_of_the_product_no_more_often_than_they_did() -> None:
    patching = [f for f in sources(TESTS) if "setattr(" in f.text]
    found = [
        f"{f.place}:{ast.unparse(n)}"
        for f in patching
        for n in f.of(ast.Call)
        if _patches_the_product(n)
    ]
    assert len(found) <= MOST_PATCHES, "\n".join(
        ["take a parameter instead of one of these:", *found]
    )


def _patches_the_product(node: ast.Call) -> bool:
    """Whether it is `setattr`, pytest's or Python's, of anything but a neighbour."""
    if not node.args:
        return False
    named = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return named == "setattr" and ast.unparse(node.args[0]) not in NEIGHBOURS


def _is_overload(node: ast.AST) -> bool:
    """Overloads and setters: their docstring is the implementation's and the property's."""
    decorators = (
        node.decorator_list if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else []
    )
    return any(ast.unparse(d).split(".")[-1] in ("overload", "setter") for d in decorators)


@pytest.mark.usefixtures("processes")
def test_the_top_level_is_the_six_and_hidden_entries() -> None:
    top = {name.split("/")[0] for name in tracked_files() if not name.startswith(".")}
    assert top == TOP_LEVEL


@pytest.mark.usefixtures("processes")
def test_no_file_is_too_big_for_a_repository() -> None:
    sizes = {name: (CHECKOUT / name).stat().st_size for name in tracked_files()}
    too_big = {
        name: size for name, size in sizes.items() if size > MOST_BYTES_PER_FILE and name != LOCK
    }
    assert not too_big
    assert sizes.get(LOCK, 0) <= MOST_BYTES_OF_LOCK


@pytest.mark.usefixtures("processes")
def test_no_file_names_a_machines_path_or_a_package_registry() -> None:
    offences = []
    for name in tracked_files():
        try:
            lines = (CHECKOUT / name).read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        offences += [
            f"{name}:{n} {found}"
            for n, line in enumerate(lines, 1)
            for found in _what_binds_to_a_place(line)
        ]
    assert not offences


def _what_binds_to_a_place(line: str) -> list[str]:
    found = [
        match[0] for pattern in (MACHINE_PATH, INDEX_ADDRESS) if (match := pattern.search(line))
    ]
    return found + [host for host in REGISTRY_HOSTS if host in line]


@pytest.mark.parametrize(
    "line",
    [
        "see /" + "tmp/thing",
        "'/" + "work/main'",
        "https://mirror.example/" + "simple/",
        "--index-" + "url",
        "pypi." + "org",
    ],
)
def test_the_search_for_places_finds(line: str) -> None:
    assert _what_binds_to_a_place(line)
