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
    ("", "pods", "patch"),
    ("", "pods", "delete"),
    ("", "persistentvolumeclaims", "list"),
    ("", "persistentvolumeclaims", "watch"),
    ("", "persistentvolumeclaims", "create"),
    ("", "persistentvolumeclaims", "patch"),
    ("", "persistentvolumeclaims", "delete"),
    // apply
    ("", "services", "list"),
    ("", "services", "watch"),
    ("", "services", "create"),
    ("", "services", "patch"),
    // tls::Keeper: reads those of users, makes its own
    ("", "secrets", "get"),
    ("", "secrets", "create"),
    ("", "secrets", "update"),
    // disruption
    ("policy", "poddisruptionbudgets", "get"),
    ("policy", "poddisruptionbudgets", "create"),
    ("policy", "poddisruptionbudgets", "patch"),
    ("policy", "poddisruptionbudgets", "delete"),
    // events: a first one is created, its repetitions are counted in it
    ("events.k8s.io", "events", "create"),
    ("events.k8s.io", "events", "patch"),
    // lease
    ("coordination.k8s.io", "leases", "get"),
    ("coordination.k8s.io", "leases", "create"),
    ("coordination.k8s.io", "leases", "update"),
];

/// What backups and restores need beside it. Where it is missing, they wait and clusters are looked after all the same.
pub const BACKUP_CALLS: &[(&str, &str, &str)] = &[
    // backup: watch (the controller of clusters too, for BackedUp), read again before a backup begins, take upstream's finalizer from what is deleted
    ("etcd.database.coreos.com", "etcdbackups", "list"),
    ("etcd.database.coreos.com", "etcdbackups", "watch"),
    ("etcd.database.coreos.com", "etcdbackups", "get"),
    ("etcd.database.coreos.com", "etcdbackups", "patch"),
    ("etcd.database.coreos.com", "etcdbackups/status", "patch"),
    // restore: the same, with a finalizer of its own; makes the EtcdCluster of a template, annotates the one it works on
    ("etcd.database.coreos.com", "etcdrestores", "list"),
    ("etcd.database.coreos.com", "etcdrestores", "watch"),
    ("etcd.database.coreos.com", "etcdrestores", "get"),
    ("etcd.database.coreos.com", "etcdrestores", "patch"),
    ("etcd.database.coreos.com", "etcdrestores/status", "patch"),
    ("etcd.database.coreos.com", "etcdclusters", "create"),
    ("etcd.database.coreos.com", "etcdclusters", "patch"),
    // restore: the operator's own pod, for its address and image
    ("", "pods", "get"),
];

/// What `--create-crd` needs in addition; the bundles pass `--create-crd=false`.
pub const CREATE_CRD_CALLS: &[(&str, &str, &str)] = &[
    ("apiextensions.k8s.io", "customresourcedefinitions", "create"),
    ("apiextensions.k8s.io", "customresourcedefinitions", "patch"),
];

/// What it asks of the whole cluster. Without it, members get volumes only where an EtcdCluster asks for them.
pub const CLUSTER_CALLS: &[(&str, &str, &str)] = &[("storage.k8s.io", "storageclasses", "list")];
