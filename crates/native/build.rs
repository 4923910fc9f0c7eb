//! Compiles in which sources the binary is made of, so that Python can refuse a stale one of the same version.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The polynomial of CRC-32 as zlib has it, bits reversed (RFC 1952, section 8).
const POLYNOMIAL: u32 = 0xEDB8_8320;
const SUFFIXES: [&str; 2] = ["rs", "toml"];

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()?;
    let mut files = vec![root.join("Cargo.lock"), root.join("Cargo.toml")];
    collect(&root.join("crates"), &mut files)?;
    for watched in ["Cargo.lock", "Cargo.toml", "crates"] {
        println!("cargo::rerun-if-changed={}", root.join(watched).display());
    }
    println!("cargo::rustc-env=PGASSAY_SOURCES={:08x}", checksum(&root, files)?);
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|found| SUFFIXES.iter().any(|suffix| found == *suffix))
        {
            files.push(path);
        }
    }
    Ok(())
}

/// Over the files by name: name, zero, content, zero. `python/pgassay/native/binary.py` computes the same.
fn checksum(root: &Path, files: Vec<PathBuf>) -> io::Result<u32> {
    let mut named: Vec<(String, PathBuf)> = files
        .into_iter()
        .map(|path| {
            let name = path
                .strip_prefix(root)
                .unwrap_or(&path)
                .to_string_lossy()
                .into_owned();
            (name, path)
        })
        .collect();
    named.sort();
    let mut register = u32::MAX;
    for (name, path) in named {
        for bytes in [name.as_bytes(), b"\0", &fs::read(path)?, b"\0"] {
            register = bytes.iter().fold(register, |register, byte| add(register, *byte));
        }
    }
    Ok(!register)
}

fn add(register: u32, byte: u8) -> u32 {
    (0..8).fold(register ^ u32::from(byte), |value, _| {
        if value & 1 == 1 {
            (value >> 1) ^ POLYNOMIAL
        } else {
            value >> 1
        }
    })
}
