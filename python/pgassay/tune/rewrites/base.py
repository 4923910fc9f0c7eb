"""What a rewrite is: where its pattern stands in a statement, and the change with the reason why it is
right."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pglast import ast

from pgassay.tune.candidate import RewriteProof
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.rewrites.conditions.calls import has_aggregates, is_aggregate
from pgassay.tune.rewrites.conditions.proofs import resolved
from pgassay.tune.rewrites.names.outputs import output_expression
from pgassay.tune.rewrites.names.scope import FoundColumn, Scope
from pgassay.tune.rewrites.names.tree_scopes import scoped_selects
from pgassay.tune.rewrites.tree import RefusedError, column, items, names_of, walk


@dataclass(frozen=True)
class Site:
    """A place where the pattern stands. `scope` is that of the SELECT around it, None for a set operation."""

    node: ast.Node
    scope: Scope | None = None


@dataclass(frozen=True)
class Edit:
    """Nodes and what takes their place, and why the rows stay the same."""

    replacements: tuple[tuple[ast.Node, ast.Node], ...]
    condition: str
    proof: RewriteProof = "proven"


@dataclass
class Context:
    """A statement that is looked at: its tree, the facts, and the scope of each of its SELECTs."""

    tree: ast.Node
    facts: SchemaFacts
    scopes: tuple[Scope, ...] = field(default=())

    @classmethod
    def of(cls, tree: ast.Node, facts: SchemaFacts) -> "Context":
        """With the scopes of all SELECTs that have one."""
        return cls(tree, facts, tuple(one for one in scoped_selects(tree, facts) if isinstance(one, Scope)))

    def nodes(self) -> Iterator[Site]:
        """Every node of every SELECT with its scope, not those of subqueries twice."""
        for scope in self.scopes:
            for node in walk(scope.select, into_selects=False):
                yield Site(node, scope)


@dataclass(frozen=True)
class Rewrite:
    """A kind of rewrite. `edit` raises `RefusedError` where a site's condition is not proven.

    `problem`: what makes a statement slow that has the pattern, in a clause.
    All sites of a statement are changed together, unless `apart`: then each makes a statement of its own.
    `moves`: conditions come to stand in another order, in which a parameter may get its type elsewhere.
    """

    kind: str
    sites: Callable[[Context], Iterator[Site]]
    edit: Callable[[Context, Site], Edit]
    problem: str
    apart: bool = False
    moves: bool = False


def scope_of_site(site: Site) -> Scope:
    """The site's scope; only set operations have none."""
    if site.scope is None:
        raise RefusedError("the tables around it are not known")
    return site.scope


def qualified(scope: Scope, reference: ast.ColumnRef, inner: Scope) -> ast.ColumnRef:
    """The reference with its table's name, to stand inside `inner`, where nothing else may have that name."""
    found = scope.resolve(reference)
    name = found.entry.name
    if not name or any(entry.name == name for entry in inner.entries):
        raise RefusedError(f"{name or 'a table'} means something else inside the subquery")
    made = column(name, found.column.name)
    if scope.resolve(made).entry is not found.entry:
        raise RefusedError(f"{name} means something else here")
    return made


def check_grouping(site: Site, reference: ast.ColumnRef) -> None:
    """Refuse to name a column where its SELECT is grouped, and perhaps only by what the site makes of it.

    GROUP BY day::date lets day::date stand in HAVING and in the output, but not day.
    """
    owner: Scope | None = scope_of_site(site)
    found = scope_of_site(site).resolve(reference)
    for _ in range(found.level):
        owner = owner.parent if owner is not None else None
    assert owner is not None
    select = owner.select
    if not has_aggregates(select):
        return
    aggregates = tuple(
        one for one in walk((select.targetList, select.havingClause, select.sortClause)) if is_aggregate(one)
    )
    free = (select.fromClause, select.whereClause, aggregates)
    if any(one is site.node for part in free for one in walk(part)):
        return
    for item in items(select.groupClause):
        group = resolved(owner, output_expression(select, item, owner))
        if group is not None and group.entry is found.entry and group.column.name == found.column.name:
            return
    raise RefusedError(f"{named(found, reference)} stands where the statement is grouped by something else")


def named(found: FoundColumn, reference: ast.ColumnRef) -> str:
    """A column as sentences name it."""
    return f"{found.entry.name}.{found.column.name}" if found.entry.name else ".".join(names_of(reference))
