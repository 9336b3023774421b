//! What the user may do, as the API server says: a button that would be refused says so before it is pressed.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{Api, Client, api::PostParams};

/// Why the user may not do that to the objects of a namespace; `None` when it is allowed, or nobody can say.
pub(crate) async fn missing(client: &Client, verb: &str, plural: &str, namespace: &str) -> Option<String> {
    let allowed = review(client, verb, plural, namespace).await.unwrap_or(true);
    (!allowed).then(|| format!("Missing permission: {verb} {plural} in namespace {namespace}."))
}

async fn review(client: &Client, verb: &str, plural: &str, namespace: &str) -> kube::Result<bool> {
    let attributes = ResourceAttributes {
        verb: Some(verb.to_owned()),
        group: Some("operators.coreos.com".to_owned()),
        resource: Some(plural.to_owned()),
        namespace: Some(namespace.to_owned()),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
    let review = SelfSubjectAccessReview { spec, ..Default::default() };
    let api = Api::<SelfSubjectAccessReview>::all(client.clone());
    let answer = api.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
