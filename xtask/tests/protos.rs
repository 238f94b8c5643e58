//! The code generated from the protobuf files is committed, so that building needs no protobuf compiler.
//! `TIDEGATE_BLESS=1`, which `cargo xtask gen` sets, rewrites it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use prost::Message;
use prost_types::FileDescriptorSet;

/// The services of the server; these import the rest.
const ROOTS: [&str; 5] = [
    "envoy/service/auth/v3/external_auth.proto",
    "envoy/service/ratelimit/v3/rls.proto",
    "grpc/health/v1/health.proto",
    "grpc/reflection/v1/reflection.proto",
    "grpc/reflection/v1alpha/reflection.proto",
];

/// Has the same messages as `v1`, so only its descriptors are needed, not its code.
const V1_ALPHA: &str = "grpc.reflection.v1alpha";

const DESCRIPTORS: &str = "descriptors.bin";

#[test]
fn the_generated_files_are_current() {
    let home = xtask::workspace_root().join("crates/server/src/grpc/proto");
    let made = generate(&xtask::workspace_root().join("crates/server/proto"));
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        for (name, content) in &made {
            fs::write(home.join(name), content).expect("the file can be written");
        }
    }
    for (name, content) in &made {
        let kept = fs::read(home.join(name)).unwrap_or_default();
        assert!(kept == *content, "{name} does not match the protobuf files; `cargo xtask gen` rewrites it");
    }
    for name in names(&home).expect("it is a directory") {
        assert!(name == "mod.rs" || made.contains_key(&name), "{name} is not generated any more");
    }
}

/// The content of all generated files, by name.
fn generate(protos: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut compiler = protox::Compiler::new([protos]).expect("the protos are there");
    // Comments become documentation in the code; the descriptors for reflection omit them.
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(ROOTS).expect("the protos are valid");
    let set = compiler.file_descriptor_set();
    compiler.include_source_info(false);
    let mut made = BTreeMap::from([(DESCRIPTORS.to_owned(), compiler.file_descriptor_set().encode_to_vec())]);

    let needed = set.file.into_iter().filter(|file| file.package() != V1_ALPHA).collect();
    let needed = FileDescriptorSet { file: needed };
    let out = scratch();
    let mut config = prost_build::Config::new();
    config.out_dir(&out).bytes(["."]).include_file("tree.rs");
    config.compile_fds(needed).expect("code can be made");
    for name in names(&out).expect("it was made") {
        made.insert(name.clone(), formatted(&out.join(&name)));
    }
    made
}

/// The file formatted by rustfmt with the settings of the workspace, so that `cargo fmt --check` accepts it.
fn formatted(file: &Path) -> Vec<u8> {
    let config = xtask::workspace_root().join("rustfmt.toml");
    let ran = std::process::Command::new("rustfmt")
        .args(["--edition", "2024", "--config-path"])
        .arg(config)
        .stdin(fs::File::open(file).expect("it was made"))
        .output()
        .expect("rustfmt runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    ran.stdout
}

fn scratch() -> PathBuf {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("protos");
    // Remove the files of an earlier run.
    _ = fs::remove_dir_all(&out);
    fs::create_dir_all(&out).expect("it can be made");
    out
}

fn names(directory: &Path) -> io::Result<Vec<String>> {
    fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}
