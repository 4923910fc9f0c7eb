"""Does `pgassay tune` mend each slow statement of a shop, and leave alone what needs nothing?

    python benchmarks/tuned_shop.py [--seeds 1-5] [--statements 5] [--megabytes 300] [--max-time 2m] [--pg 18]
        [--write FOLDER] [--out FOLDER]

A shop of six tables is drawn by each seed: sizes, values, and which statements its users type. Of those, some
miss an index, one report dominates the time and can't be helped, one writes, and the others need nothing. The
whole command is run, with its search and proof. A planted statement counts as mended when it is proven faster
by what is recommended; one that needs nothing counts as left alone when nothing is recommended for it. --write
writes the shop (shop.sql, slow.sql) of the first seed and runs nothing. Exit code 1 when less than 95 % of
either is as it should be.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SHARE_MIN = 0.95


@dataclass(frozen=True)
class Asked:
    """A statement of the shop; `mends`: what a right fix's SQL names, nothing for one that needs none."""

    name: str
    sql: str
    mends: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shop:
    """What is typed: the data and the statements."""

    data: str
    asked: tuple[Asked, ...]

    def write(self, folder: Path) -> None:
        """Write shop.sql and slow.sql."""
        (folder / "shop.sql").write_text(self.data, "utf-8")
        texts = (f"-- name: {each.name}\n{each.sql};\n" for each in self.asked)
        (folder / "slow.sql").write_text("\n".join(texts), "utf-8")


