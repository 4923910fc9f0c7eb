-- The data of `pgassay tune --demo`: a shop whose statements are slow for published reasons, and one that is not.
CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL, country int NOT NULL);
INSERT INTO customers SELECT n, 'customer ' || n, n % 40 FROM generate_series(1, 20000) AS n;

-- The slow list: nothing leads to the orders of one customer.
CREATE TABLE orders (
    id int PRIMARY KEY, customer_id int NOT NULL REFERENCES customers, placed timestamp NOT NULL, total int NOT NULL,
    note text NOT NULL);
INSERT INTO orders
SELECT n, (n * 7919::bigint) % 20000 + 1, timestamp '2024-01-01' + n * interval '1 minute', n % 500, repeat('x', 60)
FROM generate_series(1, 300000) AS n;

-- The join that is not slow: every step has its index.
CREATE TABLE invoices (id int PRIMARY KEY, customer_id int NOT NULL REFERENCES customers, amount int NOT NULL);
INSERT INTO invoices SELECT n, (n * 31::bigint) % 20000 + 1, n % 900 FROM generate_series(1, 60000) AS n;
CREATE INDEX invoices_customer_id ON invoices (customer_id);

-- Partition pruning: the partitions are those of the month, and the statement asks by a function of it.
CREATE TABLE visits (seen timestamp NOT NULL, page int NOT NULL, agent text NOT NULL) PARTITION BY RANGE (seen);
CREATE TABLE visits_1 PARTITION OF visits FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
CREATE TABLE visits_2 PARTITION OF visits FOR VALUES FROM ('2024-02-01') TO ('2024-03-01');
CREATE TABLE visits_3 PARTITION OF visits FOR VALUES FROM ('2024-03-01') TO ('2024-04-01');
CREATE TABLE visits_4 PARTITION OF visits FOR VALUES FROM ('2024-04-01') TO ('2024-05-01');
INSERT INTO visits
SELECT timestamp '2024-01-01' + n * interval '40 seconds', n % 700, repeat('a', 40) FROM generate_series(1, 250000) AS n;

-- Dead rows: nine of ten versions are left behind, and nobody has vacuumed.
CREATE TABLE stock (item int NOT NULL, left_over int NOT NULL, place text NOT NULL) WITH (autovacuum_enabled = off);
INSERT INTO stock SELECT n, n % 90, repeat('s', 80) FROM generate_series(1, 200000) AS n;
DELETE FROM stock WHERE item % 10 <> 0;

VACUUM (ANALYZE) customers, orders, invoices, visits;
ANALYZE stock;
