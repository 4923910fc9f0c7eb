"""The kind `toy`: a folder called `toy-box` where the user points."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from pgassay.environment.home import account
from pgassay.errors import UsageError
from pgassay.model.storage import StorageSpec
from pgassay.storage.base import StorageKind
from pgassay.storage.file_copies import free_bytes, make_folder
from pgassay.storage.host import HostVolume
from pgassay.storage.storage_options import describe


def colour(key: str, value: str, text: str) -> str:
    """The box's colour; raises UsageError for one that no toy has."""
    if value not in ("red", "green", "blue"):
        raise UsageError(f"'{key}={value}' in '{text}' is not a colour: type red, green or blue.")
    return value


class ToyKind(StorageKind):
    """Working copies in the toy box."""

    name = "toy"
    keys = ("path", "colour")
    own_keys: ClassVar[dict[str, Callable[[str, str, str], str]]] = {"colour": colour}
    refusals: ClassVar[dict[str, str]] = {"size": "can't be had: a toy box is as large as its disk."}

    def capability(self) -> str | None:
        """None: any machine has a folder."""
        return None

    def provide(self, spec: StorageSpec, bytes_needed: int) -> "ToyVolume":
        """Make the box; raises UsageError when no folder is named."""
        if spec.path is None:
            raise UsageError("The storage 'toy' has no folder: type toy:path=….")
        if free_bytes(Path(spec.path)) < bytes_needed:
            raise UsageError(f"The data do not fit into {spec.path}: choose another folder.")
        box = Path(spec.path) / "toy-box"
        make_folder(box, account())
        return ToyVolume(spec, box)


class ToyVolume(HostVolume):
    """A folder as the kind `host` uses it, under a name of its own."""

    def facts(self) -> Mapping[str, object]:
        """See `Volume.facts`."""
        return {
            **super().facts(),
            "kind": "toy",
            **dict(self.spec.own),
            "storage": describe(self.spec, ToyKind.keys),
        }
