//! Embeds the operator kit, the parts of olm-client that it uses, and the operator MyApp: the scaffold is made of
//! the files that the workspace compiles and tests.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

/// Folders and files below the root of the workspace.
const SOURCES: [&str; 6] = [
    "operators/kit/src",
    "olm/client/src/lease.rs",
    "olm/client/src/lease",
    "olm/client/src/watch.rs",
    "operators/myapp/src",
    "operators/myapp/examples",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("../..");
    let mut files = Vec::new();
    for source in SOURCES {
        println!("cargo:rerun-if-changed={}", root.join(source).display());
        collect(&root, Path::new(source), &mut files)?;
    }
    files.sort();
    let mut table = String::from("&[\n");
    for file in files {
        writeln!(table, "    ({:?}, include_str!({:?})),", file.display().to_string(), root.join(&file))?;
    }
    table.push(']');
    std::fs::write(Path::new(&std::env::var("OUT_DIR")?).join("sources.rs"), table)?;
    Ok(())
}

/// The files of a folder, or the file, as paths below the root.
fn collect(root: &Path, path: &Path, out: &mut Vec<PathBuf>) -> Result<(), Box<dyn std::error::Error>> {
    let full = root.join(path);
    if !full.is_dir() {
        out.push(path.to_owned());
        return Ok(());
    }
    let read = std::fs::read_dir(&full);
    for entry in read.map_err(|error| format!("failed to read {}: {error}", full.display()))? {
        collect(root, &path.join(entry?.file_name()), out)?;
    }
    Ok(())
}
