//! Scripts of a user, in pgbench's language: what all clients share of them.

use std::collections::BTreeMap;

use pgassay_pgbench::command::Action;
use pgassay_pgbench::random::uniform;
use pgassay_pgbench::script::Program;
use pgassay_pgbench::value::Value;
use pgassay_pgbench::variables::{Names, Variables, is_name};
use pgassay_protocol::Failure;
use rand_xoshiro::Xoroshiro128StarStar;
use serde::Deserialize;

/// pgbench's MAX_SCRIPTS.
const SCRIPTS_MAX: usize = 128;

/// One script of a load.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptSpec {
    /// What it is called in messages, as its file.
    pub name: String,
    /// Its text.
    pub text: String,
    /// How often it is run in relation to the others; 0 for never.
    #[serde(default = "one")]
    pub weight: u32,
}

fn one() -> u32 {
    1
}

/// The scripts, their variables, and what each client begins with.
#[derive(Debug)]
pub struct Programs {
    /// The scripts.
    pub programs: Vec<Program>,
    /// The variables of all of them.
    pub names: Names,
    /// Before each script's first command, counted over all scripts: how many commands there are.
    pub offsets: Vec<usize>,
    /// Of each command, counted over all scripts: how many SQL commands there are before it.
    pub sql_numbers: Vec<usize>,
    weights: Vec<i64>,
    initial: Variables,
    client_id: usize,
}

impl Programs {
    /// Reads the scripts; `given` are variables with their texts, which win over those of pgbench's own.
    ///
    /// # Errors
    /// The first fault with its script, line and column.
    pub fn new(
        scripts: &[ScriptSpec],
        given: &BTreeMap<String, String>,
        scale: i64,
        (seed, default_seed): (u64, i64),
    ) -> Result<Self, Failure> {
        if scripts.len() > SCRIPTS_MAX {
            return Err(Failure::client(format!(
                "at most {SCRIPTS_MAX} scripts are possible"
            )));
        }
        let mut names = Names::default();
        let (mut programs, mut offsets, mut commands) = (Vec::new(), Vec::new(), 0);
        let (mut sql_numbers, mut sql_commands) = (Vec::new(), 0);
        for script in scripts {
            let program = Program::parse(&script.name, &script.text, &mut names)
                .map_err(|fault| Failure::client(fault.to_string()))?;
            if program.commands.is_empty() {
                return Err(Failure::client(format!(
                    "{}: the script has no command",
                    script.name
                )));
            }
            offsets.push(commands);
            commands += program.commands.len();
            for command in &program.commands {
                sql_numbers.push(sql_commands);
                sql_commands += usize::from(matches!(command.action, Action::Sql(..)));
            }
            programs.push(program);
        }
        offsets.push(commands);
        let weights: Vec<i64> = scripts.iter().map(|script| i64::from(script.weight)).collect();
        if weights.iter().sum::<i64>() == 0 {
            return Err(Failure::client(
                "no script has a weight above 0: give one of them",
            ));
        }
        let client_id = names.place("client_id");
        let mut initial = Variables::new(names.len());
        #[allow(clippy::cast_possible_wrap)] // pgbench stores the 64 bits as they are.
        let seed = seed as i64;
        for (name, value) in [
            ("scale", scale),
            ("default_seed", default_seed),
            ("random_seed", seed),
        ] {
            initial.set(names.place(name), Value::Integer(value));
        }
        for (name, text) in given {
            if !is_name(name) {
                return Err(Failure::client(format!("invalid variable name: \"{name}\"")));
            }
            initial.set_text(names.place(name), text.clone());
        }
        Ok(Self {
            programs,
            names,
            offsets,
            sql_numbers,
            weights,
            initial,
            client_id,
        })
    }

    /// What a client's variables are before its first transaction.
    pub fn variables_of(&self, client: usize) -> Variables {
        let mut variables = self.initial.clone();
        if !variables.is_defined(self.client_id) {
            let number = i64::try_from(client).unwrap_or(i64::MAX);
            variables.set(self.client_id, Value::Integer(number));
        }
        variables
    }

    /// The name that a command is prepared under: pgbench's, and one more where that may be taken on a connection.
    pub fn prepared_name(&self, command: usize, generation: u32) -> String {
        let number = self.sql_numbers[command];
        match generation {
            1 => format!("P_{number}"),
            _ => format!("P_{number}_{generation}"),
        }
    }

    /// Whether any script reads rows.
    pub fn captures(&self) -> bool {
        self.programs.iter().any(Program::captures)
    }

    /// The script that comes next, by the thread's own stream (chooseScript in pgbench.c).
    pub fn choose(&self, random: &mut Xoroshiro128StarStar) -> usize {
        if self.programs.len() == 1 {
            return 0;
        }
        let total: i64 = self.weights.iter().sum();
        let mut left = uniform(random, 0, total - 1);
        for (script, weight) in self.weights.iter().enumerate() {
            left -= weight;
            if left < 0 {
                return script;
            }
        }
        self.programs.len() - 1
    }
}
