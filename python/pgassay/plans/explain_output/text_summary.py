"""What stands below a plan in EXPLAIN's text: planning, settings, triggers, JIT, serialization, times."""

import re
from dataclasses import dataclass, field

from pgassay.plans.explain_output.text_details import Keys, keys_of_line
from pgassay.plans.explain_output.text_names import number_of

# A line of the summary stands at the column of the plan's top node; a pasted text may have lost one space
# there.
_COLUMN_MAX = 1
_BEGINS = re.compile(
    r"(?:Planning:|JIT:|Settings: |Query Identifier: |Planning Time: |Execution Time: |Trigger "
    r"|Serialization: |Total runtime: |Query Text: |Query Parameters: )"
)
_TRIGGER_FIGURES = re.compile(r"(?:time=([\d.]+) )?calls=([\d.]+)$")
_JIT_TIME = re.compile(r"(\w+) ([\d.]+) ms")
_KB = re.compile(r"output=(\d+)kB")
# No line of figures is longer.
_FIGURES_LENGTH_MAX = 2000


def begins_summary(text: str, column: int) -> bool:
    """Whether a line begins the part below the plan, or a further item of it."""
    return column <= _COLUMN_MAX and _BEGINS.match(text) is not None


@dataclass
class Summary:
    """The part below the plan while it is read: the item that the next lines belong to, what was found."""

    item: str = ""
    found: Keys = field(default_factory=dict)
    planning: Keys = field(default_factory=dict)
    serialization: Keys = field(default_factory=dict)
    jit: Keys = field(default_factory=dict)
    triggers: list[Keys] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Whether the plan itself has ended."""
        return bool(self.item)

    def begin(self, text: str) -> None:
        """A line that begins an item."""
        self.item = text.partition(":")[0].partition(" for")[0]
        value = text.partition(": ")[2]
        if self.item in ("Planning Time", "Execution Time", "Total runtime"):
            key = "Execution Time" if self.item == "Total runtime" else self.item
            self.found |= keys_of_line(f"{key}: {value}")
        elif self.item == "Query Identifier":
            self.found[self.item] = value.strip()
        elif self.item == "Settings":
            self.found[self.item] = _settings(value)
        elif text.startswith("Trigger "):
            self._trigger(text)
        elif self.item == "Serialization":
            self._serialization(value[:_FIGURES_LENGTH_MAX])

    def add(self, text: str) -> None:
        """A line below the last item."""
        if self.item == "Planning":
            self.planning |= keys_of_line(text)
        elif self.item == "Serialization":
            self.serialization |= keys_of_line(text)
        elif self.item == "JIT":
            self._jit(text[:_FIGURES_LENGTH_MAX])

    def finish(self) -> Keys:
        """All keys of the document beside the plan's."""
        found = dict(self.found)
        parts: Keys = {
            "Planning": self.planning,
            "Serialization": self.serialization,
            "JIT": self.jit,
            "Triggers": self.triggers,
        }
        return found | {key: part for key, part in parts.items() if part}

    def _trigger(self, text: str) -> None:
        head, _, tail = text.rpartition(": ")
        figures = _TRIGGER_FIGURES.match(tail[:_FIGURES_LENGTH_MAX])
        if figures is None:
            return
        made: Keys = {"Calls": number_of(figures[2])}
        head, _, relation = head.removeprefix("Trigger").partition(" on ")
        name, _, constraint = head.partition(" for constraint ")
        for key, value in (("Trigger Name", name), ("Constraint Name", constraint), ("Relation", relation)):
            if value.strip():
                made[key] = value.strip()
        if figures[1]:
            made["Time"] = number_of(figures[1])
        self.triggers.append(made)

    def _serialization(self, value: str) -> None:
        time = re.search(r"time=([\d.]+) ms", value)
        output = _KB.search(value)
        form = re.search(r"format=(\w+)", value)
        if time:
            self.serialization["Time"] = number_of(time[1])
        if output:
            self.serialization["Output Volume"] = int(output[1])
        if form:
            self.serialization["Format"] = form[1]

    def _jit(self, text: str) -> None:
        key, _, value = text.partition(": ")
        if key == "Functions" and value.isdigit() and len(value) < 10:
            self.jit["Functions"] = int(value)
        elif key == "Options":
            words = (part.rpartition(" ") for part in value.split(", "))
            self.jit["Options"] = {name: state == "true" for name, _, state in words}
        elif key == "Timing":
            self.jit["Timing"] = {name: number_of(ms) for name, ms in _JIT_TIME.findall(value)}


def _settings(text: str) -> dict[str, object]:
    """`a = 'b', c = 'd'`: a value ends at a quote that another name follows, or nothing."""
    found: dict[str, object] = {}
    for part in text.split("', "):
        name, equals, value = part.partition(" = '")
        if equals and name and " " not in name:
            found[name] = value
        elif found:
            # A quote and a comma within a value.
            last = next(reversed(found))
            found[last] = f"{found[last]}', {part}"
    if found:
        last = next(reversed(found))
        found[last] = str(found[last]).removesuffix("'")
    return found
