"""The files of the user's relations in a running server's data directory."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pgassay.environment.linux.pagecache import files_of_relation

if TYPE_CHECKING:
    from pgassay.environment.server.sessions import ControlSession

_QUERY = """
SELECT n.nspname, c.relname, c.relkind::text, pg_relation_filepath(c.oid), pg_table_size(c.oid)
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'i', 't', 'm', 'S') AND c.relpersistence <> 't'
   AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND c.oid >= 16384
 ORDER BY 1, 2
"""


@dataclass(frozen=True)
class Relation:
    """A table, index or TOAST relation: its name and all its files (segments and forks)."""

    schema: str
    name: str
    kind: str
    files: tuple[Path, ...]

    @property
    def size_bytes(self) -> int:
        """The bytes of all its files."""
        return sum(file.stat().st_size for file in self.files)

    @property
    def is_heap_or_index(self) -> bool:
        """Whether it is a table or an index proper (a TOAST relation or sequence is not)."""
        return self.kind in ("r", "i", "m")


def user_relations(connection: "ControlSession", data_directory: Path) -> list[Relation]:
    """Every user relation of the connected database with its files, ordered by name."""
    relations = []
    for schema, name, kind, filepath, _size in connection.execute(_QUERY).fetchall():
        if filepath is None:
            continue
        relations.append(Relation(schema, name, kind, tuple(files_of_relation(data_directory, filepath))))
    return relations
