"""The tests that one run of pytest skipped: run again on the whole machine, and held against a list
of reasons.

Lives here: reading the reports that pytest writes (`--junitxml`) for `.ci/run`. Does not live here:
which tests a run has, and the reasons (`skips.tsv`: the beginning of a test's name, a tab, why no
step of `.ci/run` runs it). `skipped.py again REPORT` prints the skipped tests, one a line, as
pytest takes them. `skipped.py judge REPORT …` prints the tests that every report that has them
skipped, and ends with 1 where the list gives no reason for one.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

LIST = Path(__file__).with_name("skips.tsv")


def read_tests(report: Path) -> Iterator[tuple[str, bool]]:
    """Each test of a report by its name for pytest, and whether it was skipped; a whole module by
    its file."""
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314  pytest wrote it a moment ago
        yield name_of(case.get("classname", ""), case.get("name", "")), has_skip(case)


def has_skip(case: ElementTree.Element) -> bool:
    """Whether it was skipped; what was expected to fail and did is none of these."""
    found = case.find("skipped")
    return found is not None and found.get("type") != "pytest.xfail"


def name_of(scope: str, name: str) -> str:
    """E.g. `tests/test_x.py::TestAll::test_it[1]`; `scope`: the dotted name of the module that was
    collected, and the class in it. A report's own word `file` is where the function stands, which
    another module may have imported."""
    if not scope:
        return f"{name.replace('.', '/')}.py"
    words = scope.split(".")
    lengths = (n for n in range(len(words), 0, -1) if Path(*words[:n]).with_suffix(".py").is_file())
    length = next(lengths, len(words))
    return "::".join([f"{'/'.join(words[:length])}.py", *words[length:], name])


def always_skipped(reports: list[Path]) -> list[str]:
    """The tests that no report saw run, sorted."""
    seen = [test for report in reports for test in read_tests(report)]
    ran = {name for name, was_skipped in seen if not was_skipped}
    return sorted({name for name, was_skipped in seen if was_skipped} - ran)


def read_reasons() -> dict[str, str]:
    """The list: the beginning of a test's name → why it does not run."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return dict(line.split("\t", 1) for line in lines if line.strip())


def judge(reports: list[Path]) -> int:
    """Print each test that was always skipped with its reason; 1 where one has none."""
    reasons, without = read_reasons(), 0
    for name in always_skipped(reports):
        reason = next((why for begins, why in reasons.items() if name.startswith(begins)), "")
        without += not reason
        print(f"{name}: {reason or f'NO REASON in {LIST.name}'}")
    return 1 if without else 0


def main(verb: str, *reports: str) -> int:
    """Do what the first word says."""
    paths = [Path(report) for report in reports]
    if verb == "judge":
        return judge(paths)
    print("\n".join(always_skipped(paths)))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
