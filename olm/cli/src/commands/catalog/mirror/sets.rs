//! ImageDigestMirrorSet and ImageTagMirrorSet for the mirrored images.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::exit::Failure;

/// The two objects as YAML: each repository is expected under the same path below `registry`.
pub fn write<'a>(registry: &str, images: impl Iterator<Item = &'a str>) -> Result<String, Failure> {
    let registry = registry.trim_end_matches('/');
    let (mut digests, mut tags) = (BTreeSet::new(), BTreeSet::new());
    for image in images {
        match image.split_once('@') {
            Some((name, _)) => digests.insert(without_tag(name)),
            None => tags.insert(without_tag(image)),
        };
    }
    let mirrors = |names: &BTreeSet<&str>| -> Vec<Value> {
        let mirror = |name: &&str| {
            // Only the host is replaced.
            let path =
                name.split_once('/').filter(|(host, _)| host.contains(['.', ':']) || *host == "localhost");
            let path = path.map_or(*name, |(_, path)| path);
            json!({"source": name, "mirrors": [format!("{registry}/{path}")]})
        };
        names.iter().map(mirror).collect()
    };
    let mut out = String::new();
    for (kind, field, names) in [
        ("ImageDigestMirrorSet", "imageDigestMirrors", &digests),
        ("ImageTagMirrorSet", "imageTagMirrors", &tags),
    ] {
        if names.is_empty() {
            continue;
        }
        let object = json!({
            "apiVersion": "config.openshift.io/v1",
            "kind": kind,
            "metadata": {"name": "olm-catalog-mirror"},
            "spec": {field: mirrors(names)},
        });
        out.push_str("---\n");
        out.push_str(&serde_yaml::to_string(&object).map_err(anyhow::Error::from)?);
    }
    Ok(out)
}

/// A colon after the last slash starts the tag.
fn without_tag(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_listed_once_by_how_they_are_named() {
        let images = ["quay.io/a/b:v1", "quay.io/a/b:v2", "localhost:5000/c@sha256:00", "redis"];
        insta::assert_snapshot!(write("mirror.example/olm/", images.into_iter()).unwrap(), @r"
        ---
        apiVersion: config.openshift.io/v1
        kind: ImageDigestMirrorSet
        metadata:
          name: olm-catalog-mirror
        spec:
          imageDigestMirrors:
          - source: localhost:5000/c
            mirrors:
            - mirror.example/olm/c
        ---
        apiVersion: config.openshift.io/v1
        kind: ImageTagMirrorSet
        metadata:
          name: olm-catalog-mirror
        spec:
          imageTagMirrors:
          - source: quay.io/a/b
            mirrors:
            - mirror.example/olm/a/b
          - source: redis
            mirrors:
            - mirror.example/olm/redis
        ");
    }
}
