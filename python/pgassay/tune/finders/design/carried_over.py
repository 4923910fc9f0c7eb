"""What a table has beside its rows, carried over to one that takes its place, by the server's own catalogs.

A copy that a dump was restored into has no owners, privileges, publications or tablespaces of the server that
a script is for. So the script reads them where it runs: a DO block before the rows are put in, and one after.
Sources: src/include/catalog/pg_class.h, pg_attribute.h, pg_depend.h, pg_publication_rel.h; ALTER TABLE ONLY
of a partitioned table sets what partitions made later inherit.
"""

from string import Template

from pgassay.sql_text import constant

_MARK = "$pgassay$"

_BEFORE = Template("""DO $mark
DECLARE old pg_class; name text;
BEGIN
  SELECT * INTO old FROM pg_class WHERE oid = $source::regclass;
  SELECT p.pubname INTO name FROM pg_publication p
    JOIN pg_publication_tables t USING (pubname) JOIN pg_namespace n ON n.nspname = t.schemaname
    WHERE n.oid = old.relnamespace AND t.tablename = old.relname AND NOT p.pubviaroot LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'publication % would publish the partitions under their own names', name
      USING HINT = 'ALTER PUBLICATION ... SET (publish_via_partition_root = true) first, and look after its '
        'subscribers.';
  END IF;
  SELECT c.relname INTO name FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE i.indrelid = old.oid AND c.reltablespace <> old.reltablespace LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'index % has a tablespace of its own', name
      USING HINT = 'ALTER INDEX ... SET TABLESPACE to that of the table first.';
  END IF;
  SELECT spcname INTO name FROM pg_tablespace WHERE oid = old.reltablespace;
  IF FOUND THEN
    EXECUTE format('ALTER TABLE %s SET TABLESPACE %I', $target::regclass, name);
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
    SELECT format('GRANT %s ON %s TO %s%s', a.privilege_type, new,
        CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END,
        CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
      FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = old AND a.grantee <> c.relowner
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
    SELECT format('ALTER PUBLICATION %I ADD TABLE %s%s%s', p.pubname, new,
        ' (' || (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute a
          WHERE a.attrelid = old AND a.attnum = ANY (r.prattrs)) || ')',
        ' WHERE (' || pg_get_expr(r.prqual, r.prrelid) || ')')
      FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid WHERE r.prrelid = old
    UNION ALL
    SELECT format('ALTER PUBLICATION %I DROP TABLE %s', p.pubname, old)
      FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid WHERE r.prrelid = old
  LOOP
    EXECUTE command;
  END LOOP;
END $mark""")


def before_the_rows(old: str, new: str) -> str:
    """A DO block that refuses what can't be carried over, and gives the new table the old one's tablespace.

    `old`, `new`: names as SQL has them, with their schemas; `new` is partitioned and has no partitions yet.
    """
    return _BEFORE.substitute(mark=_MARK, source=constant(old), target=constant(new))


def after_the_rows(old: str, new: str) -> str:
    """A DO block that gives the new table all else.

    That is its owner, privileges, comments, statistics targets and replica identity, the sequences that its
    columns own, and its places in publications, which the old one leaves.
    """
    return _AFTER.substitute(mark=_MARK, source=constant(old), target=constant(new))
