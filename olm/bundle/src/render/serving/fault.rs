//! What can be wrong with the description of a webhook or of an aggregated API.

/// One thing that is wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}{}: {problem}", of(.name))]
pub struct Fault {
    /// The field of the ClusterServiceVersion.
    pub field: String,
    /// The name of the webhook or of the API, where it has one.
    pub name: String,
    /// What is wrong with it, and what to write instead.
    pub problem: Problem,
}

fn of(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" of {name}") }
}

/// What is wrong with a description.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A field is needed and is empty.
    #[error("it is required; fill it in")]
    Missing,
    /// There is no such type of webhook.
    #[error(
        "`{0}` is not a type of webhook; write ValidatingAdmissionWebhook, MutatingAdmissionWebhook or ConversionWebhook"
    )]
    UnknownType(String),
    /// Two webhooks of one type have one name.
    #[error("another webhook of this type is called `{0}`, too; rename one of the two")]
    DuplicateName(String),
    /// The API server will not take the name.
    #[error(
        "`{0}` is no name of a webhook: it must be a domain of three parts or more, of at most 63 lower-case letters, \
         digits, `-` and `.`"
    )]
    BadName(String),
    #[error("there is no deployment `{0}`; name one of spec.install.spec.deployments")]
    NoDeployment(String),
    /// No Service can be named after the Deployment.
    #[error(
        "`{0}` is no name of a Service: it must be at most 63 lower-case letters, digits and `-`, and begin with a letter; rename the deployment"
    )]
    BadServiceName(String),
    /// A Service cannot find the pods.
    #[error("the deployment has no spec.selector.matchLabels, by which a Service finds its pods")]
    NoSelector,
    /// There is no such port.
    #[error("{0} is not a port; write one of 1 to 65535")]
    BadPort(i64),
    /// A Service cannot send one port to two places.
    #[error(
        "port {0} of the deployment's Service already goes to another targetPort; choose another containerPort"
    )]
    PortTaken(i32),
    /// The API server would not know how to ask.
    #[error("it is empty; list the versions of AdmissionReview that the webhook understands, such as v1")]
    NoReviewVersions,
    /// The API server takes only webhooks without side effects on dry runs.
    #[error("`{0}` is not allowed in admissionregistration.k8s.io/v1; write None or NoneOnDryRun")]
    SideEffects(String),
    /// The API server does not wait that long.
    #[error("{0} is not allowed; write 1 to 30 seconds")]
    Timeout(i32),
    /// Such a webhook could lock everybody out.
    #[error("rules must not be for all API groups; list the groups")]
    RulesForAll,
    /// Such a webhook could keep itself from being removed.
    #[error(
        "rules must not be for groups operators.coreos.com and olm.operatorframework.io, by which operators are installed and removed"
    )]
    RulesForOlm,
    /// Such a webhook could keep itself from being removed.
    #[error("rules must not be for webhook configurations; leave admissionregistration.k8s.io out")]
    RulesForWebhooks,
    #[error("it converts nothing; list CustomResourceDefinitions")]
    ConvertsNothing,
    /// A CustomResourceDefinition belongs to the whole cluster.
    #[error(
        "with conversionCRDs, AllNamespaces must be the only supported install mode: a CustomResourceDefinition has one \
         conversion for the whole cluster"
    )]
    ConversionInstallModes,
    /// Somebody else's CustomResourceDefinition is not ours to convert.
    #[error("`{0}` is not among spec.customresourcedefinitions.owned; list it there, or remove it here")]
    ConvertsForeign(String),
    /// One CustomResourceDefinition has one conversion.
    #[error("`{0}` is already converted by another webhook; remove it from one of the two")]
    ConvertedTwice(String),
    /// Kubernetes converts only what it knows.
    #[error(
        "`{0}` has spec.preserveUnknownFields: true, with which Kubernetes calls no webhook; set it to false"
    )]
    PreservesUnknownFields(String),
    /// One version of a group is served by one Service.
    #[error("`{0}` is served by another deployment or port already; serve all kinds of one version by one")]
    ServedTwice(String),
}
