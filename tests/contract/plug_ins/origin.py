"""Builds in the folder that TOY_BUILDS names: a folder each, with their programs in `bin`."""

import os
from collections.abc import Sequence
from pathlib import Path

from pgassay.environment.builds.base import Origin
from pgassay.environment.builds.inspect import inspect
from pgassay.model.build import Build


class ToyOrigin(Origin):
    """What lies there now."""

    name = "toy"

    def builds(self) -> Sequence[Build]:
        """Every build below the folder, by name; none where it isn't set."""
        folder = os.environ.get("TOY_BUILDS")
        folders = sorted(Path(folder).glob("*/bin")) if folder else []
        return [inspect(each, self.name) for each in folders]
