//! Names that go over the wire: labels, annotations, condition types, finalizers.

/// The API group of all our kinds.
pub const GROUP: &str = "operators.coreos.com";

/// Label: name of the object that owns this one.
pub const LABEL_OWNER: &str = "olm.owner";
/// Label: namespace of the owner.
pub const LABEL_OWNER_NAMESPACE: &str = "olm.owner.namespace";
/// Label: kind of the owner.
pub const LABEL_OWNER_KIND: &str = "olm.owner.kind";
/// Label: `true` on everything that is managed.
pub const LABEL_MANAGED: &str = "olm.managed";
/// Label: namespace a copied object came from.
pub const LABEL_COPIED_FROM: &str = "olm.copiedFrom";
/// Label: hash of the Deployment spec that was rendered.
pub const LABEL_DEPLOYMENT_SPEC_HASH: &str = "olm.deployment-spec-hash";
/// Label: hash of the permission rules.
pub const LABEL_PERMISSIONS_HASH: &str = "olm.permissions.hash";
/// Label: name of the catalog that a generated object came from.
pub const LABEL_CATALOG_SOURCE: &str = "olm.catalogSource";
/// Prefix of the label that says which package (`<package>.<namespace>`) an object is a component of.
pub const LABEL_COMPONENT_PREFIX: &str = "operators.coreos.com/";
/// Prefix of the label on CSVs that says which APIs they provide and require: a hash of the API follows.
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
/// Annotation on an OperatorGroup: `true` keeps the catalogs of the product's namespace from its namespace.
pub const ANNOTATION_EXCLUDE_GLOBAL: &str = "olm.operatorframework.io/exclude-global-namespace-resolution";
/// Annotation on a CRD: operator it was installed alongside of (prefix; a hash follows).
pub const ANNOTATION_INSTALLED_ALONGSIDE: &str = "operatorframework.io/installed-alongside";
/// Annotation on InstallPlan and approved objects: digest of the plan that was approved (ours).
pub const ANNOTATION_PLAN_DIGEST: &str = "olm.planDigest";
/// Annotation of an InstallPlan: one line on what it changes.
pub const ANNOTATION_PLAN_SUMMARY: &str = "olm.planSummary";
/// Annotation on InstallPlan: digests of the parts of the plan, as JSON, by which a later plan can be compared (ours).
pub const ANNOTATION_PLAN_PARTS: &str = "olm.planParts";

/// Annotation on a Subscription that a plan made for a dependency: the Subscriptions of the same namespace that need it,
/// comma-joined (ours). One that nobody made by hand goes with the last of them, where the policy says so.
pub const ANNOTATION_REQUIRED_BY: &str = "olm.requiredBy";

/// Label on the ClusterRoles that let somebody view an API: the manager may list the objects too, to count them before an
/// operator goes (ours).
pub const LABEL_AGGREGATE_TO_MANAGER: &str = "operators.coreos.com/aggregate-to-olm-manager";

/// Annotation on InstallPlan: the operators that are installed along, as JSON (ours).
pub const ANNOTATION_PLAN_ALONG: &str = "olm.planAlong";
/// Annotation on a Subscription that a plan made: digest of its first plan, which was approved along with that one (ours).
pub const ANNOTATION_APPROVED_PLAN: &str = "olm.approvedPlan";
/// Annotation on a Subscription that a plan made: Subscriptions of the namespace whose operators have to run before its
/// own is started, comma-joined (ours).
pub const ANNOTATION_INSTALL_AFTER: &str = "olm.installAfter";
/// Annotation on a Subscription: the ClusterServiceVersion that a rollback goes to; `spec.paused` holds from there on
/// (ours).
pub const ANNOTATION_ROLLBACK_TO: &str = "olm.rollbackTo";
/// Annotation on InstallPlan: who approved it (ours; docs/lifecycle.md says where the API server vouches for it).
pub const ANNOTATION_APPROVED_BY: &str = "olm.approvedBy";
/// Annotation on InstallPlan: the groups of who approved it, one a line (ours; recorded by the API server, as they were then).
pub const ANNOTATION_APPROVED_BY_GROUPS: &str = "olm.approvedByGroups";
/// Annotation on Subscription, OperatorGroup, ClusterServiceVersion and InstallPolicy: the user who last changed what is asked for (ours; recorded by
/// the API server, see docs/security.md). A ClusterServiceVersion of an approved plan has none.
pub const ANNOTATION_REQUESTED_BY: &str = "olm.requestedBy";
/// Annotation beside [`ANNOTATION_REQUESTED_BY`]: the groups of that user, one a line (ours; recorded by the API server, as they were
/// then).
pub const ANNOTATION_REQUESTED_BY_GROUPS: &str = "olm.requestedByGroups";
/// Annotation on InstallPlan: digest of what is applied, by which a plan that was begun is recognised (ours; the manager alone writes
/// it).
pub const ANNOTATION_CONTENT_DIGEST: &str = "olm.contentDigest";
/// Annotation on InstallPlan: the first of two approvals that an InstallPolicy asks for, as JSON (ours; the manager alone writes it).
pub const ANNOTATION_FIRST_APPROVAL: &str = "olm.firstApproval";
/// Annotation on InstallPlan: the rights for which the plan waits for an approver who holds them (ours).
pub const ANNOTATION_APPROVAL_NEEDED: &str = "olm.approvalNeeded";

