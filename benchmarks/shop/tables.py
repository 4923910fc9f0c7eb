"""The six tables of a shop, as one SQL script."""

import random
from dataclasses import dataclass

# An order with its lines, events and tickets.
ORDER_BYTES = 620


@dataclass(frozen=True)
class Sizes:
    """How many rows each table has; `seed`: of the server's random(), from -1 to 1."""

    customers: int
    products: int
    orders: int
    lines: int
    events: int
    tickets: int
    seed: float


def sizes_of(draw: random.Random, megabytes: int) -> Sizes:
    """The sizes of a shop of about so many megabytes."""
    orders = int(megabytes * 1_000_000 / ORDER_BYTES * draw.uniform(0.9, 1.1))
    return Sizes(
        customers=orders // draw.randint(6, 12),
        products=draw.randint(15_000, 30_000),
        orders=orders,
        lines=orders * 3,
        events=orders * 2,
        tickets=orders // 4,
        seed=draw.random(),
    )


def script(sizes: Sizes) -> str:
    """The script that makes them."""
    return f"""
SELECT setseed({sizes.seed:.6f});
CREATE TABLE customers (customer_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, email text NOT NULL,
  full_name text NOT NULL, country text NOT NULL, created_at timestamptz NOT NULL);
INSERT INTO customers (email, full_name, country, created_at)
SELECT 'user' || i || '@example.org', 'Name ' || md5(i::text), (ARRAY['DE','FR','IT','ES','NL'])[1 + i % 5],
  '2024-01-01'::timestamptz + random() * interval '900 days' FROM generate_series(1, {sizes.customers}) i;
CREATE TABLE products (product_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, title text NOT NULL,
  category text NOT NULL, price numeric(10, 2) NOT NULL, stock int NOT NULL, attributes jsonb NOT NULL);
INSERT INTO products (title, category, price, stock, attributes)
SELECT 'Thing ' || i, 'category-' || i % 40, (random() * 500)::numeric(10, 2), (random() * 100)::int,
  jsonb_build_object('sku', 'SKU-' || i, 'colour', i % 9, 'text', repeat(md5(i::text), 6))
FROM generate_series(1, {sizes.products}) i;
CREATE TABLE orders (order_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer_id bigint NOT NULL,
  status text NOT NULL, placed_at timestamptz NOT NULL, total numeric(12, 2) NOT NULL);
INSERT INTO orders (customer_id, status, placed_at, total)
SELECT 1 + floor(random() * {sizes.customers})::bigint,
  CASE WHEN random() < 0.004 THEN 'open' WHEN random() < 0.1 THEN 'returned' ELSE 'shipped' END,
  '2024-01-01'::timestamptz + (i::float8 / {sizes.orders}) * interval '900 days',
  (random() * 900)::numeric(12, 2)
FROM generate_series(1, {sizes.orders}) i;
CREATE TABLE order_lines (line_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, order_id bigint NOT NULL,
  product_id bigint NOT NULL, quantity int NOT NULL, price numeric(10, 2) NOT NULL);
INSERT INTO order_lines (order_id, product_id, quantity, price)
SELECT 1 + floor(random() * {sizes.orders})::bigint, 1 + floor(random() * {sizes.products})::bigint,
  1 + floor(random() * 5)::int, (random() * 500)::numeric(10, 2) FROM generate_series(1, {sizes.lines}) i;
CREATE TABLE events (event_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, session_key text NOT NULL,
  customer_id bigint, kind text NOT NULL, happened_at timestamptz NOT NULL, detail text NOT NULL);
INSERT INTO events (session_key, customer_id, kind, happened_at, detail)
SELECT md5((i / 12)::text), CASE WHEN i % 3 = 0 THEN 1 + floor(random() * {sizes.customers})::bigint END,
  (ARRAY['view','search','basket','pay'])[1 + floor(random() * 4)::int],
  '2026-01-01'::timestamptz + (i::float8 / {sizes.events}) * interval '200 days', repeat('x', 20 + i % 60)
FROM generate_series(1, {sizes.events}) i;
CREATE TABLE tickets (ticket_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer_id bigint NOT NULL,
  assignee text NOT NULL, state text NOT NULL, opened_at timestamptz NOT NULL, subject text NOT NULL);
INSERT INTO tickets (customer_id, assignee, state, opened_at, subject)
SELECT 1 + floor(random() * {sizes.customers})::bigint, 'agent' || floor(random() * 300)::int,
  CASE WHEN random() < 0.03 THEN 'waiting' ELSE 'closed' END,
  '2025-01-01'::timestamptz + random() * interval '500 days', repeat(md5(i::text), 4)
FROM generate_series(1, {sizes.tickets}) i;
VACUUM ANALYZE;
"""
