"""All plants."""

from tune_plants import indexes, more_indexes, operations, settings
from tune_plants.base import Plant

PLANTS: tuple[Plant, ...] = (*indexes.PLANTS, *more_indexes.PLANTS, *operations.PLANTS, *settings.PLANTS)
