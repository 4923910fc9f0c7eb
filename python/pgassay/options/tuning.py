"""What `tune` alone takes, and what it makes of the options that it shares."""

from dataclasses import dataclass
from functools import partial

from pgassay.options.option import folder, maybe, switch, text
from pgassay.value_syntax.quantities import CLIENTS_MAX, size_bytes, whole

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from pathlib import Path

_TUNE = ("tune",)
HELPS = {
    "--dataset": "dump:FILE, folder:DATADIR (a physical copy), script:FILE or pgbench (default; with a DSN a "
    "dump of its database)",
    "--max-time": "time limit for everything, loading the data included, as 10m, 1h",
    "--cache": "warm-buffers (default if the data fit), warm-pages (default otherwise), cold, cold-each, "
    "as-is",
    "--storage": "where to put the copies, as in compare",
}
# In the documents, of options that are shared.
GUIDES = {
    "--dataset": "`dump:FILE`, `folder:DATADIR`, `script:FILE` or `pgbench`: [datasets](datasets.md) "
    "(default: `pgbench`; with a DSN a dump of it)",
    "--max-time": "the time for everything, loading included; at least 20 s (default 30m)",
    "--cache": "the [cache state](cache-states.md): `warm-buffers` if the data take less than 60 % of shared "
    "buffers, else `warm-pages` (default: by size)",
    "--set": "a setting of your server, as `--set work_mem=16MB`: give all that matter, else advice on "
    "settings is for pgassay's defaults (default: none; with a DSN its own)",
    "--margin": "gains smaller than this do not matter (default 3%)",
    "--redact": "no literals in the page and in what is printed, except numbers in sentences. The folder's "
    "files keep them",
}


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class TuneOptions:
    """Which statements are tuned, where their values come from, and what a fix may be."""

    statements: int | None = maybe(
        "--statements N",
        partial(whole, least=1),
        "with a DSN: number of statements, those that took most in total, per call or per row (default 20)",
        _TUNE,
    )
    only: str | None = maybe(
        "--only ID,ID",
        text,
        "with a DSN: only these statements, by their queryid in pg_stat_statements",
        _TUNE,
    )
    values: "Path | None" = maybe(
        "--values FILE",
        folder,
        "with a DSN: statements with '-- parameters: …' above them, for their $1, $2 …",
        _TUNE,
        guide="with a DSN: statements with `-- parameters: …` above them: [where values come "
        "from](tune-server.md#the-statements-of-a-server)",
    )
    log: "Path | None" = maybe(
        "--log FILE", folder, "with a DSN: the server's log, for values of parameters", _TUNE
    )
    arm: str | None = maybe(
        "--arm NAME", text, "with the folder of a compare: the arm to tune (default: the control)", _TUNE
    )
    workload: str | None = maybe(
        "--workload sql:FILE",
        text,
        "the statements that are too slow",
        _TUNE,
        guide="`sql:FILE`: queries, INSERT, UPDATE, DELETE, MERGE; required unless a DSN, a folder "
        "or `--demo` has them. Include writes, or what an index costs them is not seen; they are rolled "
        "back. `replay:DIR`: the families that took most of a capture's time, with frequent and slow values",
    )
    clients: int | None = maybe(
        "--clients N",
        partial(whole, least=1, most=CLIENTS_MAX),
        "number of sessions that execute the statements concurrently in the proof, in trials with "
        "restarts (default 1)",
        _TUNE,
        guide="how many sessions execute the statements [at once](tune-how-it-works.md#clients-at-once) in "
        "the proof, which takes longer",
    )
    demo: bool = switch(
        "--demo",
        "a demo: tune statements that are known to be slow, and one that is not, on pgassay's own data",
        _TUNE,
    )
    locale: str | None = maybe(
        "--locale NAME",
        text,
        "the collation of the source's database, as en_US.utf8, icu:en-US or builtin:C.UTF-8 (default: "
        "that of the dump or of the database, C if unknown)",
        _TUNE,
        guide="the collation of your database, as `en_US.utf8`, `icu:en-US` or `builtin:C.UTF-8`; give it "
        "with a plain dump made without `--create`, or plans that compare text may differ",
    )
    max_space_bytes: int | None = maybe(
        "--max-space SIZE",
        partial(size_bytes, example="500MB"),
        "how much more disk space all chosen fixes together may take, as 500MB (default: no limit)",
        _TUNE,
        guide="how much [larger the database may get](tune-answer.md#a-limit-of-space), as `500MB`",
    )
    no_rewrites: bool = switch("--no-rewrites", "do not rewrite statements", _TUNE)
