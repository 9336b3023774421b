//! Names in the API: labels, annotations, condition types, finalizers.

/// The API group of all kinds.
pub const GROUP: &str = "operators.coreos.com";

/// Label: name of the object that owns this one.
pub const LABEL_OWNER: &str = "olm.owner";
/// Label: namespace of the owner.
pub const LABEL_OWNER_NAMESPACE: &str = "olm.owner.namespace";
/// Label: kind of the owner.
pub const LABEL_OWNER_KIND: &str = "olm.owner.kind";
/// Label: `true` on every managed object.
pub const LABEL_MANAGED: &str = "olm.managed";
/// Label: namespace that a copied object came from.
pub const LABEL_COPIED_FROM: &str = "olm.copiedFrom";
/// Label: hash of the Deployment spec that was rendered.
pub const LABEL_DEPLOYMENT_SPEC_HASH: &str = "olm.deployment-spec-hash";
/// Label: hash of the permission rules.
pub const LABEL_PERMISSIONS_HASH: &str = "olm.permissions.hash";
/// Label: name of the catalog that a generated object came from.
pub const LABEL_CATALOG_SOURCE: &str = "olm.catalogSource";
/// Prefix of the label with the package (`<package>.<namespace>`) that an object is a component of.
pub const LABEL_COMPONENT_PREFIX: &str = "operators.coreos.com/";
/// Prefix of the label on CSVs with the APIs that they provide and require: a hash of the API follows.
pub const LABEL_API_PREFIX: &str = "olm.api.";
/// Value of an API label: the CSV provides it.
pub const API_PROVIDED: &str = "provided";
/// Value of an API label: the CSV requires it.
pub const API_REQUIRED: &str = "required";
/// Prefix of the label on namespaces that an OperatorGroup lists as targets: its UID follows.
pub const LABEL_OPERATOR_GROUP_PREFIX: &str = "olm.operatorgroup.uid/";

/// Annotation: name of the OperatorGroup of the operator's namespace.
pub const ANNOTATION_OPERATOR_GROUP: &str = "olm.operatorGroup";
/// Annotation: namespace of the operator.
pub const ANNOTATION_OPERATOR_NAMESPACE: &str = "olm.operatorNamespace";
/// Annotation: namespaces the operator watches, comma-joined; empty means all.
pub const ANNOTATION_TARGET_NAMESPACES: &str = "olm.targetNamespaces";
/// Annotation on an OperatorGroup: the APIs its members provide.
pub const ANNOTATION_PROVIDED_APIS: &str = "olm.providedAPIs";
/// Annotation on a CSV: range of versions it can be installed over.
pub const ANNOTATION_SKIP_RANGE: &str = "olm.skipRange";
/// Annotation on a CSV: properties of its bundle, as JSON.
pub const ANNOTATION_PROPERTIES: &str = "olm.properties";
/// Annotation on an on-cluster CSV: properties projected from the catalog, as JSON.
pub const ANNOTATION_PROJECTED_PROPERTIES: &str = "operatorframework.io/properties";
/// Annotation on a CSV: namespace the author suggests.
pub const ANNOTATION_SUGGESTED_NAMESPACE: &str = "operatorframework.io/suggested-namespace";
/// Annotation on a CSV: custom resource to create after the install.
pub const ANNOTATION_INITIALIZATION_RESOURCE: &str = "operatorframework.io/initialization-resource";
/// Annotation on a CSV: sample custom resources, as JSON.
pub const ANNOTATION_ALM_EXAMPLES: &str = "alm-examples";
/// Annotation on an OperatorGroup: `true` excludes the catalogs of the product's namespace from its
/// namespace.
pub const ANNOTATION_EXCLUDE_GLOBAL: &str = "olm.operatorframework.io/exclude-global-namespace-resolution";
/// Annotation on a CRD: operator it was installed alongside of (prefix; a hash follows).
pub const ANNOTATION_INSTALLED_ALONGSIDE: &str = "operatorframework.io/installed-alongside";
/// Annotation on InstallPlan and approved objects: digest of the approved plan (not upstream).
pub const ANNOTATION_PLAN_DIGEST: &str = "olm.planDigest";
/// Annotation on an InstallPlan: summary of its changes in one line (only the manager writes it).
pub const ANNOTATION_PLAN_SUMMARY: &str = "olm.planSummary";
/// Annotation on an InstallPlan: what to review before an approval, in words; empty if nothing (not upstream;
/// only the manager writes it).
pub const ANNOTATION_PLAN_REVIEW: &str = "olm.planReview";
/// Annotation on InstallPlan: digests of the parts of the plan, as JSON, for comparison with a later plan
/// (not upstream; only the manager writes it).
pub const ANNOTATION_PLAN_PARTS: &str = "olm.planParts";

