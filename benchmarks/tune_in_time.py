"""Does `pgassay tune` tell the best so far early, and prove it in its time, on large data?

    python benchmarks/tune_in_time.py [--orders 2500000] [--max-time 30m] [--seed 1] [--pg 18] [--out FOLDER]

A shop of so many orders with four items each (2 GB with 2,500,000 orders), and 20 statements on it of up to
about a second: some want an index, another text or more memory, some write, some need nothing. The whole
command is run on it once. Printed are what it said and after how many seconds; when it first told the best so
far, which is to be within a sixth of --max-time; how long it took; and the proof's verdict on all fixes
together, which is to be there by the end. Exit code 1 when either fails. Run it on a machine with nothing
else to do: by the noise of others the proof takes more blocks. --out keeps the results' folder.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from pgassay.cli.options import duration
from pgassay.experiment.planning.request import CompareRequest
from pgassay.model.tuning.tune_answer import TuneResult
from pgassay.progress import NullProgress
from pgassay.tune.run_tune import TOOLS, run_tune
from pgassay.tune.running.look import TELLS_AT_SHARE
from pgassay.tune.tune_plan import TuneRequest

ITEMS_PER_ORDER, CUSTOMERS_SHARE, PRODUCTS = 4, 0.08, 50_000
# A candidate that is being tried when the best is to be told ends first.
TOLD_LATE_SHARE_MAX = 0.03

DATA = """
CREATE TABLE customers (id integer PRIMARY KEY, email text NOT NULL, name text NOT NULL,
    city integer NOT NULL, attributes jsonb NOT NULL, joined timestamp NOT NULL);
INSERT INTO customers SELECT i, 'Customer' || i || '@example.org', md5(i::text), hashint4(i) & 1023,
    jsonb_build_object('tier', hashint4(i + 1) & 511, 'source', hashint4(i + 2) & 63),
    timestamp '2020-01-01' + i * interval '9 minutes' FROM generate_series(1, {customers}) i;
CREATE TABLE products (id integer PRIMARY KEY, title text NOT NULL, price numeric(9,2) NOT NULL,
    tags integer[] NOT NULL);
INSERT INTO products SELECT i, 'Product ' || md5(i::text), 1 + (hashint4(i) & 8191) / 100.0,
    ARRAY[hashint4(i) & 255, hashint4(i + 1) & 255] FROM generate_series(1, {products}) i;
CREATE TABLE orders (id integer PRIMARY KEY, customer_id integer NOT NULL REFERENCES customers,
    status text NOT NULL, created timestamp NOT NULL, total numeric(9,2) NOT NULL, note text NOT NULL);
INSERT INTO orders SELECT i, 1 + (hashint4(i) & 2147483647) % {customers},
    CASE WHEN i % 1000 = 0 THEN 'open' WHEN i % 50 = 0 THEN 'returned' ELSE 'done' END,
    timestamp '2023-01-01' + i * interval '30 seconds', 5 + (hashint4(i + 1) & 65535) / 100.0,
    repeat('n', 30 + i % 30) FROM generate_series(1, {orders}) i;
CREATE TABLE items (order_id integer NOT NULL, line integer NOT NULL, product_id integer NOT NULL,
    quantity integer NOT NULL, price numeric(9,2) NOT NULL, packed text NOT NULL);
INSERT INTO items SELECT 1 + i / {per_order}, i % {per_order},
    1 + (hashint4(i) & 2147483647) % {products}, 1 + i % 7, 1 + (hashint4(i + 1) & 8191) / 100.0,
    repeat('p', 40 + i % 40) FROM generate_series(0, {items} - 1) i;
