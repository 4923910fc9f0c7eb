"""All plants."""

from tune_plants import indexes
from tune_plants.base import Plant

PLANTS: tuple[Plant, ...] = (*indexes.PLANTS,)