/// Annotation on a Subscription that a plan created for a dependency: the Subscriptions of the same namespace
/// that require it, comma-joined (not upstream). Unless a user created it, it is deleted with the last of
/// them where the policy requires it.
pub const ANNOTATION_REQUIRED_BY: &str = "olm.requiredBy";

/// Label on the ClusterRoles that grant read access to an API: the manager may list its objects too, to count
/// them before an operator is removed (not upstream).
pub const LABEL_AGGREGATE_TO_MANAGER: &str = "operators.coreos.com/aggregate-to-olm-manager";

/// Annotation on InstallPlan: the dependencies that it installs, as JSON (not upstream).
pub const ANNOTATION_PLAN_ALONG: &str = "olm.planAlong";
/// Annotation on a Subscription that a plan created: digest of its first plan, which was approved together
/// with that one (not upstream).
pub const ANNOTATION_APPROVED_PLAN: &str = "olm.approvedPlan";
/// Annotation on a Subscription that a plan created: Subscriptions of the namespace whose operators must run
/// before its own starts, comma-joined (not upstream).
pub const ANNOTATION_INSTALL_AFTER: &str = "olm.installAfter";
/// Annotation on a Subscription: the ClusterServiceVersion of a rollback; from there on `spec.paused` applies
/// (not upstream).
pub const ANNOTATION_ROLLBACK_TO: &str = "olm.rollbackTo";
/// Annotation on InstallPlan: its approver (not upstream; docs/lifecycle.md states where the API server
/// vouches for it).
pub const ANNOTATION_APPROVED_BY: &str = "olm.approvedBy";
/// Annotation on InstallPlan: the groups of its approver at that time, one per line (not upstream; recorded
/// by the API server).
pub const ANNOTATION_APPROVED_BY_GROUPS: &str = "olm.approvedByGroups";
/// Annotation on Subscription, OperatorGroup, ClusterServiceVersion and InstallPolicy: the user who last
/// changed the request (not upstream; recorded by the API server, see docs/security.md). A
/// ClusterServiceVersion of an approved plan has none. On an InstallPlan that the manager approved: the
/// author of the request that permits it (only the manager writes it).
pub const ANNOTATION_REQUESTED_BY: &str = "olm.requestedBy";
/// Annotation next to [`ANNOTATION_REQUESTED_BY`]: the groups of that user at that time, one per line (not
/// upstream; recorded by the API server).
pub const ANNOTATION_REQUESTED_BY_GROUPS: &str = "olm.requestedByGroups";
/// Annotation on InstallPlan: digest of the applied content, which identifies a plan in progress (not
/// upstream; only the manager writes it).
pub const ANNOTATION_CONTENT_DIGEST: &str = "olm.contentDigest";
/// Annotation on InstallPlan: the first of two approvals that an InstallPolicy requires, as JSON (not
/// upstream; only the manager writes it).
pub const ANNOTATION_FIRST_APPROVAL: &str = "olm.firstApproval";
/// Annotation on InstallPlan: the rights that its approver must hold (not upstream; only the manager writes
/// it).
pub const ANNOTATION_APPROVAL_NEEDED: &str = "olm.approvalNeeded";

/// Annotation on a CatalogSource: any other value than before makes the manager read the source at once (not
/// upstream). `olm catalog refresh` writes the time.
pub const ANNOTATION_REFRESH: &str = "olm.refreshRequested";

/// Environment variable with the name of the operator's OperatorCondition.
pub const ENV_OPERATOR_CONDITION_NAME: &str = "OPERATOR_CONDITION_NAME";

/// Finalizer that cleans up the cluster-scoped objects of a CSV.
pub const FINALIZER_CSV_CLEANUP: &str = "operators.coreos.com/csv-cleanup";
/// Finalizer that applies `deletionPolicy` of a Subscription (not upstream).
pub const FINALIZER_SUBSCRIPTION_CLEANUP: &str = "operators.coreos.com/subscription-cleanup";

