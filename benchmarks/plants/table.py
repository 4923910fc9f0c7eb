"""All plants, in the order in which they are run: of each name the first is the one of a quick run."""

from plants import (
    by_sql,
    inherited,
    mixtures,
    network,
    reading,
    standby,
    upkeep,
    working,
    write_side,
    writing,
)
from plants.base import Plant

PLANTS: tuple[Plant, ...] = (
    *reading.PLANTS,
    *working.PLANTS,
    *writing.PLANTS,
    *write_side.PLANTS,
    *standby.PLANTS,
    *upkeep.PLANTS,
    *network.PLANTS,
    *inherited.PLANTS,
    *mixtures.PLANTS,
    *by_sql.PLANTS,
)
