use super::*;

fn shown(text: &str) -> String {
    String::from_utf8(without_secrets(text.as_bytes()).into_owned()).unwrap()
}

#[test]
fn a_secret_is_not_stored() {
    for text in [
        "CREATE ROLE a LOGIN PASSWORD 'hunter2'",
        "create user a encrypted password 'hunter2' valid until 'infinity'",
        "ALTER ROLE a PASSWORD /* it's */ 'hunter2'",
        "ALTER ROLE a PASSWORD -- it's\n'hunter2'",
        "ALTER ROLE a PASSWORD E'hunter2'",
        "ALTER ROLE a PASSWORD U&'hunter2'",
        "ALTER ROLE a PASSWORD $$hunter2$$",
        "ALTER ROLE a PASSWORD $x$hunter2$x$",
        "ALTER ROLE a PASSWORD 'x'\n'hunter2'",
        "ALTER ROLE a PASSWORD 'x\\'hunter2'",
        "ALTER ROLE a PASSWORD 'x''hunter2'",
        "SELECT 'C:\\'; ALTER ROLE a PASSWORD 'hunter2'",
        "SELECT 'C:\\', 'x'; ALTER ROLE a PASSWORD 'hunter2'",
        "SELECT E'C:\\'; ALTER ROLE a PASSWORD '; ALTER ROLE a PASSWORD 'hunter2'",
        "ALTER ROLE a PASSWORD 'never ended hunter2",
        "SELECT 1; ALTER USER a PASSWORD 'hunter2'; SELECT 2",
        "CREATE USER MAPPING FOR a SERVER s OPTIONS (user 'u', password 'hunter2')",
        "CREATE USER MAPPING FOR a SERVER s OPTIONS (\"secret key\" 'hunter2')",
        "ALTER USER MAPPING FOR a SERVER s OPTIONS (SET token 'hunter2')",
        "CREATE SUBSCRIPTION s CONNECTION 'host=h password=hunter2' PUBLICATION p",
        "ALTER SUBSCRIPTION s CONNECTION 'hunter2'",
        "SELECT dblink_connect('host=h password=hunter2 user=u')",
        "SELECT dblink_connect('host=h password = ''hunter2'' user=u')",
        "SELECT dblink('postgresql://u:hunter2@h/db', 'select 1')",
        "DO $$ BEGIN ALTER ROLE a PASSWORD 'hunter2'; END $$",
        "DO $$ BEGIN EXECUTE 'ALTER ROLE a PASSWORD ''hunter2'''; END $$",
        "CREATE FUNCTION f() RETURNS void LANGUAGE sql AS 'ALTER ROLE a PASSWORD ''hunter2'''",
        "SELECT dblink_connect('host=h password=a\\ hunter2 user=u')",
        "SELECT dblink_connect($$host=h password='it\\'s hunter2' user=u$$)",
        "SELECT dblink_connect('host=h password=''it\\''s hunter2'' user=u')",
        "CREATE SERVER s FOREIGN DATA WRAPPER w OPTIONS (host 'h', \"password\" 'hunter2')",
        "DO $$ BEGIN EXECUTE format('ALTER ROLE %I PASSWORD %L', 'a', 'hunter2'); END $$",
        "DO $$ BEGIN EXECUTE 'ALTER ROLE a PASSWORD ' || quote_literal('hunter2'); END $$",
        "DO $$ BEGIN EXECUTE 'ALTER ROLE a PASSWORD ''' || 'hunter2' || ''''; END $$",
        "DO $$ BEGIN EXECUTE 'ALTER ROLE ' || 'a' || ' PASSWORD ' || '''hunter2'''; END $$",
        "SELECT dblink_connect('host=h password=' || 'hunter2')",
    ] {
        let found = shown(text);
        assert!(!found.contains("hunter2"), "{text} → {found}");
        assert!(found.contains("***"), "{text} → {found}");
        assert!(lacks_secret(found.as_bytes()), "{text} → {found}");
    }
}

#[test]
fn what_is_no_secret_stays_as_it_was() {
    for text in [
        "SELECT * FROM users WHERE password = 'abc' AND name = 'x'",
        "UPDATE u SET password_hash = 'x' WHERE id = 1",
        "SELECT password, 'it''s' FROM u",
        "ALTER ROLE a PASSWORD NULL",
        "SELECT 'https://example.com/a@b'",
        "SELECT 'passing', $1, $tag$connection$tag$",
        "SELECT connection, E'\\'' FROM c",
        "INSERT INTO log VALUES ('password', 'reset'), ('Reset password', 'link sent')",
        "SELECT format('Your password %s', 'expires'), 'alter ego', 'no connection', 'x'",
    ] {
        assert_eq!(shown(text), text);
    }
    assert_eq!(
        shown("ALTER ROLE a PASSWORD 'x' VALID UNTIL '2030-01-01'; SELECT 'y'"),
        "ALTER ROLE a PASSWORD '***' VALID UNTIL '2030-01-01'; SELECT 'y'"
    );
}

#[test]
fn stars_of_the_application_s_own_are_no_secret_that_was_taken_out() {
    for text in [
        "SELECT '***'",
        "INSERT INTO cards (password, masked) VALUES ('x', '***')",
        "SELECT id FROM users WHERE password = '***' AND connection = '***'",
        "/**** PASSWORD 'kept' ****/ SELECT 1",
    ] {
        assert_eq!(shown(text), text);
        assert!(!lacks_secret(text.as_bytes()), "{text}");
    }
}

#[test]
fn whatever_the_bytes_are_there_is_an_end() {
    let words: [&[u8]; 12] = [
        b"PASSWORD",
        b"'",
        b"$$",
        b"$a$",
        b"\\",
        b"\"",
        b"/*",
        b"*/",
        b"--",
        b"\n",
        b"://u:p@",
        b"password=",
    ];
    let mut state = 1_u64;
    for _ in 0..20_000 {
        let mut text = Vec::new();
        for _ in 0..8 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            text.extend_from_slice(words[(state >> 33) as usize % words.len()]);
        }
        let _ = without_secrets(&text);
    }
}