/// Environment variable that tells an operator the name of its OperatorCondition.
pub const ENV_OPERATOR_CONDITION_NAME: &str = "OPERATOR_CONDITION_NAME";

/// Finalizer that cleans up the cluster-scoped objects of a CSV.
pub const FINALIZER_CSV_CLEANUP: &str = "operators.coreos.com/csv-cleanup";
/// Finalizer that applies `deletionPolicy` of a Subscription (ours).
pub const FINALIZER_SUBSCRIPTION_CLEANUP: &str = "operators.coreos.com/subscription-cleanup";

/// Field manager of the manager.
pub const FIELD_MANAGER: &str = "olm.manager";
/// Field manager of the console.
pub const FIELD_MANAGER_CONSOLE: &str = "olm.console";
/// Field manager of the command line.
pub const FIELD_MANAGER_CLI: &str = "olm.cli";

/// Subscription condition: a catalog it needs cannot be read.
pub const CONDITION_CATALOG_SOURCES_UNHEALTHY: &str = "CatalogSourcesUnhealthy";
/// Subscription condition: no bundle can be chosen.
pub const CONDITION_RESOLUTION_FAILED: &str = "ResolutionFailed";
/// Subscription condition: its InstallPlan is waiting or at work.
pub const CONDITION_INSTALL_PLAN_PENDING: &str = "InstallPlanPending";
/// Subscription condition: its InstallPlan failed.
pub const CONDITION_INSTALL_PLAN_FAILED: &str = "InstallPlanFailed";
/// Subscription condition: its InstallPlan is gone.
pub const CONDITION_INSTALL_PLAN_MISSING: &str = "InstallPlanMissing";
/// Subscription condition: the bundle could not be read.
pub const CONDITION_BUNDLE_UNPACK_FAILED: &str = "BundleUnpackFailed";
/// Subscription condition: package, channel or bundle is deprecated.
pub const CONDITION_DEPRECATED: &str = "Deprecated";
/// Subscription condition: the package is deprecated.
pub const CONDITION_PACKAGE_DEPRECATED: &str = "PackageDeprecated";
/// Subscription condition: the channel is deprecated.
pub const CONDITION_CHANNEL_DEPRECATED: &str = "ChannelDeprecated";
/// Subscription condition: the bundle is deprecated.
pub const CONDITION_BUNDLE_DEPRECATED: &str = "BundleDeprecated";
/// Subscription condition: it is deleted, and its `deletionPolicy` cannot be carried out (ours).
pub const CONDITION_DELETION_HELD: &str = "DeletionHeld";
/// Condition of kstatus: all is as it should be.
pub const CONDITION_READY: &str = "Ready";
/// Condition of kstatus, only there when true: it is on its way.
pub const CONDITION_RECONCILING: &str = "Reconciling";
/// Condition of kstatus, only there when true: it does not get on without somebody.
pub const CONDITION_STALLED: &str = "Stalled";
/// InstallPlan condition: the plan was made.
pub const CONDITION_RESOLVED: &str = "Resolved";
/// InstallPlan condition: the plan was carried out.
pub const CONDITION_INSTALLED: &str = "Installed";
/// OperatorCondition: the operator may be replaced.
pub const CONDITION_UPGRADEABLE: &str = "Upgradeable";
/// OperatorGroup condition: the account that it names cannot be used.
pub const CONDITION_OPERATOR_GROUP_SERVICE_ACCOUNT: &str = "OperatorGroupServiceAccount";
/// OperatorGroup condition: there are several in the namespace.
pub const CONDITION_MULTIPLE_OPERATOR_GROUPS: &str = "MultipleOperatorGroup";
/// An OperatorGroup chooses more namespaces than an operator can be told (not upstream).
pub const CONDITION_TOO_MANY_NAMESPACES: &str = "TooManyNamespaces";

/// The label key that marks components of a package: `operators.coreos.com/<package>.<namespace>`. Its name part is at
/// most 63 characters, as the API server wants it; upstream cuts the same way.
pub fn component_label(package: &str, namespace: &str) -> String {
    let name: String = format!("{package}.{namespace}").chars().take(63).collect();
    format!("{LABEL_COMPONENT_PREFIX}{}", name.trim_end_matches(['.', '-', '_']))
}

/// The labels that say which ClusterServiceVersion owns an object, and that it is managed.
pub fn owner_labels(csv: &str, namespace: &str) -> [(&'static str, String); 4] {
    [
        (LABEL_OWNER, csv.to_owned()),
        (LABEL_OWNER_NAMESPACE, namespace.to_owned()),
        (LABEL_OWNER_KIND, "ClusterServiceVersion".to_owned()),
        (LABEL_MANAGED, "true".to_owned()),
    ]
}
