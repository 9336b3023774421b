//! Every kind of call that the operator makes to the Kubernetes API. The bundles' permissions are tested against it:
//! they allow these calls and no others.

/// Group, resource and verb.
pub const CALLS: &[(&str, &str, &str)] = &[
    // controller: watch; Pass::run reads again before it acts
    ("etcd.database.coreos.com", "etcdclusters", "list"),
    ("etcd.database.coreos.com", "etcdclusters", "watch"),
    ("etcd.database.coreos.com", "etcdclusters", "get"),
    ("etcd.database.coreos.com", "etcdclusters/status", "patch"),
    // dereference lists, apply creates and deletes, the controller watches
    ("", "pods", "list"),
    ("", "pods", "watch"),
    ("", "pods", "create"),
    ("", "pods", "delete"),
    // apply
    ("", "services", "list"),
    ("", "services", "watch"),
    ("", "services", "create"),
    ("", "services", "patch"),
    // events: a first one is created, its repetitions are counted in it
    ("events.k8s.io", "events", "create"),
    ("events.k8s.io", "events", "patch"),
    // lease
    ("coordination.k8s.io", "leases", "get"),
    ("coordination.k8s.io", "leases", "create"),
    ("coordination.k8s.io", "leases", "update"),
];

/// What `--create-crd` needs in addition; the bundles pass `--create-crd=false`.
pub const CREATE_CRD_CALLS: &[(&str, &str, &str)] = &[
    ("apiextensions.k8s.io", "customresourcedefinitions", "create"),
    ("apiextensions.k8s.io", "customresourcedefinitions", "patch"),
];
