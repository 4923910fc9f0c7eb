//! What the function debug() of an expression prints.

use pgassay_pgbench::value::Value;

/// The answer to the function debug() of an expression.
pub(super) fn print_debug(script: usize, place: usize, value: Value) {
    let mut text = String::new();
    value.write(&mut text);
    let kind = if value == Value::Null {
        ""
    } else {
        value.type_name()
    };
    let shown = if kind.is_empty() {
        "null".to_owned()
    } else {
        format!("{kind} {text}")
    };
    eprintln!("debug(script={script},command={}): {shown}", place + 1);
}
