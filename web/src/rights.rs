//! Rights of the user as the API server reports them, so that a button that would be refused is disabled with
//! the reason.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{Api, Client, api::PostParams};

/// The missing right of the user for objects of a namespace; `None` when it is granted or the check fails.
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
