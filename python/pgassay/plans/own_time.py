"""Each node's own part of a statement's time.

EXPLAIN prints for a node the mean time of a loop, with the nodes below it (src/backend/commands/explain.c,
src/backend/executor/instrument.c). The loops of a parallel leader and its workers are added up
(ExecParallelRetrieveInstrumentation of execParallel.c). So time × loops is what all processes spent together.

- **Below a Gather** that many processes ran side by side, and their sum is more than the statement took. A
  node counts with the mean of the processes that took part: time × loops / processes, where `processes` is
  how often the node just below the Gather ran for each run of the Gather. That number is in the plan itself:
  a leader that did not take part, or a worker that never came, is not counted. What a Gather takes itself is
  the rest of its time: starting the workers, passing rows on, waiting for the slowest.
- **The bitmap of a parallel Bitmap Heap Scan** is made by one process while the others wait
  (nodeBitmapHeapscan.c): it counts whole, unless their mean time is shorter, since then some came later.
- **A SubPlan** runs within the node that it is printed below. One that several nodes use, as the partitions
  of a table do, is printed once: its time is taken from all of them by the rows that each looked at. In an
  index condition on the inner side of a join it runs while the join starts the scan again, outside the scan's
  time.
- **An InitPlan** is printed below the top of its query and runs within the node that first needs its value,
  which names it in a condition. Values that workers need are computed before they start, within the Gather.
- **A CTE** runs within its CTE Scans, for the first that asks for a row. Where there are several, what is
  left to them (the reading of stored rows) is shared by the rows that each read.
- **Shutting down** a plan goes through its InitPlans and CTEs too and waits for their workers
  (ExecShutdownNode of execProcnode.c): what does not fit into the time of the nodes that used one passed
  there, within the node that it is printed below.
- **A CTE that changes data** runs on after the plan for what no scan has asked for (ExecPostprocessPlan of
  execMain.c): that part is in no other node's time.

Each node's time is taken from exactly one place, so all own times together are the top node's time and that
of what ran after it. Nothing is cut off or scaled: a time below zero says that EXPLAIN's figures contradict
each other by so much, of which `rounding_ms` can be its rounding.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pgassay.plans.nodes import Draft

# Times are printed in milliseconds with three digits: half of the last one, for each loop.
ROUNDING_MS = 0.0005
_GATHERS = ("Gather", "Gather Merge")
_EVALUATED = (
    "Filter",
    "Join Filter",
    "Index Cond",
    "Recheck Cond",
    "One-Time Filter",
    "TID Cond",
    "Order By",
)
_RESTARTED = ("Index Cond", "TID Cond", "Order By")
_REFERENCE = re.compile(r"\$\d{1,9}|(?:InitPlan|SubPlan) [^\s()]{1,100}")
_RETURNS = re.compile(r"\$\d{1,9}")


@dataclass
class Shares:
    """What each node takes, by its id: milliseconds of the statement, and blocks.

    own, total: of the statement's time. processes: how many ran the node. below: the nodes whose time is
    within the node's, each with the share of it that is.
    """

    total: list[float]
    own: list[float]
    rounding: list[float]
    processes: list[float]
    within: list[list[tuple[int, float]]] = field(default_factory=list)


@dataclass
class _Tree:
    """The nodes with what is asked of them; `free` is a node's time without what was found within it."""

    nodes: Sequence[Draft]
    children: list[list[int]]
    shares: Shares
    free: list[float]
    references: dict[str, list[int]]
    # Behind the last node below each: parents stand first.
    ends: list[int]
    scans: dict[str, list[int]]
    # Where a CTE can be seen: (the node that it is printed below, "CTE name").
    scopes: set[tuple[int, str]]

    def take(self, child: int, holders: Sequence[tuple[int, float]]) -> None:
        """The child's time is within the holders', by these weights, which add up to 1 at most."""
        for holder, weight in holders:
            if weight:
                self.shares.within[holder].append((child, weight))
                self.free[holder] -= weight * self.shares.total[child]

    def can_hold(self, node: int, time_ms: float) -> bool:
        """Whether that much time can have passed within a node, besides what is known to have."""
        return self.free[node] + self.shares.rounding[node] + ROUNDING_MS >= time_ms


