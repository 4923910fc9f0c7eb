"""What the tests of pages share: a real browser."""

from collections.abc import Callable
from pathlib import Path

import pytest

from steps.browser import find_browser


@pytest.fixture(scope="module")
def browser(require: Callable[..., None]) -> Path:
    """A browser of the Chromium family."""
    require("chromium")
    found = find_browser()
    assert found is not None
    return found
