//! Values of a session that are followed: where it uses them, in texts and parameters, and in which rows they came.

use std::sync::Arc;

use pgassay_capture::format::bind::{Bind, format_of};
use pgassay_capture::format::event::Message;

use super::super::requests::Portal;
use super::super::shared::Shared;
use super::super::texts::Text;
use super::super::values::{Answering, Used};
use super::Reading;

/// Behind them no parameter of a statement is followed.
const LITERALS_FROM: usize = 1 << 16;

impl Reading {
    /// Values in a statement's text, which begins at a place of the message's body.
    pub(super) fn literals(
        &self,
        text: &Text,
        message: &Message,
        (start, from): (u64, usize),
        shared: &mut Shared<'_>,
    ) {
        // An empty statement is sent instead.
        if text.has_secret {
            return;
        }
        for (index, range) in text.values.iter().enumerate() {
            let used = Used {
                database: self.database_number,
                family: text.family,
                index: LITERALS_FROM + index,
                message: start,
                at: start + 5 + (from + range.start) as u64,
                ..Used::default()
            };
            let value = &message.body[from + range.start..from + range.end];
            shared.values.used(used, text, value, &mut shared.plan);
        }
    }

    pub(super) fn bind(&mut self, message: &Message, start: u64, shared: &mut Shared<'_>) {
        let Some(bind) = Bind::read(&message.body) else {
            return;
        };
        let text = self.statements.get(bind.statement).cloned().unwrap_or_default();
        for (index, range) in bind.values.iter().enumerate() {
            let Some(range) = range else {
                continue;
            };
            let used = Used {
                database: self.database_number,
                family: text.family,
                index,
                message: start,
                at: start + 5 + range.start as u64,
                is_binary: format_of(&bind.formats, index) == 1,
                is_parameter: true,
            };
            let value = &message.body[range.clone()];
            shared.values.used(used, &text, value, &mut shared.plan);
        }
        let value = |index: usize| Some(&message.body[bind.values.get(index)?.clone()?]);
        let portal = Portal {
            names: text.calls.names(value),
            text,
            formats: Arc::from(bind.result_formats),
        };
        self.portals.insert(bind.portal.to_vec(), portal);
    }

    pub(super) fn row(&mut self, row: &[u8], shared: &mut Shared<'_>) {
        let Some(request) = self.requests.front() else {
            return;
        };
        let columns = match self.columns {
            Some(columns) => columns,
            None => {
                let Some(description) = self.descriptions.get(&request.text.family) else {
                    return;
                };
                let portal = request.portal.as_ref();
                let answering = Answering {
                    database: self.database_number,
                    text: &request.text,
                    names: portal.map_or(&request.text.names, |portal| &portal.names),
                    last: self.last.as_ref(),
                    tables: &|word| shared.texts.tables(&self.database, word),
                    description,
                    formats: portal.map(|portal| &*portal.formats),
                };
                let found = shared.values.columns(&answering, &mut shared.plan);
                self.columns = Some(found);
                found
            }
        };
        let columns = &shared.plan.columns[columns as usize];
        let by = (self.number, request.step);
        shared.values.made(columns, row, by, &mut self.made);
    }
}
