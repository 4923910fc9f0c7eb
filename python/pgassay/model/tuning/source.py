"""What a tuning says of the server that its statements were read from."""

from pydantic import Field

from pgassay.model.base import Frozen

# In the reason of a statement that a right would bring in, before what to grant.
NO_RIGHT = "may not read the tables"


class SourceLeftOut(Frozen):
    """A statement of the server that is not measured, and why.

    `sql`: as pg_stat_statements has it, constants as $1, $2 …; `share`: its part of the time of all
    statements of its database, 0 to 1.
    """

    name: str
    sql: str
    share: float
    reason: str


class TuneSource(Frozen):
    """A server that was read, and never changed.

    `name`: HOST:PORT/DATABASE. `since`: when its statements were counted from, '' where it does not say.
    `seconds`: of all statements of the database since then; `statements`: how many there were. `share`: the
    part of that time which those that are measured took. `ignored`: how many statements were passed over, by
    the kind that they are of. `settings`: those that the copy was given as the source has them. `sessions`:
    how many of its sessions were at work at once on average, None in answers that did not ask.
    """

    name: str
    version: str
    since: str = ""
    seconds: float
    statements: int
    share: float
    left_out: tuple[SourceLeftOut, ...] = ()
    ignored: dict[str, int] = Field(default_factory=dict)
    settings: dict[str, str] = Field(default_factory=dict)
    sessions: float | None = None