/// Field manager of the manager.
pub const FIELD_MANAGER: &str = "olm.manager";
/// Field manager of the console.
pub const FIELD_MANAGER_CONSOLE: &str = "olm.console";
/// Field manager of the command line.
pub const FIELD_MANAGER_CLI: &str = "olm.cli";

/// Subscription condition: a catalog that it requires is unreadable.
pub const CONDITION_CATALOG_SOURCES_UNHEALTHY: &str = "CatalogSourcesUnhealthy";
/// Subscription condition: no bundle satisfies it.
pub const CONDITION_RESOLUTION_FAILED: &str = "ResolutionFailed";
/// Subscription condition: its InstallPlan is pending or in progress.
pub const CONDITION_INSTALL_PLAN_PENDING: &str = "InstallPlanPending";
/// Subscription condition: its InstallPlan failed.
pub const CONDITION_INSTALL_PLAN_FAILED: &str = "InstallPlanFailed";
/// Subscription condition: its InstallPlan does not exist.
pub const CONDITION_INSTALL_PLAN_MISSING: &str = "InstallPlanMissing";
/// Subscription condition: the bundle is unreadable.
pub const CONDITION_BUNDLE_UNPACK_FAILED: &str = "BundleUnpackFailed";
/// Subscription condition: package, channel or bundle is deprecated.
pub const CONDITION_DEPRECATED: &str = "Deprecated";
/// Subscription condition: the package is deprecated.
pub const CONDITION_PACKAGE_DEPRECATED: &str = "PackageDeprecated";
/// Subscription condition: the channel is deprecated.
pub const CONDITION_CHANNEL_DEPRECATED: &str = "ChannelDeprecated";
/// Subscription condition: the bundle is deprecated.
pub const CONDITION_BUNDLE_DEPRECATED: &str = "BundleDeprecated";
/// Subscription condition: it is being deleted, and its `deletionPolicy` cannot be applied (not upstream).
pub const CONDITION_DELETION_HELD: &str = "DeletionHeld";
/// Condition of kstatus: the desired state is reached.
pub const CONDITION_READY: &str = "Ready";
/// Condition of kstatus, present only when true: reconciliation is in progress.
pub const CONDITION_RECONCILING: &str = "Reconciling";
/// Condition of kstatus, present only when true: progress requires an action of a user.
pub const CONDITION_STALLED: &str = "Stalled";
/// InstallPlan condition: the plan was created.
pub const CONDITION_RESOLVED: &str = "Resolved";
/// InstallPlan condition: the plan was applied.
pub const CONDITION_INSTALLED: &str = "Installed";
/// OperatorCondition: the operator may be upgraded.
pub const CONDITION_UPGRADEABLE: &str = "Upgradeable";
/// OperatorGroup condition: the specified ServiceAccount is unusable.
pub const CONDITION_OPERATOR_GROUP_SERVICE_ACCOUNT: &str = "OperatorGroupServiceAccount";
/// OperatorGroup condition: the namespace has several.
pub const CONDITION_MULTIPLE_OPERATOR_GROUPS: &str = "MultipleOperatorGroup";
/// OperatorGroup condition: it selects more namespaces than an operator can receive (not upstream).
pub const CONDITION_TOO_MANY_NAMESPACES: &str = "TooManyNamespaces";

/// The label key for components of a package: `operators.coreos.com/<package>.<namespace>`. Its name part is
/// truncated to 63 characters, the limit of the API server, in the same way as upstream.
pub fn component_label(package: &str, namespace: &str) -> String {
    let name: String = format!("{package}.{namespace}").chars().take(63).collect();
    format!("{LABEL_COMPONENT_PREFIX}{}", name.trim_end_matches(['.', '-', '_']))
}

/// Whether a label is one of olm or OLM, which marks owners and components.
pub fn is_own_label(key: &str) -> bool {
    key.starts_with("olm.") || key.starts_with(LABEL_COMPONENT_PREFIX)
}

/// The labels of a managed object that is owned by a ClusterServiceVersion.
pub fn owner_labels(csv: &str, namespace: &str) -> [(&'static str, String); 4] {
    [
        (LABEL_OWNER, csv.to_owned()),
        (LABEL_OWNER_NAMESPACE, namespace.to_owned()),
        (LABEL_OWNER_KIND, "ClusterServiceVersion".to_owned()),
        (LABEL_MANAGED, "true".to_owned()),
    ]
}
