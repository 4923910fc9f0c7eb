"""The queries of the catalogs for servers of 14 to 19; where versions differ, the lines say from which on.

Sources: src/include/catalog/*.h and src/backend/catalog/system_views.sql of each version.
"""

import re

# A line that ends with /* 17+ */ or /* 16- */ is for those versions alone.
_MARK = re.compile(r"/\* (\d+)([+-]) \*/\s*$")


def query(text: str, version: int) -> str:
    """The query for a server of this server_version_num: lines of other versions are left out."""
    major = version // 10_000
    lines = []
    for line in text.splitlines():
        mark = _MARK.search(line)
        if mark is None or (major >= int(mark[1]) if mark[2] == "+" else major <= int(mark[1])):
            lines.append(line)
    return "\n".join(lines)


_OURS = """n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
    AND n.nspname !~ '^pg_(temp|toast_temp)_'"""

# A crash loses the counts of tables and indexes, and no time of the database's tells: those of the background
# writer begin anew then, with a time of their own (pgstat_reset_after_failure of
# src/backend/utils/activity/pgstat.c). The postmaster may run on all the while.
# PostgreSQL's own locales, C.UTF-8 and PG_UNICODE_FAST too, compare bytes as C does (collate_is_c of
# src/backend/utils/adt/pg_locale_builtin.c): they differ in what is upper case.
DATABASE = """
SELECT d.datname AS database, pg_catalog.pg_encoding_to_char(d.encoding)::text AS encoding,
    d.datcollate AS collation, /* 14- */
    CASE d.datlocprovider WHEN 'c' THEN d.datcollate WHEN 'b' THEN 'C' /* 15+ */
        ELSE COALESCE(pg_catalog.to_jsonb(d) ->> 'datlocale', /* 15+ */
            pg_catalog.to_jsonb(d) ->> 'daticulocale', d.datcollate) END AS collation, /* 15+ */
    pg_catalog.current_setting('TimeZone') AS time_zone,
    pg_catalog.current_schemas(false)::text[] AS search_path,
    pg_catalog.current_setting('block_size')::int AS block_bytes,
    EXTRACT(epoch FROM pg_catalog.clock_timestamp() - COALESCE(
        GREATEST(pg_catalog.pg_stat_get_db_stat_reset_time(d.oid),
            pg_catalog.pg_stat_get_bgwriter_stat_reset_time()), pg_catalog.pg_postmaster_start_time())
        )::float8 / 86400 AS counted_days,
    ARRAY(SELECT COALESCE(NULLIF(r.application_name, ''), r.client_addr::text, 'of process ' || r.pid)
            FROM pg_catalog.pg_stat_replication r
            WHERE r.state IS DISTINCT FROM 'backup' AND r.application_name IS DISTINCT FROM 'pg_receivewal'
                AND r.pid NOT IN (SELECT s.active_pid FROM pg_catalog.pg_replication_slots s
                    WHERE s.slot_type = 'logical' AND s.active_pid IS NOT NULL)
        UNION SELECT 'of slot ' || s.slot_name FROM pg_catalog.pg_replication_slots s
            WHERE s.slot_type = 'physical' AND NOT s.active
        ORDER BY 1) AS standbys,
    c.num_timed AS checkpoints_timed, c.num_requested AS checkpoints_requested /* 17+ */
    c.checkpoints_timed, c.checkpoints_req AS checkpoints_requested /* 16- */
FROM pg_catalog.pg_database d
    CROSS JOIN pg_catalog.pg_stat_checkpointer c /* 17+ */
    CROSS JOIN pg_catalog.pg_stat_bgwriter c /* 16- */
WHERE d.datname = pg_catalog.current_database()
"""

