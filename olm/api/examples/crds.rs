//! Writes the CustomResourceDefinitions as YAML into a folder: `make crds`. `--record FILE` writes them as JSON,
//! one a line and without descriptions: the form in which `tests/lifecycle/releases` keeps those of a release.

use std::{error::Error, fmt::Write as _, path::Path};

use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    match (args.next(), args.next()) {
        (Some(flag), Some(file)) if flag == "--record" => record(Path::new(&file)),
        (Some(folder), _) => write(Path::new(&folder)),
        (None, _) => write(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/crds"))),
    }
}

fn write(folder: &Path) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    for crd in olm_api::crds() {
        let file = folder.join(format!("{}.yaml", crd.spec.names.plural));
        std::fs::write(&file, serde_yaml::to_string(&crd)?)?;
        println!("{}", file.display());
    }
    Ok(())
}

fn record(file: &Path) -> Result<(), Box<dyn Error>> {
    let mut lines = String::new();
    for crd in olm_api::crds() {
        let mut crd = serde_json::to_value(&crd)?;
        remove_descriptions(&mut crd);
        writeln!(lines, "{crd}")?;
    }
    std::fs::write(file, lines)?;
    Ok(())
}

/// A field may have the name too; its value is a schema.
fn remove_descriptions(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| name != "description" || !value.is_string());
            fields.values_mut().for_each(remove_descriptions);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_descriptions),
        _ => {}
    }
}
