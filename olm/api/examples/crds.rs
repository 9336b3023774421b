//! Writes the CustomResourceDefinitions as YAML into a folder: `make crds`.

use std::{error::Error, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/crds");
    let folder = std::env::args_os().nth(1).map_or_else(|| PathBuf::from(default), PathBuf::from);
    std::fs::create_dir_all(&folder)?;
    for crd in olm_api::crds() {
        let file = folder.join(format!("{}.yaml", crd.spec.names.plural));
        std::fs::write(&file, serde_yaml::to_string(&crd)?)?;
        println!("{}", file.display());
    }
    Ok(())
}
