"""What `--profile` needs and what it can't be combined with, found before anything is measured."""

from pgassay.environment.linux.perf import find_perf
from pgassay.errors import UsageError
from pgassay.experiment.planning.connections import is_remote
from pgassay.experiment.planning.request import CompareRequest


def check_profile(request: CompareRequest) -> None:
    """Raise UsageError where a profile is asked for and can't be had; does nothing where none is."""
    if not request.profile:
        return
    if is_remote(request):
        raise UsageError(
            "--profile samples the processes of servers that pgassay starts: leave --server and server= out, "
            "or run perf on the server's own machine"
        )
    if request.restart == "needed":
        raise UsageError(
            "--profile needs a trial of each arm, and --restart needed has one for all: leave one of them out"
        )
    if request.cache == "cold-each":
        raise UsageError(
            "--profile can't follow a server that is restarted within a trial, as --cache cold-each does: "
            "use --cache cold"
        )
    find_perf()
