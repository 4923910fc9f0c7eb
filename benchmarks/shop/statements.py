"""The statements of a shop's users: those that miss an index, a report, a write, and what needs nothing."""

import random
from dataclasses import dataclass

from shop.tables import Sizes

# A share of the statements beside the report, the write and one that needs nothing misses an index.
_PLANTED_SHARE = 0.75
# What a right fix's SQL names stands behind the name.
_PLANTED = """
login: customers email
SELECT customer_id, full_name FROM customers WHERE email = 'user{customer}@example.org';
order-list: orders customer_id
SELECT order_id, placed_at, total FROM orders
WHERE customer_id = {customer} ORDER BY placed_at DESC LIMIT 20;
order-page: order_lines order_id
SELECT l.quantity, l.price, p.title FROM order_lines l JOIN products p USING (product_id)
WHERE l.order_id = {order};
open-orders: orders placed_at|status
SELECT order_id, customer_id, total FROM orders WHERE status = 'open' ORDER BY placed_at LIMIT 50;
session: events session_key
SELECT kind, happened_at, detail FROM events WHERE session_key = md5('{order}') ORDER BY happened_at;
by-sku: products sku
SELECT product_id, title, price FROM products WHERE attributes->>'sku' = 'SKU-{product}';
sold: order_lines product_id
SELECT count(*), sum(quantity) FROM order_lines WHERE product_id = {product};
my-tickets: tickets assignee|state
SELECT ticket_id, subject, opened_at FROM tickets
WHERE assignee = 'agent{agent}' AND state = 'waiting' ORDER BY opened_at;
customer-events: events customer_id
SELECT kind, happened_at FROM events WHERE customer_id = {customer} ORDER BY happened_at DESC LIMIT 10;
customer-tickets: tickets customer_id
SELECT c.full_name, t.subject FROM tickets t JOIN customers c USING (customer_id)
WHERE t.customer_id = {customer};
last-events: events happened_at
SELECT event_id, kind FROM events
WHERE happened_at > '2026-07-19 20:00+00' AND kind = 'pay' ORDER BY happened_at DESC LIMIT 25
"""
_REPORT = """
report:
SELECT p.category, date_trunc('month', o.placed_at) AS month, sum(l.quantity * l.price)
FROM order_lines l JOIN orders o USING (order_id) JOIN products p USING (product_id)
GROUP BY 1, 2 ORDER BY 1, 2
"""
_WRITE = """
sell:
UPDATE products SET stock = stock - 1 WHERE product_id = {product}
"""
_QUIET = """
order:
SELECT status, total FROM orders WHERE order_id = {order};
product:
SELECT title, price, stock FROM products WHERE product_id = {product};
countries:
SELECT country, count(*) FROM customers GROUP BY country;
customer:
SELECT full_name FROM customers WHERE customer_id = {customer};
some-orders:
SELECT order_id, total FROM orders WHERE order_id BETWEEN {order} AND {order} + 40;
revenue:
SELECT sum(total) FROM orders;
event:
SELECT kind, detail FROM events WHERE event_id = {order}
"""


@dataclass(frozen=True)
class Asked:
    """A statement of the shop; `mends`: what a right fix's SQL names, () for one that needs none.

    Of words with a bar between them one is enough.
    """

    name: str
    sql: str
    mends: tuple[str, ...] = ()

    def is_mended_by(self, sql: str) -> bool:
        """Whether a fix's SQL is about what this statement misses."""
        return all(any(word in sql for word in each.split("|")) for each in self.mends)


def statements_of(draw: random.Random, sizes: Sizes, count: int) -> tuple[Asked, ...]:
    """So many of them in a drawn order; from five on a write and what needs nothing are among them."""
    values = {
        "customer": draw.randint(1, sizes.customers),
        "order": draw.randint(1, sizes.orders),
        "product": draw.randint(1, sizes.products),
        "agent": draw.randrange(300),
    }
    planted, report, write, quiet = (
        [_asked(each) for each in text.format(**values).strip().split(";\n")]
        for text in (_PLANTED, _REPORT, _WRITE, _QUIET)
    )
    chosen = report if count < 5 else [*report, *write, draw.choice(quiet)]
    left = count - len(chosen)
    chosen += draw.sample(planted, min(len(planted), max(1, round(_PLANTED_SHARE * left))))
    others = [each for each in quiet if each not in chosen]
    chosen += draw.sample(others, min(len(others), max(0, count - len(chosen))))
    draw.shuffle(chosen)
    return tuple(chosen)


def _asked(text: str) -> Asked:
    head, _, sql = text.partition("\n")
    name, _, mends = head.partition(":")
    return Asked(name, " ".join(sql.split()), tuple(mends.split()))
