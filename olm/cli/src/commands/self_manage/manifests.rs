//! `olm self manifests`: the objects as YAML, as a Helm chart, and the image that they run.

use std::{collections::BTreeSet, path::Path};

use olm_manager::manifests::{ManifestOptions, containerfile, helm, manifests, where_served};

use serde_json::Value;

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
    let objects = manifests(&choose(options, &args.chosen)?);
    for object in objects.iter().filter(|object| is_served(object, args.kube_version)) {
        let text = serde_yaml::to_string(object).map_err(anyhow::Error::from)?;
        say(&format!("---\n{text}"))?;
    }
    if let Some(text) = left_out(&objects, args.kube_version) {
        eprintln!("{text}");
    }
    Ok(())
}

/// Whether Kubernetes of a minor version has the kind of an object: an apply that never succeeds is no installation.
fn is_served(object: &Value, minor: u32) -> bool {
    where_served(object).is_none_or(|since| since <= minor)
}

/// What is missing from what was printed, and how to have it.
fn left_out(objects: &[Value], minor: u32) -> Option<String> {
    let missing = objects.iter().filter(|object| !is_served(object, minor));
    // Of kinds that every cluster has, single objects are missing.
    let name = |object: &Value| {
        let kind = object["kind"].as_str()?;
        Some(match (kind, object["metadata"]["name"].as_str()) {
            ("ClusterRole", Some(name)) => format!("{kind} {name}"),
            _ => kind.to_owned(),
        })
    };
    let kinds: BTreeSet<String> = missing.filter_map(name).collect();
    let kinds: Vec<String> = kinds.into_iter().collect();
    (!kinds.is_empty()).then(|| {
        format!(
            "left out for Kubernetes 1.{minor}: {}; --kube-version names that of your cluster",
            kinds.join(", ")
        )
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_kubernetes_is_not_given_kinds_that_it_does_not_have() {
        let all = manifests(&ManifestOptions::default());
        let policies = |minor| -> Vec<&str> {
            let given = all.iter().filter(|object| is_served(object, minor));
            let kinds = given.filter_map(|object| object["kind"].as_str());
            kinds.filter(|kind| kind.contains("AdmissionPolicy")).collect()
        };
        assert_eq!(policies(29), [""; 0]);
        assert_eq!(policies(30), ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]);
        assert_eq!(policies(35), policies(30));
        assert_eq!(policies(36).len(), 6);
        // and that is said
        assert_eq!(
            left_out(&all, 30).unwrap(),
            "left out for Kubernetes 1.30: ClusterRole olm-admin, ClusterRole olm-edit, MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding; --kube-version names that of your cluster"
        );
        assert_eq!(left_out(&all, 36), None);
        assert_eq!(all.iter().filter(|object| is_served(object, 36)).count(), all.len());
    }
}