RELATIONS = f"""
SELECT c.oid::bigint AS oid, n.nspname AS schema_, c.relname AS name,
    CASE c.relkind WHEN 'r' THEN 'table' WHEN 'p' THEN 'partitioned' WHEN 'm' THEN 'materialized view'
        WHEN 'v' THEN 'view' ELSE 'foreign' END AS kind,
    c.reltuples::float8 AS rows, c.relallvisible AS all_visible_pages,
    CASE WHEN c.relkind IN ('r', 'm') THEN
        pg_catalog.pg_relation_size(c.oid) / pg_catalog.current_setting('block_size')::bigint END AS pages,
    CASE WHEN c.relkind IN ('r', 'm') THEN pg_catalog.pg_table_size(c.oid) END AS bytes,
    pg_catalog.array_cat(c.reloptions, ARRAY(SELECT 'toast.' || o.value FROM pg_catalog.pg_class t
        CROSS JOIN pg_catalog.unnest(t.reloptions) AS o (value) WHERE t.oid = c.reltoastrelid)) AS options,
    (SELECT p.relname::text FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class p ON p.oid = i.inhparent
        WHERE i.inhrelid = c.oid AND c.relispartition) AS parent,
    (SELECT m.nspname::text FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class p ON p.oid = i.inhparent
        JOIN pg_catalog.pg_namespace m ON m.oid = p.relnamespace
        WHERE i.inhrelid = c.oid AND c.relispartition) AS parent_schema,
    CASE WHEN c.relkind = 'p' THEN pg_catalog.pg_get_partkeydef(c.oid) END AS partition_key,
    pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS partition_bound,
    EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhparent = c.oid AND c.relkind <> 'p') AS inherited,
    c.relrowsecurity AS row_security, c.relhasrules AND c.relkind <> 'v' AS has_rules,
    ARRAY(SELECT t.tgname::text FROM pg_catalog.pg_trigger t
        WHERE t.tgrelid = c.oid AND NOT t.tgisinternal ORDER BY t.tgname) AS triggers,
    ARRAY(SELECT DISTINCT v.relname::text FROM pg_catalog.pg_depend d
        JOIN pg_catalog.pg_rewrite r ON r.oid = d.objid JOIN pg_catalog.pg_class v ON v.oid = r.ev_class
        WHERE d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refobjid = c.oid
            AND d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND v.oid <> c.oid) AS views,
    ARRAY(SELECT DISTINCT pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid)
        FROM pg_catalog.pg_depend d
        WHERE d.deptype = 'n' AND (d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
                AND d.refobjid = c.oid AND d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass
            OR d.refclassid = 'pg_catalog.pg_type'::pg_catalog.regclass AND d.refobjid = c.reltype
                AND c.reltype <> 0
                AND d.classid <> 'pg_catalog.pg_rewrite'::pg_catalog.regclass)) AS used_by,
    c.relpersistence = 'u' AS unlogged,
    pg_catalog.pg_stat_get_live_tuples(c.oid) AS live_rows,
    pg_catalog.pg_stat_get_dead_tuples(c.oid) AS dead_rows,
    pg_catalog.pg_stat_get_mod_since_analyze(c.oid) AS changed_since_analyze,
    pg_catalog.pg_stat_get_tuples_inserted(c.oid) AS inserted,
    pg_catalog.pg_stat_get_tuples_updated(c.oid) AS updated,
    pg_catalog.pg_stat_get_tuples_hot_updated(c.oid) AS hot_updated,
    pg_catalog.pg_stat_get_tuples_newpage_updated(c.oid) AS updated_elsewhere, /* 16+ */
    pg_catalog.pg_stat_get_tuples_deleted(c.oid) AS deleted,
    pg_catalog.pg_stat_get_numscans(c.oid) AS sequential_scans,
    GREATEST(pg_catalog.pg_stat_get_last_vacuum_time(c.oid),
        pg_catalog.pg_stat_get_last_autovacuum_time(c.oid))::text AS last_vacuum,
    GREATEST(pg_catalog.pg_stat_get_last_analyze_time(c.oid),
        pg_catalog.pg_stat_get_last_autoanalyze_time(c.oid))::text AS last_analyze,
    CASE WHEN c.relfrozenxid::text <> '0' THEN pg_catalog.age(c.relfrozenxid) END AS transactions_age,
    CASE WHEN c.relminmxid::text <> '0' THEN pg_catalog.mxid_age(c.relminmxid) END AS multixacts_age
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'm', 'v', 'f') AND {_OURS}
ORDER BY n.nspname, c.relname
"""

