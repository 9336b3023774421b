//! Case 46: explanations without a candidate.

use olm_resolver::{Code, VersionRequest};

use crate::world::{World, b, catalog_ref};

/// Each unknown name is reported separately, with the nearest ones. OLM reports "no operators found from
/// catalog ... / in package ... / in channel ... / with name ..."; here each has its own sentence.
#[test]
fn case_46_names_that_do_not_exist() {
    let base = || World::new().channel("cat", "etcd", "stable", &[b("etcdoperator.v0.10.0", "0.10.0")]);
    let e = base().sub("ectd", "stable").refused();
    assert_eq!((e.code, e.nearest.clone()), (Code::UnknownPackage, vec!["etcd".to_owned()]));
    let e = base().sub("etcd", "stabel").refused();
    assert_eq!((e.code, e.nearest.clone()), (Code::UnknownChannel, vec!["stable".to_owned()]));
    let e =
        base().sub("etcd", "stable").with(|r| r.starting_csv = Some("etcdoperator.v0.10.1".into())).refused();
    assert_eq!(
        (e.code, e.nearest.clone()),
        (Code::UnknownStartingCsv, vec!["etcdoperator.v0.10.0".to_owned()])
    );
    let e = base().sub("etcd", "stable").with(|r| r.version = VersionRequest::parse("0.10.9").ok()).refused();
    assert_eq!((e.code, e.nearest.clone()), (Code::UnknownVersion, vec!["0.10.0".to_owned()]));
    let e = base().sub("etcd", "stable").with(|r| r.catalog = catalog_ref("kat")).refused();
    assert_eq!((e.code, e.nearest.clone()), (Code::UnknownCatalog, vec!["ns/cat".to_owned()]));
    assert!(e.code.is_not_found());
}

/// A missing dependency is reported from the Subscription down: the request, the bundle, and the requirement.
#[test]
fn case_46_missing_dependency() {
    let refused = World::new()
        .channel("cat", "a", "alpha", &[b("a.v1", "1.0.0").requires(&["k"])])
        .sub("a", "alpha")
        .refused();
    assert_eq!(refused.code, Code::DependencyUnsatisfied);
    let [root] = refused.nodes.as_slice() else { panic!("{refused:?}") };
    assert_eq!(root.subject, "Subscription ns/a");
    assert_eq!(root.children[0].subject, "a.v1");
    assert_eq!(root.children[0].children[0].subject, "API k (g/v)");
}
