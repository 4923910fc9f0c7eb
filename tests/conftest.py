"""What all tests share: the capabilities of the machine.

A test asks `require("loop")`. Where the capability is missing the test is skipped, unless
PGASSAY_REQUIRE (names separated by commas) lists it: there the test fails.
"""

import os
from collections.abc import Callable

import pytest

import capabilities

REQUIRED_VARIABLE = "PGASSAY_REQUIRE"


def required_capabilities() -> list[str]:
    """Return the capabilities that PGASSAY_REQUIRE lists."""
    return [name.strip() for name in os.environ.get(REQUIRED_VARIABLE, "").split(",") if name.strip()]


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a list with a name that no probe has: it would require nothing."""
    del config
    unknown = [name for name in required_capabilities() if name not in capabilities.PROBES]
    if unknown:
        raise pytest.UsageError(
            f"{REQUIRED_VARIABLE} names {', '.join(unknown)}, which no probe knows: "
            f"use {', '.join(capabilities.PROBES)}."
        )


@pytest.fixture(scope="session")
def require() -> Callable[..., None]:
    """Return a function that skips (or fails) the test when one of the named capabilities is missing."""

    def check(*names: str) -> None:
        for name in names:
            reason = capabilities.missing(name)
            if reason and name in required_capabilities():
                pytest.fail(
                    f"{name} is required here ({REQUIRED_VARIABLE}) and missing: {reason}", pytrace=False
                )
            if reason:
                pytest.skip(f"{name}: {reason}")

    return check
