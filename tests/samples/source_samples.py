"""A server that statements are read from, as if it had answered."""

from dataclasses import replace

from pgassay.environment.remote.connection_parameters import Resolved
from pgassay.model.arm import RemoteServer
from pgassay.model.build import Build
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.source.counted import CountedRow
from pgassay.tune.source.source_server import SourceServer, SourceSetting

SECRET = "s3cret"


def row(number: int, query: str, total_ms: float, **changes: object) -> CountedRow:
    known: dict[str, object] = {"query_id": str(number), "query": query, "calls": 10.0, "rows": 10.0}
    return CountedRow(**(known | {"total_ms": total_ms} | changes))  # type: ignore[arg-type]


def source(**changes: object) -> SourceServer:
    server = RemoteServer(
        name="db:5432/shop", connection="host=db dbname=shop", host="db", port=5432, dbname="shop",
        user="app", version="17.4", major=17,
    )  # fmt: skip
    parameters = {
        "host": "db",
        "port": 5432,
        "user": "app",
        "password": SECRET,
        "dbname": "shop",
        "options": "",
    }
    settings = {
        "work_mem": SourceSetting("4MB", False, "Resource Usage / Memory"),
        "shared_buffers": SourceSetting("64GB", True, "Resource Usage / Memory"),
        "random_page_cost": SourceSetting("1.1", True, "Query Tuning / Planner Cost Constants"),
        "enable_seqscan": SourceSetting("on", False, "Query Tuning / Planner Method Configuration"),
        "jit": SourceSetting("on", False, "Query Tuning / Other Planner Options"),
        "TimeZone": SourceSetting("Europe/Berlin", True, "Client Connection Defaults"),
        "ssl": SourceSetting("on", True, "Connections and Authentication / SSL"),
        "rds.own": SourceSetting("1", True, "Query Tuning / Customized Options"),
    }
    facts = SchemaFacts(
        version=170004,
        database="shop",
        encoding="UTF8",
        collation="en_US.UTF-8",
        extensions=("plpgsql", "hstore"),
    )
    known = SourceServer(
        resolved=Resolved(server, parameters), role="app", is_superuser=False, reads_all_stats=True,
        is_standby=False, facts=facts, bytes=10_000, collation="en_US.UTF-8", character_type="en_US.UTF-8",
        provider="c", locale="", icu_rules="", encoding="UTF8", settings=settings,
    )  # fmt: skip
    return replace(known, **changes)  # type: ignore[arg-type]


BUILD = Build(origin="apt", version="17.5", major=17, bin_directory="/nowhere")
KNOWN = frozenset(
    {"work_mem", "shared_buffers", "random_page_cost", "enable_seqscan", "jit", "timezone", "ssl"}
)
