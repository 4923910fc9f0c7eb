"""pgbench's command line, on the native load generator.

`options` reads what was typed, `scripts` finds the scripts, `connection` is libpq's way to the server,
`initialise` makes the tables, `running` has the load run, `report` says what pgbench says and `beyond` what
it leaves out. Messages, files and exit statuses are those of PostgreSQL 18 (src/bin/pgbench/pgbench.c).
"""
