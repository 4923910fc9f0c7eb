"""Draws docs/report.svg, the README's picture, from a run of the README's first command.

`python tests/frozen/picture.py [FOLDER]`: runs the command, or takes the results of an earlier run of it.
"""

import shlex
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "python")]

from frozen import entry_points  # noqa: E402  (its place is known only now)
from frozen.plans import FILES  # noqa: E402
from frozen.real import pgassay  # noqa: E402

PICTURE = ROOT / "docs" / "report.svg"
WIDTH_PX = 720
MARGIN_PX = 12


def main() -> None:
    """Write the picture."""
    if len(sys.argv) > 1:
        draw(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sort.sql").write_text(FILES["sort.sql"], "utf-8")
        pgassay(Path(folder), *first_command(), "--out", "picture", "--quiet", statuses=(0,))
        draw(Path(folder) / "picture")


def first_command() -> list[str]:
    """The words behind `pgassay` of the README's first command."""
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    return shlex.split(next(line for line in lines if line.startswith("$ pgassay ")))[2:]


def draw(results: Path) -> None:
    """The picture of these results."""
    PICTURE.write_text(on_white(entry_points.intervals_and_trials(results, WIDTH_PX)), "utf-8")


def on_white(drawings: list[str]) -> str:
    """The drawings one below the other, on white: pages that show them may be dark."""
    placed, top_px, right_px = [], MARGIN_PX, 0
    for drawing in drawings:
        box = ElementTree.fromstring(drawing).attrib["viewBox"]
        width_px, height_px = (round(float(side)) for side in box.split()[2:])
        place = f'<svg x="{MARGIN_PX}" y="{top_px}" width="{width_px}" height="{height_px}" viewBox="{box}">'
        placed.append(place + drawing.partition(">")[2])
        top_px += height_px + MARGIN_PX
        right_px = max(right_px, width_px + 2 * MARGIN_PX)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{right_px}" height="{top_px}">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="#fff"/>', *placed, "</svg>\n"])


if __name__ == "__main__":
    main()
