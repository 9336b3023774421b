//! Generates Rust from `proto/registry.proto`, and its descriptor for server reflection.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    tonic_prost_build::configure()
        .file_descriptor_set_path(out.join("registry.bin"))
        .compile_protos(&["proto/registry.proto"], &["proto"])
        .map_err(|error| {
            format!(
                "failed to compile proto/registry.proto (protoc and the descriptions of protobuf's own types are \
                 needed; `make deps` installs both): {error}"
            )
        })?;
    Ok(())
}
