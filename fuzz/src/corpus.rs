//! Inputs on disk: the examples, the inputs that failed once, and those that fail now.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::FuzzTarget;

fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The examples, and the inputs that failed once.
///
/// # Errors
/// When a file cannot be read.
pub fn seeds(target: FuzzTarget) -> io::Result<Vec<Vec<u8>>> {
    let mut seeds = vec![Vec::new()];
    seeds.extend(target.seeds().iter().map(|seed| seed.as_bytes().to_vec()));
    if let Some(name) = target.seed_file() {
        for example in sorted(&home().join("../examples"))? {
            let file = example.join(name);
            if file.is_file() {
                seeds.push(fs::read(file)?);
            }
        }
    }
    for (_, known) in known(target)? {
        seeds.push(known);
    }
    Ok(seeds)
}

/// The inputs that failed once, each with its file.
///
/// # Errors
/// When a file cannot be read.
pub fn known(target: FuzzTarget) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let files = sorted(&home().join("corpus").join(target.name()))?;
    files.into_iter().map(|file| fs::read(&file).map(|input| (file, input))).collect()
}

fn sorted(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = match fs::read_dir(directory) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    files.sort();
    Ok(files)
}

/// The file for an input that fails; `id` makes its name unique.
pub(crate) fn failure(target: FuzzTarget, id: &str) -> io::Result<PathBuf> {
    let directory = home().join("failures");
    fs::create_dir_all(&directory)?;
    Ok(directory.join(format!("{}-{id}", target.name())))
}
