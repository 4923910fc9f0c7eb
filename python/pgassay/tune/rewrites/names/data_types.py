"""PostgreSQL's own types: what their equality tells of two values."""

INTEGERS = frozenset({"smallint", "integer", "bigint"})
FLOATS = frozenset({"real", "double precision"})
TEXTS = frozenset({"text", "character varying"})
# Types whose equality and order are PostgreSQL's own; what an extension's operators do is not known here.
KNOWN_TYPES = INTEGERS | FLOATS | {
    "numeric", "text", "character varying", "character", "boolean", "date", "timestamp without time zone",
    "timestamp with time zone", "time without time zone", "interval", "uuid", "bytea",
}  # fmt: skip
# Equal values of these can't be told apart: no 1.0 and 1.00, no 0 and -0, no "24 hours" and "1 day".
IDENTITY_TYPES = KNOWN_TYPES - FLOATS - {"numeric", "interval", "character"}
# Equal values of these can look different whatever their length or precision is.
LOOSE_TYPES = frozenset({"interval", "jsonb", "citext"})


def base_type(name: str) -> str:
    """format_type's name without length or precision: "numeric(10,2)" is "numeric"."""
    head, bracket, rest = name.partition("(")
    return (head.strip() + rest.partition(")")[2]) if bracket else name


def compared_exactly(types: set[str]) -> bool:
    """Whether a value of one of these types equals one value of each other at most.

    A bigint turned into a float loses digits, a timestamp gains a time zone whose clock leaves out an hour.
    """
    return len(types) == 1 or types <= INTEGERS | {"numeric"} or types <= TEXTS


def has_twins(kind: str, declared: str) -> bool:
    """Whether values of a type can be equal and look different: 1.0 and 1.00, "24 hours" and "1 day".

    `declared` has the precision: numeric(10,2) always writes two digits.
    """
    return kind in LOOSE_TYPES or (kind == "numeric" and "(" not in declared)
