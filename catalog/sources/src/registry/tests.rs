use super::*;
use crate::options::Mirror;

fn mirrored(reference: &str) -> Vec<String> {
    let mirror = |source: &str, mirrors: &[&str]| Mirror {
        source: source.into(),
        mirrors: mirrors.iter().map(ToString::to_string).collect(),
    };
    let options = Options {
        mirrors: vec![
            mirror("quay.io", &["all.example.com"]),
            mirror("quay.io/org", &["one.example.com:5000/quay", "two.example.com/org/"]),
            mirror("docker.io/library", &["hub.example.com"]),
        ],
        ..Options::default()
    };
    places(&reference.parse().expect("a reference"), &options)
        .expect("places")
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn the_longest_source_counts_and_the_origin_comes_last() {
    assert_eq!(
        mirrored("quay.io/org/repo:v1"),
        ["one.example.com:5000/quay/repo:v1", "two.example.com/org/repo:v1", "quay.io/org/repo:v1"]
    );
    assert_eq!(
        mirrored("quay.io/organisation/repo:v1"),
        ["all.example.com/organisation/repo:v1", "quay.io/organisation/repo:v1"]
    );
    assert_eq!(mirrored("etcd"), ["hub.example.com/etcd:latest", "docker.io/library/etcd:latest"]);
    assert_eq!(mirrored("ghcr.io/a:b"), ["ghcr.io/a:b"]);
}

#[test]
fn digests_stay() {
    let digest = Digest::of(b"x");
    assert_eq!(
        mirrored(&format!("quay.io/a@{digest}")),
        [format!("all.example.com/a@{digest}"), format!("quay.io/a@{digest}")]
    );
}

#[test]
fn a_push_asks_for_a_token_for_both() {
    let options = Options::default();
    let http = Http::new(&options);
    let reference: Reference = "registry.example/a/b:v1".parse().expect("a reference");
    let repository = || Repository::new(&http, &reference).expect("a repository");
    assert_eq!(repository().scope(), ("repository:a/b:pull".to_owned(), false));
    assert_eq!(repository().for_push().scope(), ("repository:a/b:pull,push".to_owned(), true));
}
