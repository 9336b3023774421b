//! The generated code in the source tree is that of `proto/registry.proto`: its users need no `protoc` to build, and
//! no generator. With `OLM_GENERATE=1`, or by `make protos`, it is written again.

use std::{error::Error, path::Path};

use prost::Message as _;
use prost_types::FileDescriptorSet;

const CODE: &str = "src/generated.rs";
const DESCRIPTOR: &str = "src/registry.bin";

/// The code, and the descriptor of the API and of its imports without their comments.
fn generate() -> Result<(String, FileDescriptorSet), Box<dyn Error>> {
    let out = tempfile::tempdir()?;
    let descriptor = out.path().join("registry.bin");
    tonic_prost_build::configure()
        .out_dir(out.path())
        .file_descriptor_set_path(&descriptor)
        .emit_rerun_if_changed(false)
        .compile_protos(&["proto/registry.proto"], &["proto"])
        .map_err(|error| {
            format!("failed to compile proto/registry.proto (`make deps` installs protoc): {error}")
        })?;
    let mut set = FileDescriptorSet::decode(std::fs::read(descriptor)?.as_slice())?;
    for file in &mut set.file {
        file.source_code_info = None;
    }
    Ok((std::fs::read_to_string(out.path().join("api.rs"))?, set))
}

#[test]
fn the_code_is_generated_from_the_description() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (code, descriptor) = generate()?;
    if std::env::var_os("OLM_GENERATE").is_some() {
        std::fs::write(root.join(CODE), &code)?;
        std::fs::write(root.join(DESCRIPTOR), descriptor.encode_to_vec())?;
    }
    let current = std::fs::read_to_string(root.join(CODE))? == code;
    assert!(current, "{CODE} is not generated from proto/registry.proto; run `make protos`");
    let written = FileDescriptorSet::decode(std::fs::read(root.join(DESCRIPTOR))?.as_slice())?;
    assert!(
        written == descriptor,
        "{DESCRIPTOR} is not generated from proto/registry.proto; run `make protos`"
    );
    Ok(())
}
