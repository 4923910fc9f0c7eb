"""Random small queries over the shop, with everything that rewrites look for, in any combination."""

from random import Random

INTEGERS = {
    "customer": ("id", "region_id"),
    "orders": ("id", "customer_id", "referrer_id", "qty"),
    "region": ("id", "parent_id"),
    "tag": ("order_id",),
    "loose_key": ("id", "v"),
    "payment": ("id", "order_id"),
}
TEXTS = {
    "customer": ("name", "email"), "orders": ("status",), "region": ("name",), "tag": ("label",),
    "payment": ("method",),
}  # fmt: skip
KEYS = {"customer": "id", "orders": "id", "region": "id", "payment": "id"}
OPERATORS = ("=", "=", "<", ">", "<=", ">=", "<>")
DAYS = ("'2024-02-06'", "'2024-03-01'", "'2023-12-31'")
Tables = dict[str, str]


class Drawn:
    """A query drawn from a source of chance; aliases are numbered so that none is used twice."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.aliases = 0

    def one(self, *choices: str) -> str:
        return self.chance.choice(choices)

    def alias(self) -> str:
        self.aliases += 1
        return f"t{self.aliases}"

    def table(self) -> str:
        return self.chance.choice(list(INTEGERS))

    def integer(self, tables: Tables) -> str:
        alias = self.chance.choice(list(tables))
        return f"{alias}.{self.one(*INTEGERS[tables[alias]])}"

    def text(self, tables: Tables) -> str | None:
        having = [alias for alias, table in tables.items() if table in TEXTS]
        if not having:
            return None
        alias = self.chance.choice(having)
        return f"{alias}.{self.one(*TEXTS[tables[alias]])}"

    def number(self) -> str:
        return str(self.chance.randrange(5))

    def sources(self, most: int) -> tuple[str, Tables]:
        """A FROM clause and its tables by alias."""
        table, alias = self.table(), self.alias()
        tables, text = {alias: table}, f"{table} {alias}"
        for _ in range(self.chance.randrange(most)):
            table, alias = self.table(), self.alias()
            left = self.integer(tables)
            on = f"{left} = {alias}.{self.one(*INTEGERS[table])}"
            if self.chance.random() < 0.2:
                on += f" AND {self.condition({**tables, alias: table}, 0)}"
            kind = self.one("JOIN", "JOIN", "LEFT JOIN")
            tables[alias] = table
            text += f" {kind} {table} {alias} ON {on}"
        return text, tables

    def condition(self, tables: Tables, depth: int) -> str:
        """A condition on the tables; with `depth` also with subqueries, AND and OR."""
        kind = self.chance.randrange(13 if depth else 7)
        text = self.text(tables)
        if kind == 0:
            return f"{self.integer(tables)} IS {self.one('NULL', 'NOT NULL')}"
        if kind == 1 and text:
            return f"{text} {self.one('=', '<>', 'LIKE')} '{self.one('a', 'paid')}'"
        if kind == 2:
            return f"{self.integer(tables)} {self.one(*OPERATORS)} {self.integer(tables)}"
        if kind == 3:
            return f"{self.integer(tables)} {self.one(*OPERATORS)} {self.number()}.{self.one('0', '5')}"
        if kind == 4:
            return f"{self.integer(tables)}::text {self.one('=', '<>')} '{self.number()}'"
        if kind == 5:
            return self.day(tables)
        if kind in (7, 8):
            joined = self.one(" AND ", " OR ", " OR ").join(
                self.condition(tables, depth - 1) for _ in range(2)
            )
            return f"({joined})"
        if kind in (9, 10):
            word = self.one("NOT IN", "NOT IN", "IN")
            return f"{self.integer(tables)} {word} ({self.subquery(tables, depth, '')})"
        if kind == 11:
            compared = self.one("> 0", "= 0", ">= 1", "> 1")
            counted = self.one("count(*)", "count({})")
            return f"({self.subquery(tables, depth, counted)}) {compared}"
        if kind == 12:
            return (
                f"{self.integer(tables)} {self.one(*OPERATORS)} ({self.subquery(tables, depth, 'max({})')})"
            )
        return f"{self.integer(tables)} {self.one(*OPERATORS)} {self.number()}"

    def day(self, tables: Tables) -> str:
        dated = {"orders": ("placed", "day", "shipped"), "customer": ("joined", "seen")}
        having = [alias for alias, table in tables.items() if table in dated]
        if not having:
            return f"{self.integer(tables)} = {self.number()}"
        alias = self.chance.choice(having)
        name = f"{alias}.{self.one(*dated[tables[alias]])}"
        operator, day = self.one("=", "<", ">", "<=", ">="), self.one(*DAYS)
        unit = self.one("month", "day", "year", "week")
        return self.one(
            f"{name}::date {operator} {day}",
            f"date_trunc('{unit}', {name}) {operator} {day}",
            f"extract(year FROM {name}) {operator} 2024",
            f"{name}::date BETWEEN {day} AND '2024-06-01'",
        )

    def subquery(self, outer: Tables, depth: int, value: str) -> str:
        """A subquery of one column, often correlated; `value` is an aggregate with a place for a column."""
        text, tables = self.sources(2 if self.chance.random() < 0.2 else 1)
        conditions = [self.condition(tables, depth - 1) for _ in range(self.chance.randrange(2))]
        if self.chance.random() < 0.6:
            conditions.append(f"{self.integer(tables)} = {self.integer(outer)}")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        column = self.integer(tables)
        return f"SELECT {value.format(column) if value else column} FROM {text}{where}"

    def where(self, tables: Tables) -> str:
        conditions = [self.condition(tables, 2) for _ in range(self.chance.randrange(3))]
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def plain(self) -> str:
        text, tables = self.sources(3)
        outputs = [self.integer(tables) for _ in range(1 + self.chance.randrange(2))]
        if self.chance.random() < 0.3:
            outputs.append(f"({self.subquery(tables, 1, self.one('sum({})', 'count(*)', 'min({})', ''))})")
        distinct = "DISTINCT " if self.chance.random() < 0.35 else ""
        chosen = [f"{output} AS c{number}" for number, output in enumerate(outputs, 1)]
        query = f"SELECT {distinct}{', '.join(chosen)} FROM {text}{self.where(tables)}"
        if self.chance.random() < 0.2:
            query += f" ORDER BY {', '.join(str(n) for n in range(1, len(chosen) + 1))}"
        return query

    def grouped(self) -> str:
        text, tables = self.sources(4)
        alias = next(iter(tables))
        groups = [f"{alias}.{KEYS.get(tables[alias], INTEGERS[tables[alias]][0])}"]
        if self.chance.random() < 0.4:
            groups.append(self.integer(tables))
        values = [
            self.one("count(*)", "sum({})", "min({})", "count({})", "count(DISTINCT {})").format(
                self.integer(tables)
            )
            for _ in range(1 + self.chance.randrange(2))
        ]
        query = f"SELECT {', '.join([*groups, *values])} FROM {text}{self.where(tables)}"
        query += f" GROUP BY {', '.join(groups)}"
        if self.chance.random() < 0.3:
            query += f" HAVING {values[0]} {self.one(*OPERATORS)} {self.number()}"
        return query

    def union(self) -> str:
        table = self.one("orders", "customer", "region", "loose_key")
        columns = ", ".join(INTEGERS[table][:2])
        parts = []
        for number in range(2):
            bound = self.one("id < 2", "id >= 2", "id = 1", "id <= 3", "id > 3")
            label = self.one("", "", f", {number} AS kind", f", '{number}' AS kind")
            parts.append((columns, label, bound))
        label = parts[0][1]
        texts = [
            f"SELECT {columns}{label if number == 0 or not label else label.replace('0', '1')} FROM {table} "
            f"WHERE {bound}"
            for number, (columns, _, bound) in enumerate(parts)
        ]
        return self.one(" UNION ", " UNION ", " UNION ALL ").join(texts)

    def query(self) -> str:
        """A whole statement."""
        kind = self.chance.random()
        if kind < 0.1:
            return self.union()
        text = self.grouped() if kind < 0.4 else self.plain()
        if kind > 0.92 and "(SELECT" not in text:
            return f"WITH w AS ({text}) SELECT * FROM w"
        return text
