//! Puts the pages of `docs/` that `olm explain` shows into the program, so that they are at hand without a network.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

/// Folders with a page per code.
const FOLDERS: [&str; 2] = ["findings", "reasons"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let docs = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("../../docs");
    let mut table = String::from("&[\n");
    for folder in FOLDERS {
        let path = docs.join(folder);
        println!("cargo:rerun-if-changed={}", path.display());
        let read = std::fs::read_dir(&path);
        let read = read.map_err(|error| format!("failed to read {}: {error}", path.display()))?;
        let mut pages: Vec<PathBuf> = read.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
        pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
        pages.sort();
        for page in pages {
            let code = page.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            writeln!(table, "    ({folder:?}, {code:?}, include_str!({:?})),", page.display().to_string())?;
        }
    }
    table.push(']');
    std::fs::write(Path::new(&std::env::var("OUT_DIR")?).join("pages.rs"), table)?;
    Ok(())
}
