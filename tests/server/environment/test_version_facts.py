"""The recorded facts of each version are what a server of it says."""

import pytest

from pgassay.environment.builds.registry import resolve
from pgassay.errors import UsageError
from versions import facts

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]


@pytest.mark.parametrize(
    "major",
    [major if major == 18 else pytest.param(major, marks=pytest.mark.slow) for major in facts.MAJORS],
)
def test_the_record_is_the_server_s(major: int) -> None:
    kept = facts.recorded()[major]
    try:
        build = resolve(str(major))
    except UsageError:
        pytest.skip(f"no PostgreSQL {major} at hand")
    found = facts.read(build)
    if build.version == kept.version:
        assert found == kept, "run tests/versions/record.py"
    # A minor release takes nothing away.
    assert kept.settings.keys() <= found.settings.keys() and kept.relations.keys() <= found.relations.keys()
    assert kept.events <= found.events and len(found.settings) > 300
