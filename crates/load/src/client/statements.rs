//! What a client sends of a transaction of pgassay's own.

use pgassay_protocol::{Failure, requests};

use super::{Client, Outcome, Source, State};
use crate::spec::QueryProtocol;
use crate::transaction::Statement;
use crate::transport::Transport;

impl<T: Transport> Client<T> {
    /// Sends the statements to be prepared, all in one batch; `Prepared` at once when there are none.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn prepare(&mut self) -> Result<Outcome, Failure> {
        let Source::Builtin(script) = &self.work.source else {
            return Ok(Outcome::Prepared);
        };
        if self.work.protocol != QueryProtocol::Prepared {
            return Ok(Outcome::Prepared);
        }
        let prepared: Vec<&Statement> = script
            .statements
            .iter()
            .filter(|statement| !statement.wire.is_simple)
            .collect();
        if prepared.is_empty() {
            return Ok(Outcome::Prepared);
        }
        for statement in prepared {
            let text = statement.prepared_text();
            requests::prepare(
                &statement.name,
                &text,
                statement.parameter_types(),
                &mut self.output,
            )?;
        }
        requests::sync(&mut self.output);
        self.state = State::Preparing;
        self.send()?;
        Ok(Outcome::Waiting)
    }

    #[inline]
    pub(super) fn send_statement(&mut self) -> Result<(), Failure> {
        let Source::Builtin(script) = &self.work.source else {
            return Ok(());
        };
        let (number, values) = self.transaction.step(self.step);
        let statement = &script.statements[number];
        let texts = self.transaction.texts();
        let protocol = match statement.wire.is_simple {
            true => QueryProtocol::Simple,
            false => self.work.protocol,
        };
        match protocol {
            QueryProtocol::Prepared => {
                let arguments = statement.arguments(values, texts);
                let format = statement.wire.result_format;
                requests::execute_prepared(&statement.name, arguments, format, &mut self.output)?;
            }
            QueryProtocol::Extended => {
                requests::prepare(
                    "",
                    &statement.prepared_text(),
                    statement.parameter_types(),
                    &mut self.output,
                )?;
                let arguments = statement.arguments(values, texts);
                requests::execute_prepared("", arguments, statement.wire.result_format, &mut self.output)?;
            }
            QueryProtocol::Simple => {
                statement.interpolate(values, texts, &mut self.text);
                requests::simple_query(&self.text, &mut self.output)?;
            }
        }
        self.send()
    }
}