# The statistics of a partitioned table are those of its tree; another's are its own rows' alone.
COLUMNS = f"""
SELECT a.attrelid::bigint AS relation, a.attname AS name,
    pg_catalog.format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull AS not_null,
    CASE WHEN y.typtype = 'd' THEN pg_catalog.format_type(y.typbasetype, y.typtypmod) END AS domain_over,
    o.collname AS collation, o.collisdeterministic AS deterministic,
    a.attgenerated <> '' AS generated, a.attgenerated = 'v' AS computed, a.attidentity <> '' AS identity,
    s.null_frac::float8 AS null_share, s.n_distinct::float8 AS distinct, s.correlation::float8 AS correlation,
    s.avg_width AS width, s.most_common_vals::text::text[] AS common,
    s.most_common_freqs::float8[] AS common_share, s.histogram_bounds::text::text[] AS histogram,
    NULLIF(a.attstattarget, -1)::int AS statistics_target
FROM pg_catalog.pg_attribute a
    JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_catalog.pg_type y ON y.oid = a.atttypid
    LEFT JOIN pg_catalog.pg_collation o ON o.oid = a.attcollation
    LEFT JOIN pg_catalog.pg_stats s ON s.schemaname = n.nspname AND s.tablename = c.relname
        AND s.attname = a.attname AND s.inherited = (c.relkind = 'p')
WHERE c.relkind IN ('r', 'p', 'm', 'v', 'f') AND a.attnum > 0 AND NOT a.attisdropped AND {_OURS}
ORDER BY a.attrelid, a.attnum
"""

INDEXES = f"""
SELECT i.indexrelid::bigint AS oid, i.indrelid::bigint AS relation, n.nspname AS schema_, x.relname AS name,
    c.relname AS table, m.amname AS method, i.indisunique AS unique, i.indisprimary AS primary,
    i.indnullsnotdistinct AS nulls_not_distinct, /* 15+ */
    i.indimmediate AS immediate, i.indisvalid AND i.indisready AS valid,
    pg_catalog.pg_get_expr(i.indpred, i.indrelid, true) AS predicate,
    (SELECT k.conname::text FROM pg_catalog.pg_constraint k
        WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x') LIMIT 1) AS constraint,
    i.indisreplident AS replica_identity, i.indisclustered AS clustered, i.indnkeyatts AS key_count,
    pg_catalog.pg_relation_size(i.indexrelid) AS bytes,
    pg_catalog.pg_relation_size(i.indexrelid) / pg_catalog.current_setting('block_size')::bigint AS pages,
    pg_catalog.pg_stat_get_numscans(i.indexrelid) AS scans,
    EXTRACT(epoch FROM pg_catalog.clock_timestamp() - /* 16+ */
        pg_catalog.pg_stat_get_lastscan(i.indexrelid))::float8 / 86400 AS last_scan_days, /* 16+ */
    pg_catalog.pg_get_indexdef(i.indexrelid) AS definition
FROM pg_catalog.pg_index i
    JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
    JOIN pg_catalog.pg_class c ON c.oid = i.indrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = x.relnamespace
    JOIN pg_catalog.pg_am m ON m.oid = x.relam
WHERE {_OURS} AND i.indislive
ORDER BY i.indrelid, x.relname
"""

