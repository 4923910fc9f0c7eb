"""What a table has beside its rows, carried over to one that replaces it, by the server's own catalogs.

A copy that a dump was restored into has no owners, privileges, publications or tablespaces of the server that
a script is for. So the script reads them where it runs: a DO block before the rows are put in, and one after.
Sources: src/include/catalog/pg_class.h, pg_attribute.h, pg_depend.h, pg_publication_rel.h; ALTER TABLE ONLY
of a partitioned table sets what partitions made later inherit.
"""

from string import Template

from pgassay.sql_text import constant, dollar_mark
from pgassay.tune.facts.schema import TableFacts

_BEFORE = Template("""DO $mark
DECLARE old pg_class; what text; advice text;
BEGIN
  SELECT * INTO old FROM pg_class WHERE oid = $source::regclass;
  SELECT r.what, r.advice INTO what, advice FROM (
    SELECT format('publication %s would publish the partitions under their own names', p.pubname),
        'ALTER PUBLICATION ... SET (publish_via_partition_root = true) first, and look after its subscribers.'
      FROM pg_publication p
        JOIN pg_publication_tables t USING (pubname) JOIN pg_namespace n ON n.nspname = t.schemaname
      WHERE n.oid = old.relnamespace AND t.tablename = old.relname AND NOT p.pubviaroot
    UNION ALL
    SELECT format('publication %s leaves it out, and would publish the new one', p.pubname),
        'DROP PUBLICATION first, and create it again afterwards, with the new table in its EXCEPT.'
      FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
      WHERE r.prrelid = old.oid AND (to_jsonb(r) ->> 'prexcept')::bool
    UNION ALL
    SELECT format('index %s has a tablespace of its own', c.relname),
        'ALTER INDEX ... SET TABLESPACE to that of the table first.'
      FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
      WHERE i.indrelid = old.oid AND c.reltablespace <> old.reltablespace
    UNION ALL
    SELECT format('CLUSTER goes by index %s, which a partitioned table has no mark for',
          indexrelid::regclass),
        'ALTER TABLE ... SET WITHOUT CLUSTER first, and cluster the partitions by their own indexes.'
      FROM pg_index WHERE indrelid = old.oid AND indisclustered
    UNION ALL
    SELECT format('it inherits from %s, where its rows would be missing', inhparent::regclass),
        'ALTER TABLE ... NO INHERIT first, where nobody reads it there.'
      FROM pg_inherits WHERE inhrelid = old.oid
    UNION ALL
    SELECT format('policy %s would be lost', polname), 'Make it on the partitioned table by hand.'
      FROM pg_policy WHERE polrelid = old.oid
    UNION ALL
    SELECT 'its row security would be lost', 'Enable it on the partitioned table by hand.'
      WHERE old.relrowsecurity OR old.relforcerowsecurity
    UNION ALL
    SELECT format('trigger %s would be lost', tgname), 'Make it on the partitioned table by hand.'
      FROM pg_trigger WHERE tgrelid = old.oid AND NOT tgisinternal
    UNION ALL
    SELECT format('rule %s would be lost', rulename), 'Make it on the partitioned table by hand.'
      FROM pg_rewrite WHERE ev_class = old.oid
    UNION ALL
    SELECT format('column %s would be an identity no more', attname),
        'ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY first, and give it a sequence as its default.'
      FROM pg_attribute WHERE attrelid = old.oid AND attidentity <> '' AND NOT attisdropped
    UNION ALL
    SELECT format('foreign key %s of %s would refer to the old table', conname, conrelid::regclass),
        'ALTER TABLE ... DROP CONSTRAINT first, and make it again afterwards.'
      FROM pg_constraint WHERE contype = 'f' AND confrelid = old.oid
    UNION ALL
    SELECT format('%s would keep reading the old table', r.ev_class::regclass),
        'Drop it first, and create it again afterwards.'
      FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid
      WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
        AND d.refobjid = old.oid AND r.ev_class <> old.oid
    UNION ALL
    SELECT format('%s would keep using the old table', pg_describe_object(classid, objid, objsubid)),
        'Drop it first, and create it again afterwards.'
      FROM pg_depend WHERE deptype = 'n' AND (classid = 'pg_proc'::regclass
          AND refclassid = 'pg_class'::regclass AND refobjid = old.oid
        OR classid <> 'pg_rewrite'::regclass AND refclassid = 'pg_type'::regclass
          AND refobjid = old.reltype)
    UNION ALL
    SELECT format('%s inherits from it', inhrelid::regclass), 'ALTER TABLE ... NO INHERIT first.'
      FROM pg_inherits WHERE inhparent = old.oid
    UNION ALL
    SELECT format('its security label by %s would be lost', provider), 'Label each partition by hand.'
      FROM pg_seclabel WHERE classoid = 'pg_class'::regclass AND objoid = old.oid
    UNION ALL
    SELECT format('it is one of extension %s', e.extname), 'ALTER EXTENSION ... DROP TABLE first.'
      FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
      WHERE d.classid = 'pg_class'::regclass AND d.objid = old.oid AND d.deptype IN ('e', 'x')
        AND d.refclassid = 'pg_extension'::regclass
    UNION ALL
    SELECT format('column %s was added since this script was made', attname), 'Run pgassay tune again.'
      FROM pg_attribute WHERE attrelid = old.oid AND attnum > 0 AND NOT attisdropped
        AND attname <> ALL ($columns)
    UNION ALL
    SELECT 'keys or indexes were added or dropped since this script was made', 'Run pgassay tune again.'
      WHERE (SELECT count(*) FROM pg_index WHERE indrelid = old.oid AND indisvalid) <> $indexes
        OR (SELECT count(*) FROM pg_constraint k WHERE conrelid = old.oid AND contype = 'f' AND NOT EXISTS
          (SELECT FROM pg_constraint w WHERE w.oid = k.conparentid AND w.conrelid = k.conrelid)) <> $foreign
  ) r (what, advice) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION '%', what USING HINT = advice;
  END IF;
  SELECT spcname INTO what FROM pg_tablespace WHERE oid = old.reltablespace;
  IF FOUND THEN
    EXECUTE format('ALTER TABLE %s SET TABLESPACE %I', $target::regclass, what);
  END IF;
  -- until the end of this transaction, for the indexes, which lie where the table does
  PERFORM set_config('default_tablespace', what, true) WHERE what IS NOT NULL;
  -- until the end of this transaction: the partitions are of the method that the table is of
  PERFORM set_config('default_table_access_method', amname, true) FROM pg_am WHERE oid = old.relam;
END $mark""")

