"""A deep OFFSET: pages by key instead are another contract with the application, so they are only
described."""

from collections.abc import Iterator

from pglast import ast

from pgassay.tune.rewrites.base import Context
from pgassay.tune.rewrites.tree import RefusedError, constant, items, new_select, walk, write

DEEP_ROWS = 100


def descriptions(context: Context) -> Iterator[str]:
    """A sentence for each OFFSET that is deep, or that a parameter says, below an ORDER BY."""
    for node in walk(context.tree):
        if not isinstance(node, ast.SelectStmt) or node.limitOffset is None or not node.sortClause:
            continue
        rows = constant(node.limitOffset)
        if not isinstance(node.limitOffset, ast.ParamRef) and not (
            isinstance(rows, int) and rows >= DEEP_ROWS
        ):
            continue
        try:
            keys = ", ".join(write_expression(one) for one in items(node.sortClause))
        except RefusedError:
            continue
        yield (
            "OFFSET reads and throws away every row before the page. Where the application passes the last "
            f"row's values of {keys} (with a unique column last), WHERE (…) > (…) finds the next page by an "
            "index. Pages then can't be jumped to by number, and rows that are added or removed meanwhile "
            "don't shift them: the application has to want that, so it is never done by itself."
        )


def write_expression(item: ast.Node) -> str:
    """An item of ORDER BY as text, without its direction."""
    assert isinstance(item, ast.SortBy) and isinstance(item.node, ast.Node)
    select = new_select(targetList=(ast.ResTarget(val=item.node),))
    return write(select).removeprefix("SELECT ")
