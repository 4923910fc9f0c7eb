//! When a script pauses: where it says so, and idle in its transaction before the end of it.

use pgassay_pgbench::command::{Action, Word};
use pgassay_pgbench::number_text::leading_integer;
use pgassay_protocol::{Failure, TransactionStatus};

use super::{Interpreter, Step, failed};

impl Interpreter {
    /// Whether the client is idle before this command: it ends the transaction that is open.
    pub(super) fn is_idle_before(&mut self, action: &Action, status: TransactionStatus) -> bool {
        let Action::Sql(query, _) = action else {
            return false;
        };
        let is_idle = !self.has_idled
            && self.pipeline.is_none()
            && status != TransactionStatus::Idle
            && ends_transaction(&query.text);
        self.has_idled |= is_idle;
        is_idle
    }

    pub(super) fn sleep(&mut self, amount: &Word, unit_us: i64) -> Result<Step, Failure> {
        let count = match amount {
            Word::Text(text) => leading_integer(text),
            Word::Variable(place) => {
                let mut text = String::new();
                if !self.variables.write(*place, &mut text) {
                    let name = self.work.names.name(*place);
                    return Err(failed(&format!("\\sleep: undefined variable \"{name}\"")));
                }
                if !text
                    .trim_start()
                    .starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+')
                {
                    let name = self.work.names.name(*place);
                    return Err(failed(&format!(
                        "\\sleep: invalid sleep time \"{text}\" for variable \"{name}\""
                    )));
                }
                leading_integer(&text)
            }
        };
        let nanoseconds = count.saturating_mul(unit_us).saturating_mul(1000);
        Ok(Step::Sleep(u64::try_from(nanoseconds).unwrap_or(0)))
    }
}

/// Whether a command ends a transaction, by its first word; going back to a savepoint does not.
fn ends_transaction(text: &str) -> bool {
    let mut words = text
        .split(|c: char| c.is_whitespace() || c == ';')
        .filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default().to_ascii_lowercase();
    match first.as_str() {
        "commit" | "end" | "abort" => true,
        "rollback" => !words.any(|word| word.eq_ignore_ascii_case("to")),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::ends_transaction;

    #[test]
    fn a_savepoint_is_no_end() {
        for text in ["END;", "commit", " Rollback ;", "abort", "ROLLBACK AND CHAIN;"] {
            assert!(ends_transaction(text), "{text}");
        }
        for text in [
            "rollback to s;",
            "ROLLBACK WORK TO SAVEPOINT s",
            "update ends set a = 1",
            "",
        ] {
            assert!(!ends_transaction(text), "{text}");
        }
    }
}