_UNCHANGED = Template("""DO $mark
DECLARE what text;
BEGIN
  SELECT r.what INTO what FROM (
    SELECT format('column %s', COALESCE(n.attname, o.attname))
      FROM (SELECT * FROM pg_attribute WHERE attrelid = $source::regclass AND attnum > 0
          AND NOT attisdropped) n
        FULL JOIN (SELECT * FROM pg_attribute WHERE attrelid = $target::regclass AND attnum > 0
          AND NOT attisdropped) o ON o.attname = n.attname AND o.atttypid = n.atttypid
          AND o.atttypmod = n.atttypmod
      WHERE n.attname IS NULL OR o.attname IS NULL
    UNION ALL
    SELECT format('trigger %s', tgname) FROM pg_trigger WHERE tgrelid = $source::regclass AND NOT tgisinternal
    UNION ALL
    SELECT format('policy %s', polname) FROM pg_policy WHERE polrelid = $source::regclass
  ) r (what) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION '% was changed since, and the table as it was does not have that', what
      USING HINT = 'Make the same change to the table as it was first.';
  END IF;
END $mark""")

_AFTER = Template("""DO $mark
DECLARE old regclass := $source; new regclass := $target; command text;
BEGIN
  FOR command IN
    -- owners: of the table, and of its partitions
    SELECT format('ALTER TABLE %s OWNER TO %I', each.relation, pg_get_userbyid(c.relowner))
      FROM pg_class c, (SELECT new AS relation
        UNION ALL SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = new) each
      WHERE c.oid = old
    UNION ALL
    -- what default privileges gave away is none of the old table's
    SELECT DISTINCT format('REVOKE ALL ON %s FROM %s', c.oid::regclass,
        CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END)
      FROM pg_class c, aclexplode(c.relacl) a WHERE a.grantee <> c.relowner
        AND (c.oid = new OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = new))
    UNION ALL
    SELECT format('REVOKE ALL ON %s FROM %I', new, pg_get_userbyid(relowner))
      FROM pg_class WHERE oid = old AND relacl IS NOT NULL
    UNION ALL
    SELECT format('GRANT %s ON %s TO %s%s', a.privilege_type, new,
        CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END,
        CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
      FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = old
    UNION ALL
    SELECT format('GRANT %s (%I) ON %s TO %s%s', a.privilege_type, t.attname, new,
        CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END,
        CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
      FROM pg_attribute t, aclexplode(t.attacl) a WHERE t.attrelid = old AND NOT t.attisdropped
    UNION ALL
    SELECT format('COMMENT ON TABLE %s IS %L', new, obj_description(old, 'pg_class'))
      WHERE obj_description(old, 'pg_class') IS NOT NULL
    UNION ALL
    SELECT format('COMMENT ON CONSTRAINT %I ON %s IS %L', n.conname, new,
        obj_description(o.oid, 'pg_constraint'))
      FROM pg_constraint o JOIN pg_constraint n ON n.conrelid = new AND n.contype = o.contype
        AND pg_get_constraintdef(n.oid) = pg_get_constraintdef(o.oid)
      WHERE o.conrelid = old AND obj_description(o.oid, 'pg_constraint') IS NOT NULL
    UNION ALL
    -- indexes that are alike but for their names: comments, statistics of expressions, storage parameters
    SELECT format('COMMENT ON INDEX %s IS %L', n.indexrelid::regclass,
        obj_description(o.indexrelid, 'pg_class'))
      FROM pg_index o JOIN pg_index n ON n.indrelid = new
        AND split_part(pg_get_indexdef(n.indexrelid), ' USING ', 2)
          = split_part(pg_get_indexdef(o.indexrelid), ' USING ', 2)
      WHERE o.indrelid = old AND obj_description(o.indexrelid, 'pg_class') IS NOT NULL
    UNION ALL
    SELECT format('ALTER INDEX %s ALTER COLUMN %s SET STATISTICS %s', x.indexrelid::regclass, a.attnum,
        a.attstattarget)
      FROM pg_index o JOIN pg_index n ON n.indrelid = new
        AND split_part(pg_get_indexdef(n.indexrelid), ' USING ', 2)
          = split_part(pg_get_indexdef(o.indexrelid), ' USING ', 2)
        JOIN pg_attribute a ON a.attrelid = o.indexrelid AND a.attstattarget >= 0
        JOIN pg_index x ON x.indexrelid = n.indexrelid
          OR x.indexrelid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = n.indexrelid)
      WHERE o.indrelid = old
    UNION ALL
    SELECT format('ALTER INDEX %s SET (%s)', i.inhrelid::regclass, array_to_string(c.reloptions, ', '))
      FROM pg_constraint o JOIN pg_class c ON c.oid = o.conindid
        JOIN pg_constraint n ON n.conrelid = new AND n.contype = o.contype
        AND pg_get_constraintdef(n.oid) = pg_get_constraintdef(o.oid)
        JOIN pg_inherits i ON i.inhparent = n.conindid
      WHERE o.conrelid = old AND o.contype IN ('p', 'u') AND c.reloptions IS NOT NULL
    UNION ALL
    SELECT format('ALTER STATISTICS %s.%I SET STATISTICS %s', n.stxnamespace::regnamespace, n.stxname,
        o.stxstattarget)
      FROM pg_statistic_ext o JOIN pg_statistic_ext n ON n.stxrelid = new AND n.stxkind = o.stxkind
        AND pg_get_statisticsobjdef_columns(n.oid) = pg_get_statisticsobjdef_columns(o.oid)
      WHERE o.stxrelid = old AND o.stxstattarget >= 0
    UNION ALL
    SELECT format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS %s', new, attname, attstattarget)
      FROM pg_attribute WHERE attrelid = old AND attstattarget >= 0 AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT format('ALTER TABLE %s ALTER COLUMN %I SET (%s)', new, attname, array_to_string(attoptions, ', '))
      FROM pg_attribute WHERE attrelid = old AND attoptions IS NOT NULL AND NOT attisdropped
    UNION ALL
    SELECT format('ALTER TABLE %s REPLICA IDENTITY %s', i.inhrelid::regclass,
        CASE c.relreplident WHEN 'f' THEN 'FULL' ELSE 'NOTHING' END)
      FROM pg_class c, pg_inherits i WHERE c.oid = old AND c.relreplident IN ('f', 'n') AND i.inhparent = new
    UNION ALL
    -- a sequence goes with the column that owns it: else dropping the old table would drop it
    SELECT format('ALTER SEQUENCE %s OWNED BY %s.%I', d.objid::regclass, new, a.attname)
      FROM pg_depend d JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
        JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
      WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
        AND d.refobjid = old AND d.deptype = 'a'
    UNION ALL
    -- PostgreSQL 14 has neither lists of columns nor conditions, and no columns of the catalogs for them
    SELECT format('ALTER PUBLICATION %I ADD TABLE %s%s%s', p.pubname, new,
        ' (' || (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute a
          WHERE a.attrelid = old AND to_jsonb(r) -> 'prattrs' @> to_jsonb(a.attnum)) || ')',
        ' WHERE (' || (SELECT to_jsonb(t) ->> 'rowfilter' FROM pg_publication_tables t
            JOIN pg_class c ON c.relname = t.tablename AND c.oid = old
            JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = t.schemaname
          WHERE t.pubname = p.pubname) || ')')
      FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid WHERE r.prrelid = old
    UNION ALL
    SELECT format('ALTER PUBLICATION %I DROP TABLE %s', p.pubname, old)
      FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid WHERE r.prrelid = old
  LOOP
    EXECUTE command;
  END LOOP;
END $mark""")


