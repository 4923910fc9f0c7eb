"""Settings on a server that belongs to somebody else: only those that a session can change for itself."""

from collections.abc import Mapping

import psycopg

from pgassay.environment.remote.connection_parameters import Resolved
from pgassay.environment.server.sessions import ConnectionParameters, connect, startup_options
from pgassay.environment.server.setting_values import SettingFact, equal_value
from pgassay.environment.server.settings import classify, describe_settings, fact_of
from pgassay.errors import UsageError, first_line

READ_ONLY = {"default_transaction_read_only": "on"}
# What only a superuser may set: neither the log nor pg_stat_statements need to hear of what pgassay reads.
SILENT = {
    "log_min_duration_statement": "-1",
    "log_min_duration_sample": "-1",
    "log_statement": "none",
    "log_duration": "off",
    "pg_stat_statements.track": "none",
}
_URING = "io_uring"
_WHEN = {"reload": "when the server reads its files again", "restart": "when the server starts"}


def session_parameters(resolved: Resolved, settings: Mapping[str, str]) -> ConnectionParameters:
    """The connection parameters of a session with these settings, after the user's own options."""
    given = [str(resolved.parameters["options"] or ""), startup_options(settings)]
    return {**resolved.parameters, "options": " ".join(filter(None, given))}


def _about_methods(known: Mapping[str, SettingFact], name: str) -> str:
    """Which ways of reading this server offers, as the end of a sentence; '' for other settings.

    A build without liburing has no io_uring among them (io_method_options of
    src/backend/storage/aio/aio.c). Where it has, the provider or the kernel may refuse it all the same.
    """
    if name.lower() != "io_method" or "io_method" not in known:
        return ""
    offered = ", ".join(known["io_method"].enumvals)
    if _URING not in known["io_method"].enumvals:
        return (
            f" (it offers {offered}; {_URING} is not among them: it was built without liburing, which "
            "only its provider can change: compare sync with worker)"
        )
    return (
        f" (it offers {offered}; a provider may refuse {_URING} all the same, in its parameter group or by "
        "kernel.io_uring_disabled: then compare sync with worker)"
    )


def check_session_settings(resolved: Resolved, settings: Mapping[str, str]) -> None:
    """Open a session with the settings and see that they hold.

    Raises UsageError for one that a session can't change, and for one that this server refuses.
    """
    name_of_server = resolved.server.name
    with connect(resolved.parameters) as control:
        known = describe_settings(control)
    for name, value in settings.items():
        level = classify(known, name)
        if level in _WHEN:
            raise UsageError(
                f"{name}={value}: {name_of_server} applies it {_WHEN[level]}, but on a remote server only "
                "session settings can be varied or set: give the value to one of two servers and compare "
                f"them with server={_about_methods(known, name)}"
            )
        if level == "initdb":
            raise UsageError(f"{name} is fixed by initdb: leave it out")
        if level == "unknown" and "." not in name:
            raise UsageError(f"{name_of_server} has no setting {name} visible to this role: leave it out")
    try:
        with connect(session_parameters(resolved, settings)) as session:
            held = describe_settings(session)
    except psycopg.Error as error:
        raise UsageError(f"{name_of_server} refuses the settings of an arm: {first_line(error)}") from None
    for name, value in settings.items():
        fact = fact_of(held, name)
        if fact is not None and not equal_value(fact.name, value, fact.value or "", fact):
            raise UsageError(
                f"{name_of_server} runs a session with {name}={fact.shown()} when asked for {value}: choose "
                "a value that it keeps"
            )
