"""Facts of a small schema as the catalog would tell them, to be changed one by one."""

from pgassay.tune.facts.schema import ColumnFacts, IndexFacts, IndexKey, SchemaFacts, TableFacts

TIMESTAMP, ZONED = "timestamp without time zone", "timestamp with time zone"


def table(name: str, columns: str, *keys: str) -> TableFacts:
    """A table of "name type, name type!" with NOT NULL where a type ends with "!", and unique indexes."""
    made = []
    for word in columns.split(", "):
        column, _, kind = word.partition(" ")
        is_text = kind.startswith(("text", "character"))
        collation = "default" if is_text else ""
        made.append(
            ColumnFacts(name=column, type=kind.rstrip("!"), not_null=kind.endswith("!"), collation=collation)
        )
    indexes = tuple(
        IndexFacts(
            schema_="public",
            name=f"{name}_{key.replace(',', '_')}",
            table=name,
            method="btree",
            unique=True,
            keys=tuple(IndexKey(column=one) for one in key.split(",")),
        )
        for key in keys
    )
    return TableFacts(schema_="public", name=name, kind="table", columns=tuple(made), indexes=indexes)


CUSTOMER = table(
    "customer", f"id integer!, name text!, region_id integer, joined {TIMESTAMP}, seen {ZONED}", "id"
)
ORDERS = table(
    "orders",
    "id integer!, customer_id integer!, amount numeric!, weight double precision!, status text, "
    f"placed {TIMESTAMP}",
    "id",
)
REGION = table("region", "id integer!, name text!", "id", "name")
FACTS = SchemaFacts(
    version=180000, database="shop", encoding="UTF8", collation="C", tables=(CUSTOMER, ORDERS, REGION)
)


def with_table(changed: TableFacts, facts: SchemaFacts = FACTS) -> SchemaFacts:
    """The facts with another table in the place of the one of its name."""
    tables = tuple(changed if one.name == changed.name else one for one in facts.tables)
    return facts.model_copy(update={"tables": tables})


def with_key(**fields: object) -> SchemaFacts:
    """The facts with other properties of customer's key."""
    index = CUSTOMER.indexes[0].model_copy(update=fields)
    return with_table(CUSTOMER.model_copy(update={"indexes": (index,)}))