VACUUM (FREEZE, ANALYZE);
"""

STATEMENTS = """
-- name: orders-of-customer
SELECT * FROM orders WHERE customer_id = {customer} ORDER BY created DESC LIMIT 20;
-- name: items-of-order
SELECT * FROM items WHERE order_id = {order};
-- name: product-sold
SELECT sum(quantity) FROM items WHERE product_id = 4711;
-- name: open-orders
SELECT id, created FROM orders WHERE status = 'open' ORDER BY created DESC LIMIT 50;
-- name: by-email
SELECT id FROM customers WHERE lower(email) = 'customer{customer}@example.org';
-- name: by-name
SELECT id, name FROM customers WHERE name LIKE 'abc%';
-- name: of-a-day
SELECT count(*), sum(total) FROM orders WHERE date_trunc('day', created) = timestamp '2023-03-04';
-- name: returned-by-city
SELECT c.city, count(*) FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.status = 'returned'
GROUP BY c.city ORDER BY 2 DESC LIMIT 10;
-- name: never-sold
SELECT id FROM products WHERE id NOT IN (SELECT product_id FROM items WHERE order_id < 2000);
-- name: with-tag
SELECT id, title FROM products WHERE tags @> ARRAY[17, 99];
-- name: of-tier
SELECT count(*) FROM customers WHERE attributes @> '{{"tier": 17}}';
-- name: last-order
SELECT c.id, (SELECT max(o.created) FROM orders o WHERE o.customer_id = c.id) FROM customers c
WHERE c.id = {customer};
-- name: big-orders
SELECT id, total FROM orders WHERE total > 659.9 ORDER BY total DESC;
-- name: has-bought
SELECT count(*) > 0 FROM items WHERE product_id = 815;
-- name: names-sorted
SELECT name FROM customers ORDER BY name OFFSET {offset} LIMIT 10;
-- name: order-by-key
SELECT * FROM orders WHERE id = {order};
-- name: product-by-key
SELECT title, price FROM products WHERE id = 4711;
-- name: customer-by-key
SELECT * FROM customers WHERE id = {customer};
-- name: new-item
INSERT INTO items SELECT {order}, 100 + i, i, 1, 9.99, 'packed' FROM generate_series(1, 20) i;
-- name: order-done
UPDATE orders SET status = 'done' WHERE id BETWEEN {order} AND {order} + 200;
"""


class Timed(NullProgress):
    """Prints what a run says, with the seconds since its begin, and keeps when it first told the best."""

    def __init__(self) -> None:
        self.began_at = time.monotonic()
        self.told_s: float | None = None

    def stage(self, content: str, fraction: float | None = None) -> None:
        """A step begins."""
        if fraction is None:
            self._print(content)

    def message(self, content: str) -> None:
        """A sentence that a person should see."""
        if "best so far, " in content and self.told_s is None:
            self.told_s = time.monotonic() - self.began_at
        self._print(content)

    def _print(self, content: str) -> None:
        print(f"{time.monotonic() - self.began_at:6.0f} s  {content}", flush=True)


def tuned(folder: Path, arguments: argparse.Namespace, progress: Timed) -> TuneResult:
    """Make the data and the statements in `folder`, and run the whole command on them."""
    orders, customers = arguments.orders, max(1, round(arguments.orders * CUSTOMERS_SHARE))
    items = orders * ITEMS_PER_ORDER
    data = DATA.format(
        orders=orders, customers=customers, items=items, per_order=ITEMS_PER_ORDER, products=PRODUCTS
    )
    statements = STATEMENTS.format(customer=customers // 3, order=orders // 2, offset=customers // 2)
    (folder / "data.sql").write_text(data)
    (folder / "slow.sql").write_text(statements)
    compare = CompareRequest(
        factors=(),
        workload=f"sql:{folder / 'slow.sql'}",
        dataset=f"script:{folder / 'data.sql'}",
        build=arguments.pg,
        max_time_s=arguments.max_time,
        seed=arguments.seed,
    )
    request = TuneRequest(compare, out=folder / "tune", began_at=progress.began_at)
    return run_tune(request, TOOLS, progress, wait=True, isolates=False)


def is_in_time(result: TuneResult, told_s: float | None, max_time_s: float) -> bool:
    """Print what came of it; whether the best was told early and all of it proven by the end."""
    told_max_s = (TELLS_AT_SHARE + TOLD_LATE_SHARE_MAX) * max_time_s
    told = "never" if told_s is None else f"after {told_s:.0f} s"
    print(f"\nbest so far told {told} (at most {told_max_s:.0f} s), all in {result.seconds_used:.0f} s")
    for fix in result.fixes:
        if fix.verdict in ("recommended", "not decided") or fix.evidence == "proof":
            gain = "" if fix.gain is None else f" {fix.gain:.2f}"
            print(f"  {fix.verdict}{gain}: {fix.title}")
    proof = result.confirmation or result.proof
    if proof is not None:
        print(
            f"{len(proof.members)} together, {proof.blocks} blocks: {proof.verdict}, {proof.gain} "
            f"{proof.interval}, predicted {proof.predicted_gain}"
        )
    print(result.verdict)
    if result.go_on:
        print(f"go on: {result.go_on}")
    is_proven = proof is not None and proof.verdict == "faster"
    return told_s is not None and told_s <= told_max_s and is_proven


def main() -> int:
    """Run it once; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--orders", type=int, default=2_500_000)
    parser.add_argument("--max-time", type=duration, default=1800.0, metavar="TIME")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pg", default="18")
    parser.add_argument("--out", type=Path, help="keep data and results here")
    arguments = parser.parse_args()
    progress = Timed()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        result = tuned(folder, arguments, progress)
    return int(not is_in_time(result, progress.told_s, arguments.max_time))


if __name__ == "__main__":
    sys.exit(main())