def shares_of(nodes: Sequence[Draft]) -> Shares:
    """Each node's part of the time; nodes stand parents first. Without times all are 0."""
    count = len(nodes)
    children: list[list[int]] = [[] for _ in nodes]
    for node in nodes:
        if node.parent is not None:
            children[node.parent].append(node.id)
    processes = _processes(nodes)
    total = [node.number("loop_ms") * node.number("loops") / processes[node.id] for node in nodes]
    shares = Shares(total, [0.0] * count, [0.0] * count, processes, [[] for _ in nodes])
    tree = _Tree(
        nodes,
        children,
        shares,
        list(total),
        _references(nodes),
        _ends(nodes),
        _cte_scans(nodes),
        _scopes(nodes),
    )
    for node in nodes:
        loops = [node.number("loops")] + [nodes[child].number("loops") for child in children[node.id]]
        shares.rounding[node.id] = ROUNDING_MS * sum(loops) / processes[node.id]
    for node in nodes:
        if node.parent is not None and node.subplan is None:
            tree.take(node.id, [(node.parent, 1.0)])
    # The innermost first, so that what they took is known to those around them.
    for node in reversed(nodes):
        if node.subplan is not None and node.parent is not None:
            tree.take(node.id, _holders(tree, node))
    shares.own = tree.free
    return shares


def _ends(nodes: Sequence[Draft]) -> list[int]:
    ends = [node.id + 1 for node in nodes]
    for node in reversed(nodes):
        if node.parent is not None:
            ends[node.parent] = max(ends[node.parent], ends[node.id])
    return ends


