"""Drawn plots as parts of a page: ids of their own, colours of the page.
Not here: the pages (`test_lateness`, `test_report_page`)."""

import sys

import pytest

from backfill_assets.kernel.core.errors import BackfillError
from backfill_assets.reports.plots import svg_figure


def test_without_matplotlib_the_error_names_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # as where it is not installed
    with pytest.raises(BackfillError, match=r"No page was written.*'backfill-assets\[pictures\]'"):
        svg_figure("name", lambda axes: None)
