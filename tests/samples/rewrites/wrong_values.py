"""Tempting rewrites that are wrong: time zones, collations, casts and other types."""

from rewrites.schema import Case

WRONG_VALUES = (
    Case(
        "the end of the day", "",
        "SELECT id FROM orders WHERE placed::date = '2024-02-06'",
        "SELECT id FROM orders WHERE placed BETWEEN '2024-02-06' AND '2024-02-07'",
    ),
    Case(
        "the last second of the day", "",
        "SELECT id FROM orders WHERE placed::date = '2024-02-06'",
        "SELECT id FROM orders WHERE placed >= '2024-02-06' AND placed <= '2024-02-06 23:59:59'",
    ),
    Case(
        "the month's last day", "",
        "SELECT id FROM orders WHERE date_trunc('month', placed) = '2024-03-01'",
        "SELECT id FROM orders WHERE placed >= '2024-03-01' AND placed <= '2024-03-31'",
    ),
    Case(
        "a month of any year", "function-range",
        "SELECT id FROM orders WHERE extract(month FROM placed) = 3",
        "SELECT id FROM orders WHERE placed >= '2024-03-01' AND placed < '2024-04-01'",
    ),
    Case(
        "an hour of any day", "function-range",
        "SELECT id FROM orders WHERE extract(hour FROM placed) = 10",
        "SELECT id FROM orders WHERE placed >= '2024-01-10 10:00' AND placed < '2025-01-10 11:00'",
    ),
    Case(
        "a day of the week", "function-range",
        "SELECT id FROM orders WHERE extract(dow FROM placed) >= 0",
        "SELECT id FROM orders WHERE placed > '2000-01-01'",
    ),
    Case(
        "a period that begins in the middle", "function-range",
        "SELECT id FROM orders WHERE date_trunc('month', placed) = '2024-02-06'",
        "SELECT id FROM orders WHERE placed >= '2024-02-06' AND placed < '2024-03-06'",
    ),
    Case(
        "the day of another time zone", "function-range",
        "SELECT id FROM orders WHERE (shipped AT TIME ZONE 'Europe/Berlin')::date = '2024-03-04'",
        "SELECT id FROM orders WHERE shipped >= '2024-03-04' AND shipped < '2024-03-05'",
    ),
    Case(
        "a day of a zone that turns its clocks", "function-range",
        "SELECT id FROM orders WHERE (shipped AT TIME ZONE 'America/Havana')::date = '2024-11-03'",
        "SELECT id FROM orders WHERE shipped >= timestamp '2024-11-03' AT TIME ZONE 'America/Havana' "
        "AND shipped < timestamp '2024-11-03' AT TIME ZONE 'America/Havana' + interval '1 day'",
    ),
    Case(
        "a date that becomes a moment", "function-range",
        "SELECT id FROM orders WHERE date_trunc('month', day) = '2024-03-01'",
        "SELECT id FROM orders WHERE day > '2024-03-01' AND day < '2024-04-01'",
    ),
    Case(
        "a year with a half", "function-range",
        "SELECT id FROM orders WHERE extract(year FROM placed) < 2024.5",
        "SELECT id FROM orders WHERE placed < '2024-01-01'",
    ),
    Case(
        "a float is not its literal", "implicit-cast",
        "SELECT id FROM customer WHERE score = 2.1",
        "SELECT id FROM customer WHERE score = 2.1::real",
    ),
    Case(
        "a fraction that is cut", "",
        "SELECT id FROM orders WHERE qty < 2.5",
        "SELECT id FROM orders WHERE qty < 2",
    ),
    Case(
        "a number that no integer is", "implicit-cast",
        "SELECT id FROM orders WHERE qty = 100.5",
        "SELECT id FROM orders WHERE qty = 100",
    ),
    Case(
        "a text with a zero before", "implicit-cast",
        "SELECT id FROM orders WHERE qty::text = '0100'",
        "SELECT id FROM orders WHERE qty = 100",
    ),
    Case(
        "order of texts, not of numbers", "implicit-cast",
        "SELECT id FROM orders WHERE id::text < '9'",
        "SELECT id FROM orders WHERE id < 9",
    ),
    Case(
        "a uuid in capitals", "implicit-cast",
        "SELECT id FROM customer WHERE uid::text = 'FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF'",
        "SELECT id FROM customer WHERE uid = 'FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF'",
    ),
    Case(
        "a padded text", "implicit-cast",
        "SELECT id FROM customer WHERE code::text = 'x '",
        "SELECT id FROM customer WHERE code = 'x '",
    ),
    Case(
        "a numeric as it is written", "implicit-cast",
        "SELECT id FROM customer WHERE balance::text = '1.50'",
        "SELECT id FROM customer WHERE balance = 1.50",
    ),
    Case(
        "case that is folded", "",
        "SELECT id FROM customer WHERE lower(name) = 'ab'",
        "SELECT id FROM customer WHERE name IN ('ab', 'AB')",
    ),
    Case(
        "a prefix as a range of letters", "",
        "SELECT id FROM customer WHERE name LIKE 'z%'",
        "SELECT id FROM customer WHERE name > 'z' AND name < '{'",
    ),
    Case(
        "grouping by a blind collation", "aggregate-before-join",
        "SELECT p.name, sum(v.v) FROM person p JOIN visit v ON v.person = p.name GROUP BY p.name",
        "SELECT p.name, s.sum FROM person p JOIN (SELECT person COLLATE \"C\" AS person, sum(v) FROM visit "
        "GROUP BY person COLLATE \"C\") s ON s.person = p.name COLLATE \"C\"",
    ),
    Case(
        "not in by a blind collation", "",
        "SELECT id FROM visit WHERE person NOT IN (SELECT name FROM person)",
        "SELECT id FROM visit v WHERE NOT EXISTS (SELECT 1 FROM person p WHERE p.name COLLATE \"C\" = "
        "v.person COLLATE \"C\")",
    ),
    Case(
        "distinct by a blind collation", "distinct-exists",
        "SELECT DISTINCT v.person FROM visit v JOIN orders o ON o.id = v.v",
        "SELECT DISTINCT v.person COLLATE \"C\" AS person FROM visit v WHERE EXISTS "
        "(SELECT 1 FROM orders o WHERE o.id = v.v)",
    ),
)  # fmt: skip
