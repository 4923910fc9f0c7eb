"""The frozen set unpacked, and all that is said of it, each thing made once."""

import functools
import shutil
import tempfile
from pathlib import Path
from typing import Self

from frozen import archive, conversations, outputs
from frozen.outputs import Documents

EXPECTED = Path(__file__).with_name("expected")
STRICT = EXPECTED / "strict"
PRIMARY = EXPECTED / "primary.json"
TEXTS = EXPECTED / "texts"


def place(folder: Path, document: str) -> Path:
    """Where a document is kept: in a folder of its subject, `calibrated` of `calibrated.tables.json`."""
    return folder / document.partition(".")[0] / document


class Corpus:
    """A context manager around a folder of its own with every stored experiment."""

    def __enter__(self) -> Self:
        self._place = Path(tempfile.mkdtemp(prefix="pgassay-frozen-"))
        # `calibrate --from` looks for the home's ledger: the servers' account must be able to reach it.
        self._place.chmod(0o755)
        self.folder = self._place / "experiments"
        self.home = self._place / "home"
        self.home.mkdir()
        self.names = archive.unpack(self.folder)
        return self

    def __exit__(self, *details: object) -> None:
        shutil.rmtree(self._place)

    @property
    def experiments(self) -> list[str]:
        """The names of what is an experiment, and no probe and no diagnosis."""
        return [name for name in self.names if name not in outputs.NO_EXPERIMENT]

    @functools.cached_property
    def _said(self) -> tuple[Documents, Documents]:
        strict: Documents = {}
        texts: Documents = {}
        with outputs.neutral(self.home, self.folder):
            for name in self.experiments:
                _add(strict, texts, outputs.experiments(name))
            _add(strict, texts, outputs.others(self.folder))
            texts |= outputs.helps()
            strict |= outputs.schedules()
            texts |= outputs.listings()
        return strict, texts

    def strict(self) -> Documents:
        """Results, differences, tables, schedules, and what Python made of the recorded conversations."""
        return self._said[0] | {"conversations.json": outputs.document(self._replayed[1])}

    def texts(self) -> Documents:
        """Markdown, terminal pages, the words of HTML pages, --help."""
        return self._said[1]

    def by_command(self, name: str) -> tuple[Documents, Documents]:
        """What `pgassay report` prints of one experiment."""
        with outputs.neutral(self.home, self.folder):
            return outputs.by_command(name)

    def asked(self) -> dict[str, list[object]]:
        """What Python sends to the native binary, by transcript."""
        return self._replayed[0]

    @functools.cached_property
    def _replayed(self) -> tuple[dict[str, list[object]], conversations.Facts]:
        with outputs.neutral(self.home, self.folder):
            return conversations.replayed(self.folder)


def _add(strict: Documents, texts: Documents, more: tuple[Documents, Documents]) -> None:
    strict.update(more[0])
    texts.update(more[1])
