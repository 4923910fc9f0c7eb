"""A user's own build: the path of its bin folder."""

from collections.abc import Sequence
from typing import ClassVar

from pgassay.environment.builds.base import Origin
from pgassay.environment.builds.inspect import inspect
from pgassay.errors import UsageError
from pgassay.model.build import Build
from pgassay.value_syntax.paths import typed_path


class PathOrigin(Origin):
    """Takes a path where the other origins take a version; knows no builds by itself."""

    name: ClassVar[str] = "path"

    def builds(self) -> Sequence[Build]:
        """Return nothing: a path is only used when it is typed."""
        return ()

    def find(self, version: str) -> Build | None:
        """Return the build in the folder `version`. Raises UsageError when there is none."""
        folder = typed_path(version).absolute()
        if not folder.is_dir():
            raise UsageError(
                f"There is no folder {folder}: give the bin folder of a PostgreSQL server, "
                "such as /usr/lib/postgresql/18/bin."
            )
        # `--pg /opt/postgresql-18` means the installation as a whole.
        if not (folder / "postgres").exists() and (folder / "bin" / "postgres").exists():
            folder = folder / "bin"
        return inspect(folder, self.name)