def before_the_rows(old: str, new: str, table: TableFacts) -> str:
    """A DO block that refuses what can't be carried over, and sets the new table's place and access method.

    `old`, `new`: names as SQL has them, with their schemas; `new` is partitioned and has no partitions yet.
    `table`: the old one as the script knows it, which names its columns, keys and indexes.
    """
    columns = f"ARRAY[{', '.join(constant(each.name) for each in table.columns)}]::name[]"
    return _BEFORE.substitute(
        mark=dollar_mark(old, new, columns),
        source=constant(old),
        target=constant(new),
        columns=columns,
        indexes=sum(each.valid for each in table.indexes),
        foreign=sum(each.kind == "foreign" and not each.of_partition for each in table.constraints),
    )


def after_the_rows(old: str, new: str) -> str:
    """A DO block that gives the new table all else.

    That is its owner, privileges, comments, statistics targets and replica identity, the storage parameters
    of its keys, the sequences that its columns own, and its places in publications, which the old one leaves.
    """
    return _AFTER.substitute(mark=dollar_mark(old, new), source=constant(old), target=constant(new))


def unchanged(new: str, old: str) -> str:
    """A DO block that refuses to go back where the new table has what would be lost with it."""
    return _UNCHANGED.substitute(mark=dollar_mark(old, new), source=constant(new), target=constant(old))
