//! Errors in the description of a webhook or of an aggregated API.

/// An error in one field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}{}: {problem}", of(.name))]
pub struct Fault {
    /// The field of the ClusterServiceVersion.
    pub field: String,
    /// The name of the webhook or of the API, where it has one.
    pub name: String,
    pub problem: Problem,
}

fn of(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" of {name}") }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A required field is empty.
    #[error("it is required; fill it in")]
    Missing,
    #[error(
        "`{0}` is not a type of webhook; write ValidatingAdmissionWebhook, MutatingAdmissionWebhook or ConversionWebhook"
    )]
    UnknownType(String),
    /// Two webhooks of one type have one name.
    #[error("another webhook of this type is called `{0}`, too; rename one of the two")]
    DuplicateName(String),
    /// The API server rejects the name.
    #[error(
        "`{0}` is not a valid name of a webhook: expected a domain of three parts or more, of at most 63 lower-case letters, \
         digits, `-` and `.`"
    )]
    BadName(String),
    #[error("there is no deployment `{0}`; name one of spec.install.spec.deployments")]
    NoDeployment(String),
    /// No Service can be named after the Deployment.
    #[error(
        "`{0}` is not a valid name of a Service: expected at most 63 lower-case letters, digits and `-` that begin with a letter; rename the deployment"
    )]
    BadServiceName(String),
    /// A Service cannot select the pods.
    #[error("the deployment has no spec.selector.matchLabels, by which a Service finds its pods")]
    NoSelector,
    #[error("{0} is not a port; write one of 1 to 65535")]
    BadPort(i64),
    /// A Service cannot forward one port to two targets.
    #[error(
        "port {0} of the deployment's Service already goes to another targetPort; choose another containerPort"
    )]
    PortTaken(i32),
    /// The API server would have no version for its requests.
    #[error("it is empty; list the versions of AdmissionReview that the webhook understands, such as v1")]
    NoReviewVersions,
    /// The API server accepts only webhooks without side effects on dry runs.
    #[error("`{0}` is not allowed in admissionregistration.k8s.io/v1; write None or NoneOnDryRun")]
    SideEffects(String),
    /// The API server limits timeouts.
    #[error("{0} is not allowed; write 1 to 30 seconds")]
    Timeout(i32),
    /// Such a webhook could block all requests.
    #[error("rules must not be for all API groups; list the groups")]
    RulesForAll,
    /// Such a webhook could block its own removal.
    #[error(
        "rules must not be for groups operators.coreos.com and olm.operatorframework.io, by which operators are installed and removed"
    )]
    RulesForOlm,
    /// Such a webhook could block its own removal.
    #[error("rules must not be for webhook configurations; leave admissionregistration.k8s.io out")]
    RulesForWebhooks,
    #[error("it is empty; list the CustomResourceDefinitions to convert")]
    ConvertsNothing,
    /// A CustomResourceDefinition belongs to the whole cluster.
    #[error(
        "with conversionCRDs, AllNamespaces must be the only supported install mode: a CustomResourceDefinition has one \
         conversion for the whole cluster"
    )]
    ConversionInstallModes,
    /// A foreign CustomResourceDefinition must not be converted.
    #[error("`{0}` is not among spec.customresourcedefinitions.owned; list it there, or remove it here")]
    ConvertsForeign(String),
    /// One CustomResourceDefinition has one conversion.
    #[error("`{0}` is already converted by another webhook; remove it from one of the two")]
    ConvertedTwice(String),
    /// Kubernetes converts only known fields.
    #[error(
        "`{0}` has spec.preserveUnknownFields: true, with which Kubernetes does not call webhooks; set it to false"
    )]
    PreservesUnknownFields(String),
    /// One version of a group is served by one Service.
    #[error("`{0}` is served by another deployment or port already; serve all kinds of one version by one")]
    ServedTwice(String),
}