def shop(seed: int, statements: int, megabytes: int) -> Shop:
    """The shop of a seed, with so many statements over about so much data."""
    draw = random.Random(seed)
    # An order with its lines and events takes about 600 bytes.
    orders = int(megabytes * 1_000_000 / 620 * draw.uniform(0.9, 1.1))
    customers, products = orders // draw.randint(6, 12), draw.randint(15_000, 30_000)
    lines, events, tickets = orders * 3, orders * 2, orders // 4
    customer, order, product = (draw.randint(1, most) for most in (customers, orders, products))
    data = f"""
SELECT setseed({draw.random():.6f});
CREATE TABLE customers (customer_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, email text NOT NULL,
  full_name text NOT NULL, country text NOT NULL, created_at timestamptz NOT NULL);
INSERT INTO customers (email, full_name, country, created_at)
SELECT 'user' || i || '@example.org', 'Name ' || md5(i::text), (ARRAY['DE','FR','IT','ES','NL'])[1 + i % 5],
  '2024-01-01'::timestamptz + random() * interval '900 days' FROM generate_series(1, {customers}) i;
CREATE TABLE products (product_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, title text NOT NULL,
  category text NOT NULL, price numeric(10, 2) NOT NULL, stock int NOT NULL, attributes jsonb NOT NULL);
INSERT INTO products (title, category, price, stock, attributes)
SELECT 'Thing ' || i, 'category-' || i % 40, (random() * 500)::numeric(10, 2), (random() * 100)::int,
  jsonb_build_object('sku', 'SKU-' || i, 'colour', i % 9, 'text', repeat(md5(i::text), 6))
FROM generate_series(1, {products}) i;
CREATE TABLE orders (order_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer_id bigint NOT NULL,
  status text NOT NULL, placed_at timestamptz NOT NULL, total numeric(12, 2) NOT NULL);
INSERT INTO orders (customer_id, status, placed_at, total)
SELECT 1 + floor(random() * {customers})::bigint,
  CASE WHEN random() < 0.004 THEN 'open' WHEN random() < 0.1 THEN 'returned' ELSE 'shipped' END,
  '2024-01-01'::timestamptz + i * interval '900 days' / {orders}, (random() * 900)::numeric(12, 2)
FROM generate_series(1, {orders}) i;
CREATE TABLE order_lines (line_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, order_id bigint NOT NULL,
  product_id bigint NOT NULL, quantity int NOT NULL, price numeric(10, 2) NOT NULL);
INSERT INTO order_lines (order_id, product_id, quantity, price)
SELECT 1 + floor(random() * {orders})::bigint, 1 + floor(random() * {products})::bigint,
  1 + floor(random() * 5)::int, (random() * 500)::numeric(10, 2) FROM generate_series(1, {lines}) i;
CREATE TABLE events (event_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, session_key text NOT NULL,
  customer_id bigint, kind text NOT NULL, happened_at timestamptz NOT NULL, detail text NOT NULL);
INSERT INTO events (session_key, customer_id, kind, happened_at, detail)
SELECT md5((i / 12)::text), CASE WHEN i % 3 = 0 THEN 1 + floor(random() * {customers})::bigint END,
  (ARRAY['view','search','basket','pay'])[1 + floor(random() * 4)::int],
  '2026-01-01'::timestamptz + i * interval '200 days' / {events}, repeat('x', 20 + i % 60)
FROM generate_series(1, {events}) i;
CREATE TABLE tickets (ticket_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer_id bigint NOT NULL,
  assignee text NOT NULL, state text NOT NULL, opened_at timestamptz NOT NULL, subject text NOT NULL);
INSERT INTO tickets (customer_id, assignee, state, opened_at, subject)
SELECT 1 + floor(random() * {customers})::bigint, 'agent' || floor(random() * 300)::int,
  CASE WHEN random() < 0.03 THEN 'waiting' ELSE 'closed' END,
  '2025-01-01'::timestamptz + random() * interval '500 days', repeat(md5(i::text), 4)
FROM generate_series(1, {tickets}) i;
VACUUM ANALYZE;
"""
    planted = [
        Asked("login", f"SELECT customer_id, full_name FROM customers WHERE email = 'user{customer}@example.org'", ("customers", "email")),
        Asked("order-list", f"SELECT order_id, placed_at, total FROM orders WHERE customer_id = {customer} ORDER BY placed_at DESC LIMIT 20", ("orders", "customer_id")),
        Asked("order-page", f"SELECT l.quantity, l.price, p.title FROM order_lines l JOIN products p USING (product_id) WHERE l.order_id = {order}", ("order_lines", "order_id")),
        Asked("open-orders", "SELECT order_id, customer_id, total FROM orders WHERE status = 'open' ORDER BY placed_at LIMIT 50", ("orders",)),
        Asked("session", f"SELECT kind, happened_at, detail FROM events WHERE session_key = md5('{order}') ORDER BY happened_at", ("events", "session_key")),
        Asked("by-sku", f"SELECT product_id, title, price FROM products WHERE attributes->>'sku' = 'SKU-{product}'", ("products", "sku")),
        Asked("sold", f"SELECT count(*), sum(quantity) FROM order_lines WHERE product_id = {product}", ("order_lines", "product_id")),
        Asked("my-tickets", f"SELECT ticket_id, subject, opened_at FROM tickets WHERE assignee = 'agent{draw.randint(0, 299)}' AND state = 'waiting' ORDER BY opened_at", ("tickets",)),
        Asked("customer-events", f"SELECT kind, happened_at FROM events WHERE customer_id = {customer} ORDER BY happened_at DESC LIMIT 10", ("events", "customer_id")),
        Asked("customer-tickets", f"SELECT c.full_name, t.subject FROM tickets t JOIN customers c USING (customer_id) WHERE t.customer_id = {customer}", ("tickets", "customer_id")),
        Asked("last-events", "SELECT event_id, kind FROM events WHERE happened_at > '2026-07-19 20:00+00' AND kind = 'pay' ORDER BY happened_at DESC LIMIT 25", ("events", "happened_at")),
    ]  # fmt: skip
    report = Asked("report", "SELECT p.category, date_trunc('month', o.placed_at) AS month, sum(l.quantity * l.price) FROM order_lines l JOIN orders o USING (order_id) JOIN products p USING (product_id) GROUP BY 1, 2 ORDER BY 1, 2")  # fmt: skip
    writing = Asked("sell", f"UPDATE products SET stock = stock - 1 WHERE product_id = {product}")
    quiet = [
        Asked("order", f"SELECT status, total FROM orders WHERE order_id = {order}"),
        Asked("product", f"SELECT title, price, stock FROM products WHERE product_id = {product}"),
        Asked("countries", "SELECT country, count(*) FROM customers GROUP BY country"),
        Asked("customer", f"SELECT full_name FROM customers WHERE customer_id = {customer}"),
        Asked("some-orders", f"SELECT order_id, total FROM orders WHERE order_id BETWEEN {order} AND {order + 40}"),
        Asked("revenue", "SELECT sum(total) FROM orders"),
        Asked("event", f"SELECT kind, detail FROM events WHERE event_id = {order}"),
    ]  # fmt: skip
    chosen = [report] if statements < 5 else [report, writing, draw.choice(quiet)]
    plants = min(len(planted), max(statements - len(chosen), 0) * (4 if statements <= 6 else 3) // 4 or 1)
    chosen += draw.sample(planted, min(len(planted), max(plants, min(3, statements - len(chosen)))))
    left = [each for each in quiet if each not in chosen]
    chosen += draw.sample(left, min(len(left), max(0, statements - len(chosen))))
    draw.shuffle(chosen)
    return Shop(data, tuple(chosen[:statements]))


def tuned(made: Shop, folder: Path, max_time: str, version: str) -> dict[str, object]:
    """Run the whole command; returns its answer."""
    made.write(folder)
    words = [
        *("pgassay", "tune", "--dataset", f"script:{folder / 'shop.sql'}"),
        *("--workload", f"sql:{folder / 'slow.sql'}", "--max-time", max_time, "--json"),
        *("--out", str(folder / "out"), "--pg", version),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return dict(json.loads(done.stdout))


def main(words: Sequence[str] | None = None) -> int:
    """Run what was asked for; returns the exit code."""
    arguments = _arguments(words)
    first, _, last = arguments.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    if arguments.write:
        arguments.write.mkdir(parents=True, exist_ok=True)
        shop(seeds[0], arguments.statements, arguments.megabytes).write(arguments.write)
        return 0
    mended = planted = alone = quiet = 0
    for seed in seeds:
        made = shop(seed, arguments.statements, arguments.megabytes)
        with tempfile.TemporaryDirectory() as temporary:
            folder = (arguments.out or Path(temporary)) / f"shop-{seed}"
            folder.mkdir(parents=True, exist_ok=True)
            began = time.monotonic()
            result = tuned(made, folder, arguments.max_time, arguments.pg)
            took_s = time.monotonic() - began
        print(f"seed {seed}: {took_s:.0f} s; {result['verdict']}", flush=True)
        for name, is_planted, is_right, said in judged(made, result):
            print(f"  {'right' if is_right else 'WRONG'}  {name}: {said}", flush=True)
            planted, mended = planted + is_planted, mended + (is_planted and is_right)
            quiet, alone = quiet + (not is_planted), alone + (not is_planted and is_right)
    print(f"mended {mended} of {planted}; left alone {alone} of {quiet}")
    is_enough = mended >= SHARE_MIN * planted and alone >= SHARE_MIN * quiet
    return 0 if is_enough else 1


def judged(made: Shop, result: dict[str, object]) -> list[tuple[str, bool, bool, str]]:
    """Of each statement: its name, whether a fix was planted, whether the answer is right, and what it was."""
    fixes = {str(each["id"]): each for each in result["fixes"]}  # type: ignore[attr-defined]
    answers = {str(each["name"]): each for each in result["statements"]}  # type: ignore[attr-defined]
    rows = []
    for asked in made.asked:
        given = answers[asked.name]
        by = [fixes[name] for name in given["fixes"] if fixes[name]["verdict"] == "recommended"]
        names = " and ".join(fix["title"] for fix in by)
        is_named = any(all(word in fix["sql"] for word in asked.mends) for fix in by)
        is_right = given["verdict"] == "faster" and is_named if asked.mends else not by
        ratio = f"{given['ratio']:.3g} ×" if given["ratio"] else "as it was"
        rows.append(
            (asked.name, bool(asked.mends), is_right, f"{given['verdict']}, {ratio}, by {names or '-'}")
        )
    return rows


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--statements", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--max-time", default="2m")
    parser.add_argument("--pg", default="18")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--out", type=Path)
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
