//! Every kind of call that the operator makes to the Kubernetes API. A test compares the permissions of the
//! bundles with it: they allow these calls and no others.

/// Group, resource and verb.
pub const CALLS: &[(&str, &str, &str)] = &[
    // controller: watch; Pass::run reads again before it acts
    ("etcd.database.coreos.com", "etcdclusters", "list"),
    ("etcd.database.coreos.com", "etcdclusters", "watch"),
    ("etcd.database.coreos.com", "etcdclusters", "get"),
    ("etcd.database.coreos.com", "etcdclusters/status", "patch"),
    // `observe` lists, apply creates and deletes, the controller watches
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
    // tls::SecretCache: reads Secrets of users, creates its own
    ("", "secrets", "get"),
    ("", "secrets", "create"),
    ("", "secrets", "update"),
    // disruption
    ("policy", "poddisruptionbudgets", "get"),
    ("policy", "poddisruptionbudgets", "create"),
    ("policy", "poddisruptionbudgets", "patch"),
    ("policy", "poddisruptionbudgets", "delete"),
    // events: the first is created, repetitions are counted in it
    ("events.k8s.io", "events", "create"),
    ("events.k8s.io", "events", "patch"),
    // lease
    ("coordination.k8s.io", "leases", "get"),
    ("coordination.k8s.io", "leases", "create"),
    ("coordination.k8s.io", "leases", "update"),
];

/// Additional calls of backups and restores. Without these permissions they wait, and clusters are still
/// reconciled.
pub const BACKUP_CALLS: &[(&str, &str, &str)] = &[
    // backup: watch (also by the cluster controller, for BackedUp), read again before a backup starts, remove
    // upstream's finalizer from deleted objects
    ("etcd.database.coreos.com", "etcdbackups", "list"),
    ("etcd.database.coreos.com", "etcdbackups", "watch"),
    ("etcd.database.coreos.com", "etcdbackups", "get"),
    ("etcd.database.coreos.com", "etcdbackups", "patch"),
    ("etcd.database.coreos.com", "etcdbackups/status", "patch"),
    // restore: the same, with a finalizer of its own; creates the EtcdCluster of a template, annotates the
    // one it restores
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

/// Cluster-scoped calls. Without them, members get volumes only where an EtcdCluster requests them.
pub const CLUSTER_CALLS: &[(&str, &str, &str)] = &[("storage.k8s.io", "storageclasses", "list")];
