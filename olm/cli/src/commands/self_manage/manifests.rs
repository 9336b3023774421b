//! `olm self manifests`: the objects as YAML, as a Helm chart, and the image that they run.

use std::{collections::BTreeSet, path::Path};

use olm_ops::manifests::{ManifestOptions, containerfile, helm, manifests, served};

use serde_json::Value;

use super::{choose::choose, found::namespace, registry::Registry};
use crate::{
    args::{Containerfile, Global, SelfManifestsArgs},
    exit::{Code, Failure},
    output::print_line,
    source::options as access,
};

pub(super) async fn run(global: &Global, args: &SelfManifestsArgs) -> Result<(), Failure> {
    if let Some(how) = args.containerfile {
        let binary = match how {
            Containerfile::Build => containerfile::Binary::Built,
            Containerfile::Copy => containerfile::Binary::Copied,
        };
        return print_line(&containerfile::containerfile(binary));
    }
    if let Some(dir) = &args.helm {
        return chart(dir);
    }
    let options = ManifestOptions { namespace: namespace(global), ..ManifestOptions::default() };
    let mut options = choose(options, &args.chosen)?;
    if let Some(registry) = &args.chosen.registry {
        let registry = Registry::parse(registry)?;
        registry.use_in(&mut options, registry.look_up(&access(&args.access)?).await?);
    }
    let objects = manifests(&options);
    for object in objects.iter().filter(|object| served(object).contains(&args.kube_version)) {
        let text = serde_yaml::to_string(object).map_err(anyhow::Error::from)?;
        print_line(&format!("---\n{text}"))?;
    }
    if let Some(text) = left_out(&objects, args.kube_version) {
        eprintln!("{text}");
    }
    Ok(())
}

/// A note on objects that were omitted because another version of Kubernetes has a replacement.
fn left_out(objects: &[Value], minor: u32) -> Option<String> {
    let missing = objects.iter().filter(|object| !served(object).contains(&minor));
    let kinds: BTreeSet<&str> = missing.filter_map(|object| object["kind"].as_str()).collect();
    let kinds: Vec<&str> = kinds.into_iter().collect();
    (!kinds.is_empty()).then(|| {
        format!(
            "omitted for Kubernetes 1.{minor}: {}; set --kube-version to the version of your cluster",
            kinds.join(", ")
        )
    })
}

/// Writes a chart into an empty or new folder, so that no file of the user is overwritten.
fn chart(dir: &Path) -> Result<(), Failure> {
    let failed = |path: &Path, error: &std::io::Error| {
        Failure::new(Code::Unexpected, format!("failed to write {}: {error}", path.display()))
    };
    if std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Failure::new(Code::Refused, format!("{} is not empty", dir.display()))
            .hint("choose an empty or new folder"));
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
    fn a_kubernetes_is_given_what_it_has_and_what_records_requests_there() {
        let all = manifests(&ManifestOptions::default());
        let kinds = |minor| -> BTreeSet<&str> {
            let given = all.iter().filter(|object| served(object).contains(&minor));
            let kinds = given.filter_map(|object| object["kind"].as_str());
            kinds.filter(|kind| kind.contains("AdmissionPolicy") || kind.contains("Webhook")).collect()
        };
        let (validating, webhook) = (
            ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"],
            "MutatingWebhookConfiguration",
        );
        assert_eq!(kinds(29), BTreeSet::from([webhook]));
        assert_eq!(kinds(30), validating.into_iter().chain([webhook]).collect());
        assert_eq!(kinds(35), kinds(30));
        let mutating = ["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"];
        assert_eq!(kinds(36), validating.into_iter().chain(mutating).collect());
        // and the omission is reported
        assert_eq!(
            left_out(&all, 30).unwrap(),
            "omitted for Kubernetes 1.30: MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding; set \
                --kube-version to the version of your cluster"
        );
        assert_eq!(
            left_out(&all, 36).unwrap(),
            "omitted for Kubernetes 1.36: MutatingWebhookConfiguration, Service; set --kube-version to the \
                version of your cluster"
        );
    }
}
