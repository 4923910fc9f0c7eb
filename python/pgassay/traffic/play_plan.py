"""What there is to play of a capture, what a player is told of roles, and its counts by family."""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pgassay.errors import UsageError
from pgassay.model.traffic.replay_result import ReplayFamily
from pgassay.native.replay_commands import PlayedFamily, sessions_of
from pgassay.traffic.blocks import files, paths
from pgassay.traffic.summary import family

if TYPE_CHECKING:
    import psycopg

_HEADER_BYTES = 64
_SET_OPTION_SINCE = 160_000
# What is no part of a family that is printed.
_NOT_PRINTED = ("sample", "same", "same_s")


def databases_of(folder: Path, users: tuple[str, ...] = ()) -> dict[str, None]:
    """The databases of a capture's sessions, of these users' or of all.

    Raises UsageError for what is no capture, and for a user that has none: who misspelt one would take the
    rest for all of them.
    """
    paths(folder)
    sessions = sessions_of(str(folder.resolve()))
    known = dict.fromkeys(user for user, _, _ in sessions)
    if unknown := [user for user in users if user not in known]:
        raise UsageError(
            f"{folder} has no sessions of {', '.join(unknown)}, but of {', '.join(known) or 'nobody'}: name "
            "these"
        )
    return dict.fromkeys(database for user, database, _ in sessions if not users or user in users)


def identity(folder: Path) -> str:
    """What tells the files of a capture from those of another; raises UsageError where there are none."""
    made = hashlib.sha256()
    for path in (each.path for each in files(folder)):
        with path.open("rb") as file:
            made.update(f"{path.name} {path.stat().st_size} ".encode() + file.read(_HEADER_BYTES))
    return made.hexdigest()


def role_options(session: "psycopg.Connection[tuple[object, ...]]") -> tuple[dict[str, str], str]:
    """By role: what makes a session of the player's be as that role's; and what can't be had, or ''.

    A setting that this user may not set would end the connection.
    """
    rows = session.execute(
        """SELECT r.rolname, pg_has_role(current_user, r.oid, %s), r.rolname = current_user,
                  COALESCE((SELECT array_agg(c ORDER BY s.setdatabase)
                            FROM pg_db_role_setting s, unnest(s.setconfig) c
                            WHERE s.setrole = r.oid AND s.setdatabase IN (0, d.oid)), '{}')
           FROM pg_roles r, pg_database d WHERE d.datname = current_database()""",
        (right_to_be(session.info.server_version),),
    ).fetchall()
    allowed = _settable(session)
    found: dict[str, str] = {}
    refused = 0
    left_out: set[str] = set()
    for name, is_member, is_self, settings in rows:
        if is_self:
            continue
        if not is_member:
            refused += not str(name).startswith("pg_")
            continue
        assert isinstance(settings, list)
        parts = [f"role={name}"]
        for each in map(str, settings):
            setting = each.partition("=")[0]
            # That of a library which is not loaded is taken from anybody.
            if allowed is None or allowed.get(setting.lower(), "." in setting):
                parts.append(each)
            else:
                left_out.add(setting)
        found[str(name)] = " ".join(f"-c {_escaped(part)}" for part in parts)
    return found, _what_can_t_be_had(refused, left_out)


def _settable(session: "psycopg.Connection[tuple[object, ...]]") -> dict[str, bool] | None:
    """By setting that this user sees whether it may set it as a session begins; None: all of them.

    GRANT SET ON PARAMETER is of no use there: the role, which has no such right, is taken first.
    """
    rows = session.execute(
        """SELECT r.rolsuper, pg_catalog.lower(s.name), s.context IN ('user', 'backend')
            FROM pg_catalog.pg_roles r LEFT JOIN pg_catalog.pg_settings s ON NOT r.rolsuper
            WHERE r.rolname = current_user"""
    ).fetchall()
    if any(is_superuser for is_superuser, _, _ in rows):
        return None
    return {str(name): bool(may) for _, name, may in rows}


def _what_can_t_be_had(roles: int, settings: Collection[str]) -> str:
    found = []
    if roles:
        found.append(
            f"{roles} roles of the server are not open to this user: their sessions run as this user"
        )
    if settings:
        named = ", ".join(sorted(settings))
        found.append(f"this user may not set what roles have of their own ({named}): sessions are without")
    return "; ".join(found)


def right_to_be(server_version: int) -> str:
    """The right, as pg_has_role names it, that SET ROLE asks for.

    Since 16 members may lack it, as who has CREATEROLE does of the roles that he makes.
    """
    return "SET" if server_version >= _SET_OPTION_SINCE else "MEMBER"


def _escaped(text: str) -> str:
    # The server divides at any white space (src/backend/utils/init/postinit.c, pg_split_opts).
    return re.sub(r"([\\\s])", r"\\\1", text, flags=re.ASCII)


def named(sample: str) -> str:
    """What a statement's family is called."""
    return family(sample) or "(prepared before the capture)"


def families_of(found: Sequence[PlayedFamily]) -> list[ReplayFamily]:
    """By their names; those that differ in the length of a list alone become one, with the larger's times."""
    merged: dict[str, PlayedFamily] = {}
    for each in sorted(found, key=lambda each: -each["calls"]):
        name = named(each["sample"])
        before = merged.get(name)
        if before is None:
            merged[name] = each
            continue
        merged[name] = {
            **before,
            "calls": before["calls"] + each["calls"],
            "diverged": before["diverged"] + each["diverged"],
            "other_values": before["other_values"] + each["other_values"],
            "seconds_captured": before["seconds_captured"] + each["seconds_captured"],
            "seconds": before["seconds"] + each["seconds"],
            "diverged_s": before["diverged_s"] + each["diverged_s"],
            "example": before["example"] or each["example"],
        }
    families = [
        ReplayFamily.model_validate(
            {key: value for key, value in each.items() if key not in _NOT_PRINTED} | {"text": name}
        )
        for name, each in merged.items()
    ]
    return sorted(families, key=lambda each: -each.seconds_captured)


def same_mean_s(found: Sequence[PlayedFamily]) -> dict[str, float]:
    """By name: the mean time of executions that came out as in the capture; without families that had none.

    What failed at once, or was not executed, would make a family look fast.
    """
    calls: Counter[str] = Counter()
    seconds: defaultdict[str, float] = defaultdict(float)
    for each in found:
        calls[named(each["sample"])] += each["same"]
        seconds[named(each["sample"])] += each["same_s"]
    return {name: seconds[name] / count for name, count in calls.items() if count}


def diverged_share(families: Sequence[ReplayFamily]) -> float:
    """Of the captured time, what statements took that came out otherwise now.

    Of a capture without times, from a log without durations, their share of the statements.
    """
    captured_s = sum(each.seconds_captured for each in families)
    if captured_s:
        return sum(each.diverged_s for each in families) / captured_s
    return sum(each.diverged for each in families) / max(sum(each.calls for each in families), 1)
