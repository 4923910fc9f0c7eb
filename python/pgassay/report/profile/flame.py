"""A flame graph for the page: its data for the script that draws it, and the still picture without one."""

import json
import math
from html import escape

from pgassay.analysis.profile.flame import FlameNode
from pgassay.report import text
from pgassay.report.section import FlameGraph

WIDTH_PX, ROW_PX = 900, 17
# A frame that is narrower has no room for a letter, and one of a tenth of a pixel none for itself.
LETTER_PX, LEAST_PX = 6.6, 0.4


def data(graph: FlameGraph) -> str:
    """The tree as JSON without a sign that HTML gives a meaning; all of it is ASCII.

    A frame is its name's number, its times in ns in the control and in the arm, and the frames that it calls.
    """
    numbers: dict[str, int] = {}

    def frame(node: FlameNode) -> list[object]:
        number = numbers.setdefault(text.clean(node.name), len(numbers))
        times = [round(node.control_us * 1000), round(node.arm_us * 1000)]
        return [number, *times, [frame(child) for child in node.children]]

    tree = frame(graph.root)
    document = {
        "control": text.clean(graph.control),
        "arm": text.clean(graph.arm),
        "unit": graph.unit,
        "sample": round(graph.sample_us * 1000, 3),
        "names": list(numbers),
        "tree": tree,
    }
    made = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return made.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def svg(graph: FlameGraph) -> str:
    """The still picture, callers above what they call, for paper and for a page that runs no script."""
    total = graph.root.width_us or 1.0
    parts: list[str] = []
    depth_max = 0
    waiting = [(graph.root, 0.0, 0)]
    while waiting:
        node, left_us, depth = waiting.pop()
        depth_max = max(depth_max, depth)
        width_px = node.width_us / total * WIDTH_PX
        place = left_us / total * WIDTH_PX, depth * ROW_PX, width_px
        parts.append(_frame(node, *place, graph))
        for child in node.children:
            if child.width_us / total * WIDTH_PX >= LEAST_PX:
                waiting.append((child, left_us, depth + 1))
            left_us += child.width_us
    height_px = (depth_max + 1) * ROW_PX
    return (
        f'<svg viewBox="0 0 {WIDTH_PX} {height_px}" width="{WIDTH_PX}" height="{height_px}" role="img" '
        f'aria-label="{escape(text.clean(graph.label))}">{"".join(parts)}</svg>'
    )


def _frame(node: FlameNode, left_px: float, top_px: float, width_px: float, graph: FlameGraph) -> str:
    name = text.clean(node.name)
    before = "" if graph.is_of_one else f"{text.figure(node.control_us)} → "
    times = f"{name}: {before}{text.figure(node.arm_us)} µs"
    rect = (
        f'<rect x="{left_px:.1f}" y="{top_px}" width="{max(width_px - 0.5, 0.2):.1f}" height="{ROW_PX - 1}" '
        f'style="fill:{colour(node, graph.sample_us)}"><title>{escape(times)}</title></rect>'
    )
    letters = int((width_px - 6) / LETTER_PX)
    if letters < 3:
        return rect
    shown = name if len(name) <= letters else f"{name[: letters - 1]}…"
    return f'{rect}<text x="{left_px + 3:.1f}" y="{top_px + 12}">{escape(shown)}</text>'


def colour(node: FlameNode, sample_us: float) -> str:
    """How much more (the colour of what is worse) or less the arm takes, from none to a half and more.

    Paler where the difference is less than two standard deviations of what counting samples gives.
    """
    greater = max(node.control_us, node.arm_us)
    moved = node.arm_us - node.control_us
    change = moved / greater if greater else 0.0
    noise = 2 * math.sqrt((node.arm_us + node.control_us) * sample_us)
    certainty = min(1.0, abs(moved) / noise) if noise else 0.0
    strength = round(min(1.0, abs(change) * 2) * certainty * 65)
    return f"color-mix(in srgb,var(--{'bad' if change > 0 else 'same'}) {strength}%,var(--band))"
