//! SubjectAccessReviews for the rights that a plan demands.

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{
    authorization::v1::{
        NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
    },
    rbac::v1::{ClusterRole, Role},
};
use kube::{Api, Client, api::PostParams};
use olm_ops::authority::Authority;
use olm_plan::{AccessRequest, Answers, Demands, Grant, Missing, Rule, Verdict};
use serde_json::json;

use crate::context::Error;

/// Members of this group may do everything; Kubernetes' own authorizers do not evaluate them.
const MASTERS: &str = "system:masters";
const REVIEWS: usize = 16;

/// The demanded rights that a user lacks.
pub(super) async fn missing(
    client: &Client,
    authority: &Authority,
    demands: &Demands,
) -> Result<Vec<Missing>, Error> {
    if authority.groups().iter().any(|group| group == MASTERS) {
        return Ok(Vec::new());
    }
    let mut demands = demands.clone();
    let (mut answers, mut resolved) = (Answers::new(), false);
    loop {
        let requests = match demands.verdict(&answers) {
            Verdict::Covered => return Ok(Vec::new()),
            Verdict::Lacking(_) if !resolved && demands.grants.iter().any(|grant| grant.rules.is_none()) => {
                // Only here the content of the bound roles is needed.
                resolve(client, &mut demands.grants).await?;
                resolved = true;
                continue;
            }
            Verdict::Lacking(missing) => return Ok(missing),
            Verdict::Undecided(requests) => requests,
        };
        let reviews: Vec<_> =
            requests.into_iter().map(|request| review(client, authority, request)).collect();
        let reviewed: Vec<_> = stream::iter(reviews).buffer_unordered(REVIEWS).try_collect().await?;
        answers.extend(reviewed);
    }
}

/// Whether a user is allowed one of these requests.
pub(super) async fn any<const N: usize>(
    client: &Client,
    authority: &Authority,
    requests: [AccessRequest; N],
) -> Result<bool, Error> {
    if authority.groups().iter().any(|group| group == MASTERS) {
        return Ok(true);
    }
    let reviews = requests.map(|request| review(client, authority, request));
    let answers = futures::future::try_join_all(reviews).await?;
    Ok(answers.into_iter().any(|(_, allowed)| allowed))
}

/// Reads the bound roles that are not part of the plan.
async fn resolve(client: &Client, grants: &mut [Grant]) -> Result<(), Error> {
    for grant in grants.iter_mut().filter(|grant| grant.rules.is_none()) {
        let (name, failed) = (&grant.role.name, format!("get {}", grant.role));
        let rules = match &grant.role.namespace {
            Some(namespace) => {
                let role = Api::<Role>::namespaced(client.clone(), namespace).get_opt(name).await;
                role.map_err(Error::kube(failed))?.map(|role| role.rules)
            }
            None => {
                let role = Api::<ClusterRole>::all(client.clone()).get_opt(name).await;
                role.map_err(Error::kube(failed))?.map(|role| role.rules)
            }
        };
        let rules = rules.map(|rules| rules.unwrap_or_default());
        grant.rules = rules.map(|rules| rules.iter().map(|rule| Rule::of(&json!(rule))).collect());
    }
    Ok(())
}

async fn review(
    client: &Client,
    authority: &Authority,
    request: AccessRequest,
) -> Result<(AccessRequest, bool), Error> {
    let mut spec = SubjectAccessReviewSpec {
        user: Some(authority.user().to_owned()),
        groups: Some(authority.groups().to_vec()).filter(|groups| !groups.is_empty()),
        ..SubjectAccessReviewSpec::default()
    };
    match &request {
        AccessRequest::Resource { verb, group, resource, name, namespace } => {
            let (resource, subresource) = match resource.split_once('/') {
                Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
                None => (resource.as_str(), None),
            };
            spec.resource_attributes = Some(ResourceAttributes {
                verb: Some(verb.clone()),
                group: Some(group.clone()),
                resource: Some(resource.to_owned()),
                subresource,
                name: name.clone(),
                namespace: namespace.clone(),
                ..ResourceAttributes::default()
            });
        }
        AccessRequest::Path { verb, path } => {
            spec.non_resource_attributes =
                Some(NonResourceAttributes { verb: Some(verb.clone()), path: Some(path.clone()) });
        }
    }
    let api = Api::<SubjectAccessReview>::all(client.clone());
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let review = api
        .create(&PostParams::default(), &review)
        .await
        .map_err(Error::kube(format!("review the access of {}", authority.user())))?;
    Ok((request, review.status.is_some_and(|status| status.allowed && status.denied != Some(true))))
}
