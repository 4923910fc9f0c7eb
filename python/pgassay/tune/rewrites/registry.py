"""Every rewrite, and what they make of a statement."""

from collections.abc import Iterator
from dataclasses import dataclass

from pglast import ast

from pgassay.tune.candidate import StatementRewrite, TunedStatement
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.rewrites import (
    aggregate_join,
    count_exists,
    cte,
    distinct_exists,
    function_range,
    implicit_cast,
    lateral,
    not_in,
    or_union,
    scalar_subquery,
    union_all,
)
from pgassay.tune.rewrites.base import Context, Edit, Rewrite, Site
from pgassay.tune.rewrites.conditions.decided import why_undecided
from pgassay.tune.rewrites.conditions.trust import why_untrusted
from pgassay.tune.rewrites.names.outputs import keep_names
from pgassay.tune.rewrites.names.tree_scopes import scoped_selects
from pgassay.tune.rewrites.tree import (
    RefusedError,
    constant,
    items,
    meaning,
    new_select,
    read,
    substitute,
    walk,
    write,
)

REWRITES: tuple[Rewrite, ...] = (
    aggregate_join.REWRITE,
    count_exists.REWRITE,
    cte.REWRITE,
    distinct_exists.REWRITE,
    function_range.REWRITE,
    implicit_cast.REWRITE,
    lateral.REWRITE,
    not_in.REWRITE,
    or_union.REWRITE,
    scalar_subquery.REWRITE,
    union_all.REWRITE,
)
# An OFFSET of so many rows is deep.
DEEP_ROWS = 100
KINDS = tuple(rewrite.kind for rewrite in REWRITES)


@dataclass(frozen=True)
class Refusal:
    """A rewrite whose pattern is there and whose condition is not proven; `reason` is a clause."""

    kind: str
    reason: str


@dataclass(frozen=True)
class RewriteDescription:
    """A change of the application that is told and never made; `text` is a sentence."""

    kind: str
    text: str


@dataclass(frozen=True)
class Rewritten:
    """What the rewrites make of one statement."""

    found: tuple[StatementRewrite, ...] = ()
    refused: tuple[Refusal, ...] = ()
    described: tuple[RewriteDescription, ...] = ()


def rewrites(statement: TunedStatement, facts: SchemaFacts) -> Rewritten:
    """The rewrites of a statement that keep its rows, each for itself, and those that were refused.

    Nothing is raised: what can't be parsed, or isn't a SELECT, has no rewrite.
    """
    try:
        tree = read(statement.sql)
    except RefusedError as reason:
        return Rewritten(refused=(Refusal("statement", str(reason)),))
    if not isinstance(tree, ast.SelectStmt):
        return Rewritten()
    context = Context.of(tree, facts)
    unsafe = why_undecided(tree, facts) or why_untrusted(tree, facts)
    repeated = _repeated_parameter(tree)
    found: list[StatementRewrite] = []
    refused: list[Refusal] = []
    for rewrite in REWRITES:
        edits: list[Edit] = []
        for site in rewrite.sites(context):
            try:
                if unsafe is not None:
                    raise RefusedError(unsafe)
                if rewrite.moves and repeated:
                    raise RefusedError(f"{repeated} stands in several places, one of which gives it its type")
                edits.append(rewrite.edit(context, site))
            except RefusedError as reason:
                refused.append(Refusal(rewrite.kind, str(reason)))
        for group in [[edit] for edit in edits] if rewrite.apart else [edits] if edits else []:
            try:
                found.append(_made(statement, rewrite, group, context))
            except RefusedError as reason:
                refused.append(Refusal(rewrite.kind, str(reason)))
    texts = tuple(RewriteDescription("keyset", text) for text in _deep_offsets(context))
    return Rewritten(tuple(found), tuple(dict.fromkeys(refused)), texts)


def _repeated_parameter(tree: ast.Node) -> str:
    """A parameter that stands in several places without a cast, '' when none does."""
    cast = {id(node.arg) for node in walk(tree) if isinstance(node, ast.TypeCast)}
    numbers = [node.number for node in walk(tree) if isinstance(node, ast.ParamRef) and id(node) not in cast]
    return next((f"${number}" for number in numbers if numbers.count(number) > 1), "")


def _made(
    statement: TunedStatement, rewrite: Rewrite, edits: list[Edit], context: Context
) -> StatementRewrite:
    replacements = {id(old): new for edit in edits for old, new in edit.replacements}
    names = keep_names(context.tree, set(replacements))
    tree = substitute(
        context.tree, replacements | {key: new for key, new in names.items() if key not in replacements}
    )
    if meaning(tree) == meaning(context.tree):
        raise RefusedError("nothing changes")
    refusals = [one for one in scoped_selects(tree, context.facts) if isinstance(one, RefusedError)]
    if refusals:
        raise RefusedError(f"the names of what it would become are in doubt: {refusals[0]}")
    reason = why_undecided(tree, context.facts)
    if reason is not None:
        raise RefusedError(reason)
    conditions = tuple(dict.fromkeys(edit.condition for edit in edits))
    proven = all(edit.proof == "proven" for edit in edits)
    return StatementRewrite(
        statement=statement.name,
        sql=write(tree),
        condition=" ".join(conditions),
        proof="proven" if proven else "by test",
        kind=rewrite.kind,
        problem=rewrite.problem,
    )


def _deep_offsets(context: Context) -> Iterator[str]:
    """A sentence for each OFFSET that is deep, or that a parameter says, below an ORDER BY.

    Pages by key are another contract with the application, so they are only described.
    """
    for node in walk(context.tree):
        if not isinstance(node, ast.SelectStmt) or node.limitOffset is None or not node.sortClause:
            continue
        rows = constant(node.limitOffset)
        if not isinstance(node.limitOffset, ast.ParamRef) and not (
            isinstance(rows, int) and rows >= DEEP_ROWS
        ):
            continue
        try:
            keys = ", ".join(_order_text(one) for one in items(node.sortClause))
        except RefusedError:
            continue
        yield (
            "OFFSET reads and throws away every row before the page. Where the application passes the last "
            f"row's values of {keys} (with a unique column last), WHERE (…) > (…) finds the next page by an "
            "index. Pages then can't be jumped to by number, and rows that are added or removed meanwhile "
            "don't shift them: the application has to want that, so it is never done by itself."
        )


def _order_text(item: ast.Node) -> str:
    """An item of ORDER BY as text, without its direction."""
    assert isinstance(item, ast.SortBy) and isinstance(item.node, ast.Node)
    select = new_select(targetList=(ast.ResTarget(val=item.node),))
    return write(select).removeprefix("SELECT ")


__all__ = ["KINDS", "REWRITES", "Refusal", "RewriteDescription", "Rewritten", "Site", "rewrites"]