def _cte_scans(nodes: Sequence[Draft]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for node in nodes:
        if node.type == "CTE Scan":
            found.setdefault(str(node.values["relation"]), []).append(node.id)
    return found


def _scopes(nodes: Sequence[Draft]) -> set[tuple[int, str]]:
    return {(node.parent, node.subplan) for node in nodes if node.subplan and node.parent is not None}


def blocks_within(shares: Shares, counts: Sequence[float]) -> list[float]:
    """Of counts that include the nodes below: each node's own."""
    return [
        counts[node] - sum(weight * counts[child] for child, weight in within)
        for node, within in enumerate(shares.within)
    ]


# --- Parallel processes.


def _processes(nodes: Sequence[Draft]) -> list[float]:
    """For each node by how many processes its summed time is divided."""
    made: list[float] = []
    # Outside of the nearest Gather: what one process does while the others wait for it.
    outside: list[float] = []
    for node in nodes:
        if node.parent is None:
            made.append(1.0)
            outside.append(1.0)
            continue
        parent = nodes[node.parent]
        around, beyond = made[node.parent], outside[node.parent]
        loops, parent_loops = node.number("loops"), parent.number("loops")
        if node.subplan is None and parent.type in _GATHERS:
            runs = loops / parent_loops if parent_loops else 1.0
            made.append(around * max(1.0, runs))
            outside.append(around)
        elif _is_bitmap_of_all(node, parent, around, beyond):
            made.append(beyond)
            outside.append(beyond)
        else:
            made.append(around)
            outside.append(beyond)
    return made


def _is_bitmap_of_all(node: Draft, parent: Draft, around: float, beyond: float) -> bool:
    """Whether the other processes can have waited for all of a bitmap."""
    return (
        node.subplan is None
        and parent.type == "Bitmap Heap Scan"
        and parent.values["parallel"] is True
        and node.number("loops") < parent.number("loops")
        and node.number("loop_ms") * node.number("loops") * around
        <= parent.number("loop_ms") * parent.number("loops") * beyond
    )


# --- SubPlans, InitPlans and CTEs: within which nodes their time is.


def _references(nodes: Sequence[Draft]) -> dict[str, list[int]]:
    """The nodes whose conditions name a SubPlan, an InitPlan or a parameter, by that name."""
    found: dict[str, list[int]] = {}
    for node in nodes:
        conditions = node.values["conditions"]
        texts = (
            [conditions[key] for key in _EVALUATED if key in conditions]
            if isinstance(conditions, dict)
            else []
        )
        for name in {name for text in texts for name in _REFERENCE.findall(text)}:
            found.setdefault(name, []).append(node.id)
    return found


def _holders(tree: _Tree, node: Draft) -> list[tuple[int, float]]:
    """The nodes within whose time a SubPlan, InitPlan or CTE ran, with their shares of it."""
    name = node.subplan or ""
    if name.startswith("CTE "):
        return _scans_of(tree, node, name.removeprefix("CTE "))
    if name.startswith("SubPlan "):
        return _users_of(tree, node, name)
    return _evaluators_of(tree, node, name)


def _inside(tree: _Tree, top: int, nodes: Iterable[int]) -> list[int]:
    """Those of the nodes that stand below `top`, or are it."""
    return [node for node in nodes if top <= node < tree.ends[top]]


def _evaluators_of(tree: _Tree, node: Draft, name: str) -> list[tuple[int, float]]:
    """The node within which an InitPlan ran; where its workers ended later, the node around it as well."""
    parent = node.parent or 0
    words = [*_RETURNS.findall(name), name.partition(" (")[0]]
    named = [user for word in words for user in tree.references.get(word, ())]
    below_itself = set(_inside(tree, node.id, named))
    users = [
        _or_gather(tree, user, parent) for user in _inside(tree, parent, named) if user not in below_itself
    ]
    time_ms = tree.shares.total[node.id]
    until_first_row = node.number("startup_loop_ms") * node.number("loops") / tree.shares.processes[node.id]
    for part in (time_ms, min(until_first_row, time_ms)):
        place = _place_for(tree, users, parent, part, time_ms)
        if place is not None:
            share = part / time_ms if time_ms else 1.0
            return [(place, share), (parent, 1.0 - share)] if place != parent else [(parent, 1.0)]
    return [(parent, 1.0)]


def _place_for(tree: _Tree, users: Sequence[int], top: int, time_ms: float, whole_ms: float) -> int | None:
    """The node that can have held an InitPlan for so long: of those that name it, else by the times alone.

    `top`, which holds the shutting down as well, must have room for all of it. A list of results may name
    it, which only VERBOSE prints, or an Append that leaves partitions out.
    """
    able = [user for user in users if tree.can_hold(user, time_ms)]
    if able:
        return max(able, key=lambda user: tree.free[user])
    place = top
    while not tree.can_hold(place, whole_ms if place == top else time_ms):
        below = [child for child in tree.children[place] if tree.nodes[child].subplan is None]
        below = [
            child for child in below if tree.shares.total[child] + tree.shares.rounding[child] >= time_ms
        ]
        if not below or tree.nodes[place].type in _GATHERS:
            return None
        place = max(below, key=lambda child: tree.shares.total[child])
    return place


def _or_gather(tree: _Tree, user: int, top: int) -> int:
    """The outermost Gather between a node and `top`, which computes the value first; else the node."""
    found, place = user, user
    while place != top:
        parent = tree.nodes[place].parent
        if parent is None:
            break
        place = parent
        if tree.nodes[place].type in _GATHERS:
            found = place
    return found


def _users_of(tree: _Tree, node: Draft, name: str) -> list[tuple[int, float]]:
    """The nodes within which a SubPlan ran."""
    parent = node.parent or 0
    users = [
        user for user in dict.fromkeys([parent, *tree.references.get(name, ())]) if _looked_at(tree, user)
    ]
    users = [user for user in users if not _inside(tree, node.id, [user])]
    time_ms = tree.shares.total[node.id]
    if len(users) > 1:
        rows = [_looked_at(tree, user) for user in users]
        room = [max(0.0, tree.free[user]) for user in users]
        if sum(room) > 0:
            return _by_rest(users, rows, room, time_ms)
    place = parent
    if _is_restarted(tree, parent, name) and tree.nodes[parent].parent is not None:
        place = tree.nodes[parent].parent or 0
    while not tree.can_hold(place, time_ms):
        above = tree.nodes[place].parent
        if above is None or tree.nodes[place].subplan is not None:
            return [(parent, 1.0)]
        place = above
    return [(place, 1.0)]


def _is_restarted(tree: _Tree, node: int, name: str) -> bool:
    """Whether a scan evaluates a SubPlan when the join above it starts the scan again."""
    draft = tree.nodes[node]
    conditions = draft.values["conditions"]
    above = tree.nodes[draft.parent] if draft.parent is not None else None
    if above is None or not isinstance(conditions, dict) or draft.number("loops") <= above.number("loops"):
        return False
    return any(name in _REFERENCE.findall(conditions.get(key, "")) for key in _RESTARTED)


def _looked_at(tree: _Tree, node: int) -> float:
    draft = tree.nodes[node]
    return (draft.number("rows") + draft.number("rows_removed")) * draft.number("loops")


def _scans_of(tree: _Tree, node: Draft, name: str) -> list[tuple[int, float]]:
    """The CTE Scans within which a CTE ran; those of a CTE of the same name further in are not meant."""
    parent = node.parent or 0
    scans = [
        scan
        for scan in _inside(tree, parent, tree.scans.get(name, ()))
        if _scope_of(tree, scan, node.subplan or "") == parent
    ]
    time_ms = tree.shares.total[node.id]
    # Without timing, blocks alone are shared.
    of = tree.shares.total if time_ms else [each.number("loops") for each in tree.nodes]
    scans = [scan for scan in scans if of[scan] > 0]
    if not scans:
        return []
    room = [max(0.0, tree.free[scan]) for scan in scans]
    if sum(room) < time_ms:
        held = [(scan, space / time_ms) for scan, space in zip(scans, room, strict=True)]
        rest = 1.0 - sum(room) / time_ms
        return held if node.type == "ModifyTable" else [*held, (parent, rest)]
    return _by_rest(scans, [_looked_at(tree, scan) for scan in scans], room, time_ms)


def _scope_of(tree: _Tree, scan: int, name: str) -> int | None:
    """The nearest node that has a CTE of this name: a CTE Scan, which may be a query's top, or one above."""
    place: int | None = scan
    while place is not None:
        if (place, name) in tree.scopes:
            return place
        place = tree.nodes[place].parent
    return None


def _by_rest(
    holders: Sequence[int], rows: Sequence[float], room: Sequence[float], time_ms: float
) -> list[tuple[int, float]]:
    """The holders' shares of a time, so that what is left to each is in proportion to its rows.

    room: each holder's time, the shared one within it. Where the rest by rows would be more than a holder's
    time, its share is 0 and the others have the rest.
    """
    if time_ms <= 0:
        return [(holders[0], 1.0)]
    rest = sum(room) - time_ms
    if rest <= 0 or not any(rows):
        whole = sum(room)
        return [
            (holder, space / whole if whole else 1 / len(room))
            for holder, space in zip(holders, room, strict=True)
        ]
    kept = [0.0] * len(room)
    open_places = list(range(len(room)))
    while open_places:
        weight = sum(rows[place] for place in open_places)
        left = rest - sum(kept[place] for place in range(len(room)) if place not in open_places)
        if not weight:
            space = sum(room[place] for place in open_places)
            for place in open_places:
                kept[place] = left * room[place] / space if space else 0.0
            break
        full = [place for place in open_places if left * rows[place] / weight > room[place]]
        if not full:
            for place in open_places:
                kept[place] = left * rows[place] / weight
            break
        for place in full:
            kept[place] = room[place]
            open_places.remove(place)
    return [(holder, (room[at] - kept[at]) / time_ms) for at, holder in enumerate(holders)]
