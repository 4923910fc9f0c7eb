//! The functions and operators of expressions: their names and how many arguments they take.

/// A function or an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Each is named as in pgbench's documentation.
pub enum Function {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equal,
    NotEqual,
    LessOrEqual,
    Less,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    Not,
    And,
    Or,
    Case,
    Is,
    Debug,
    Abs,
    Least,
    Greatest,
    Integer,
    Double,
    Pi,
    SquareRoot,
    Logarithm,
    Exponential,
    Power,
    Random,
    RandomGaussian,
    RandomExponential,
    RandomZipfian,
    HashFnv1a,
    HashMurmur2,
    Permute,
}

/// How many arguments a function takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arguments {
    /// So many.
    Exactly(usize),
    /// One or more.
    AtLeastOne,
    /// The last may be left out: the variable `default_seed` replaces it.
    WithSeed(usize),
}

use Arguments::{AtLeastOne, Exactly, WithSeed};

/// The functions that a script can call, by their names in lower case.
const BY_NAME: &[(&str, Function, Arguments)] = &[
    ("abs", Function::Abs, Exactly(1)),
    ("debug", Function::Debug, Exactly(1)),
    ("double", Function::Double, Exactly(1)),
    ("exp", Function::Exponential, Exactly(1)),
    ("greatest", Function::Greatest, AtLeastOne),
    ("hash", Function::HashMurmur2, WithSeed(2)),
    ("hash_fnv1a", Function::HashFnv1a, WithSeed(2)),
    ("hash_murmur2", Function::HashMurmur2, WithSeed(2)),
    ("int", Function::Integer, Exactly(1)),
    ("least", Function::Least, AtLeastOne),
    ("ln", Function::Logarithm, Exactly(1)),
    ("mod", Function::Modulo, Exactly(2)),
    ("permute", Function::Permute, WithSeed(3)),
    ("pi", Function::Pi, Exactly(0)),
    ("pow", Function::Power, Exactly(2)),
    ("power", Function::Power, Exactly(2)),
    ("random", Function::Random, Exactly(2)),
    ("random_exponential", Function::RandomExponential, Exactly(3)),
    ("random_gaussian", Function::RandomGaussian, Exactly(3)),
    ("random_zipfian", Function::RandomZipfian, Exactly(3)),
    ("sqrt", Function::SquareRoot, Exactly(1)),
];

/// The function of a name, in any case.
pub fn named(name: &str) -> Option<(Function, Arguments)> {
    let lower = name.to_ascii_lowercase();
    let found = BY_NAME.iter().find(|(known, _, _)| *known == lower);
    found.map(|&(_, function, arguments)| (function, arguments))
}