# Included columns have no operator class: unnest fills up with nulls. Of several arrays it is syntax and not
# looked up in the search path (transformRangeFunction of src/backend/parser/parse_clause.c).
INDEX_KEYS = f"""
SELECT i.indexrelid::bigint AS index, a.attname AS column,
    CASE WHEN k.attribute = 0 THEN
        pg_catalog.pg_get_indexdef(i.indexrelid, k.position::int, true) END AS expression,
    p.opcname AS opclass, p.opcdefault AS default_opclass, o.collname AS collation, k.option
FROM pg_catalog.pg_index i
    JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = x.relnamespace
    CROSS JOIN LATERAL unnest(i.indkey::int2[], i.indclass::oid[], i.indcollation::oid[],
        i.indoption::int2[]) WITH ORDINALITY AS k (attribute, class, collated, option, position)
    LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attribute
        AND k.attribute <> 0
    LEFT JOIN pg_catalog.pg_opclass p ON p.oid = k.class
    LEFT JOIN pg_catalog.pg_collation o ON o.oid = k.collated
WHERE {_OURS} AND i.indislive
ORDER BY i.indexrelid, k.position
"""

# A foreign key that refers to a partitioned table has a row of its own for each partition of that, below the
# row of the whole key: it says no more than on which partition triggers are (addFkRecurseReferenced of
# src/backend/commands/tablecmds.c).
CONSTRAINTS = f"""
SELECT k.conrelid::bigint AS relation, k.conname AS name,
    CASE k.contype WHEN 'p' THEN 'primary' WHEN 'u' THEN 'unique' WHEN 'f' THEN 'foreign'
        WHEN 'c' THEN 'check' WHEN 'n' THEN 'not null' ELSE 'exclusion' END AS kind,
    ARRAY(SELECT a.attname::text FROM pg_catalog.unnest(k.conkey) WITH ORDINALITY AS u (number, position)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.number
        ORDER BY u.position) AS columns,
    r.relname AS referenced_table, rn.nspname AS referenced_schema,
    ARRAY(SELECT a.attname::text FROM pg_catalog.unnest(k.confkey) WITH ORDINALITY AS u (number, position)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.number
        ORDER BY u.position) AS referenced_columns,
    k.convalidated AS valid, k.condeferrable AS deferrable,
    EXISTS (SELECT FROM pg_catalog.pg_constraint w WHERE w.oid = k.conparentid AND w.conrelid = k.conrelid)
        AS of_partition,
    k.conenforced AS enforced, /* 18+ */
    pg_catalog.pg_get_constraintdef(k.oid, true) AS definition
FROM pg_catalog.pg_constraint k
    JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_catalog.pg_class r ON r.oid = k.confrelid
    LEFT JOIN pg_catalog.pg_namespace rn ON rn.oid = r.relnamespace
WHERE k.contype IN ('p', 'u', 'f', 'c', 'n', 'x') AND {_OURS}
ORDER BY k.conrelid, k.conname
"""

FUNCTIONS = f"""
SELECT n.nspname AS schema_, p.proname AS name,
    pg_catalog.pg_get_function_identity_arguments(p.oid) AS arguments,
    p.provolatile::text AS volatility, p.proisstrict AS strict, p.prokind::text AS kind,
    p.proretset AS returns_set
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE {_OURS}
ORDER BY n.nspname, p.proname, arguments
"""

STATISTICS = f"""
SELECT s.stxname AS name, c.relname AS table, t.nspname AS table_schema, s.stxkind::text[] AS letters,
    ARRAY(SELECT a.attname::text FROM pg_catalog.unnest(s.stxkeys::int2[]) AS u (number)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = s.stxrelid AND a.attnum = u.number
        ORDER BY u.number) AS columns
FROM pg_catalog.pg_statistic_ext s
    JOIN pg_catalog.pg_class c ON c.oid = s.stxrelid
    JOIN pg_catalog.pg_namespace t ON t.oid = c.relnamespace
    JOIN pg_catalog.pg_namespace n ON n.oid = s.stxnamespace
WHERE {_OURS}
ORDER BY s.stxname
"""

SETTINGS = "SELECT name, setting FROM pg_catalog.pg_settings WHERE setting IS NOT NULL ORDER BY name"

EXTENSIONS = """
SELECT a.name::text AS name, a.installed_version IS NOT NULL AS installed, n.nspname::text AS schema_
FROM pg_catalog.pg_available_extensions a
    LEFT JOIN pg_catalog.pg_extension e ON e.extname = a.name
    LEFT JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
ORDER BY a.name
"""
