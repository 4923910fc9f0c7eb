"""`server=…`: where one connection string ends and the next begins; passwords in what is shown."""

import shlex
from urllib.parse import quote

import pytest

from pgassay.environment.remote.secrets import redacted, scrub
from pgassay.errors import UsageError
from pgassay.factors.registry import parse_factor
from pgassay.factors.server import split_connection_strings
from pgassay.model.redaction import without_secrets

SPLIT = {
    "uris": ("postgresql://a/x,postgres://b/y", ["postgresql://a/x", "postgres://b/y"]),
    "hosts of a uri": (
        "postgresql://a:1,b:2/x,postgresql://c/y",
        ["postgresql://a:1,b:2/x", "postgresql://c/y"],
    ),
    "pairs": ("host=a dbname=x,host=b dbname=y", ["host=a dbname=x", "host=b dbname=y"]),
    "hosts of pairs": (
        "host=a,b port=1,2 dbname=x,host=c dbname=x",
        ["host=a,b port=1,2 dbname=x", "host=c dbname=x"],
    ),
    "services": ("service=old,service=new", ["service=old", "service=new"]),
    "mixed": ("service=old, postgresql://b/y", ["service=old", "postgresql://b/y"]),
    "a comma in quotes": (
        r"host=a password='x,host=y \' ,z' dbname=d,host=b dbname=d",
        [r"host=a password='x,host=y \' ,z' dbname=d", "host=b dbname=d"],
    ),
    "an apostrophe in a uri": (
        "postgresql://u:it's@a/x,postgresql://b/y",
        ["postgresql://u:it's@a/x", "postgresql://b/y"],
    ),
    "quoted wholly": (
        "'host=a options=''-c x=1,y=2'' dbname=d','postgresql://b/y'",
        ["host=a options='-c x=1,y=2' dbname=d", "postgresql://b/y"],
    ),
    "one": ("host=a,b dbname=x", ["host=a,b dbname=x"]),
}


@pytest.mark.parametrize(("text", "strings"), SPLIT.values(), ids=SPLIT)
def test_connection_strings_are_told_apart(text: str, strings: list[str]) -> None:
    assert list(split_connection_strings(text)) == strings


@pytest.mark.parametrize("text", ["", "host=a dbname=x,", ",host=a", "'host=a dbname=x", "'host=a' b,host=c"])
def test_what_is_empty_or_not_closed_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        split_connection_strings(text + (" password=hidden" if text.endswith("x") else ""))
    assert "connection string" in str(refused.value) and "hidden" not in str(refused.value)


SHOWN = {
    "postgresql://u:hidden@a/x": "postgresql://u:***@a/x",
    "postgresql://u:hid:den@a/x?password=hidden&sslmode=require": "postgresql://u:***@a/x?password=***&sslmode=require",
    "postgresql://u:hid?den#x@a/x": "postgresql://u:***@a/x",
    "postgresql://u:hid/den@a/x": "postgresql://u:***@a/x",
    "postgresql://a:5432/x?user=me@b": "postgresql://a:5432/x?user=me@b",
    "postgresql://[::1]:5432/x?user=me@b": "postgresql://[::1]:5432/x?user=me@b",
    "host=a password=hidden dbname=x": "host=a password=*** dbname=x",
    r"host=a password = 'hid den\'s' dbname=x": "host=a password = *** dbname=x",
    "host=a sslpassword=hidden": "host=a sslpassword=***",
    "postgresql://a/x": "postgresql://a/x",
    "host=a passfile=/home/me/.pgpass": "host=a passfile=/home/me/.pgpass",
}


@pytest.mark.parametrize(("text", "shown"), SHOWN.items())
def test_passwords_are_never_shown(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_the_levels_of_a_factor_hold_no_password() -> None:
    factor = parse_factor("server=postgresql://u:hidden@a/x,host=b password=hidden dbname=x")
    assert factor.levels == ("postgresql://u:***@a/x", "host=b password=*** dbname=x")
    for text in ("server=postgresql://u:hidden@a/x", "server=host=a password=hidden,host=a password=hidden"):
        with pytest.raises(UsageError) as refused:
            parse_factor(text)
        assert "hidden" not in str(refused.value)


def test_a_secret_is_found_however_it_is_quoted() -> None:
    secret = "it's 100%, /"
    forms = [secret, shlex.quote(secret), quote(secret), quote(secret, safe=""), secret.replace("'", "\\'")]
    assert scrub(" | ".join(forms), [secret, ""]) == " | ".join(["***"] * len(forms))


def test_a_connection_string_is_stored_as_typed_or_without_its_secrets() -> None:
    typed = "host=a  dbname='x y' passfile=/p"
    given = {"host": "a", "dbname": "x y", "passfile": "/p"}
    assert redacted(typed, given) == typed
    stored = redacted(f"{typed} password=hidden", {**given, "password": "hidden"})
    assert stored == "host=a dbname='x y' passfile=/p"
