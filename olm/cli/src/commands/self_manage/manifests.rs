//! `olm self manifests`: the objects as YAML, as a Helm chart, and the image that they run.

use std::path::Path;

use olm_manager::manifests::{ManifestOptions, containerfile, helm, manifests};

use super::{choose::choose, namespace};
use crate::{
    args::{Containerfile, Global, SelfManifestsArgs},
    exit::{Code, Failure},
    output::say,
};

pub(super) fn run(global: &Global, args: &SelfManifestsArgs) -> Result<(), Failure> {
    if let Some(how) = args.containerfile {
        let binary = match how {
            Containerfile::Build => containerfile::Binary::Built,
            Containerfile::Copy => containerfile::Binary::Copied,
        };
        return say(&containerfile::containerfile(binary));
    }
    if let Some(dir) = &args.helm {
        return chart(dir);
    }
    let options = ManifestOptions { namespace: namespace(global), ..ManifestOptions::default() };
    for object in manifests(&choose(options, &args.chosen)?) {
        let text = serde_yaml::to_string(&object).map_err(anyhow::Error::from)?;
        say(&format!("---\n{text}"))?;
    }
    Ok(())
}

/// Into a folder that is empty or not there: nothing of the user's is written over.
fn chart(dir: &Path) -> Result<(), Failure> {
    let failed = |path: &Path, error: &std::io::Error| {
        Failure::new(Code::Unexpected, format!("failed to write {}: {error}", path.display()))
    };
    if std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Failure::new(Code::Refused, format!("{} is not empty", dir.display()))
            .hint("name a folder that is empty or not there"));
    }
    let files = helm::chart().map_err(anyhow::Error::from)?;
    for (name, text) in &files {
        let path = dir.join(name);
        let parent = path.parent().unwrap_or(dir);
        std::fs::create_dir_all(parent).map_err(|error| failed(parent, &error))?;
        std::fs::write(&path, text).map_err(|error| failed(&path, &error))?;
    }
    eprintln!(
        "wrote {} files; next: helm install olm {} -n olm --create-namespace",
        files.len(),
        dir.display()
    );
    Ok(())
}
