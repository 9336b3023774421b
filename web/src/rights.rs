//! Rights of the user as the API server reports them, so that a button that would be refused is disabled with
//! the reason.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use futures::future::join_all;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{Api, Client, api::PostParams};
use olm_ops::{Installed, Status};

/// How long a page that is drawn repeatedly keeps the reviewed rights.
const REVIEWED_FOR: Duration = Duration::from_secs(60);

/// A right on all objects of a resource; without a namespace in the whole cluster.
#[derive(Clone, Copy)]
pub(crate) struct Right<'a> {
    pub(crate) verb: &'a str,
    pub(crate) group: &'a str,
    pub(crate) plural: &'a str,
    pub(crate) namespace: Option<&'a str>,
}

impl<'a> Right<'a> {
    /// A right on objects of olm.
    pub(crate) fn of_olm(verb: &'a str, plural: &'a str, namespace: &'a str) -> Self {
        Self { verb, group: olm_api::names::GROUP, plural, namespace: Some(namespace) }
    }

    fn owned(&self) -> OwnedRight {
        let [verb, group, plural] = [self.verb, self.group, self.plural].map(str::to_owned);
        (verb, group, plural, self.namespace.map(str::to_owned))
    }
}

/// The missing right of the user for objects of a namespace; `None` when it is granted or the check fails.
pub(crate) async fn missing(client: &Client, verb: &str, plural: &str, namespace: &str) -> Option<String> {
    all_missing(client, &[Right::of_olm(verb, plural, namespace)]).await
}

/// All missing rights of the user in one sentence; `None` when none is missing.
pub(crate) async fn all_missing(client: &Client, rights: &[Right<'_>]) -> Option<String> {
    ReviewedRights::default().all_missing(client, rights).await
}

/// Why the user cannot approve the pending plans of operators, by namespace.
pub(crate) async fn cannot_approve(client: &Client, installed: &[Installed]) -> BTreeMap<String, String> {
    ReviewedRights::default().cannot_approve(client, installed).await
}

/// Rights of the user that were reviewed before. A page that is drawn repeatedly keeps them between redraws.
#[derive(Default)]
pub(crate) struct ReviewedRights {
    reviewed: Option<Instant>,
    /// Whether a right is granted.
    granted: BTreeMap<OwnedRight, bool>,
}

/// Verb, group, plural and namespace.
type OwnedRight = (String, String, String, Option<String>);

impl ReviewedRights {
    fn expire(&mut self) {
        if self.reviewed.is_none_or(|at| at.elapsed() >= REVIEWED_FOR) {
            *self = Self { reviewed: Some(Instant::now()), ..Self::default() };
        }
    }

    /// Reviews the rights that are not known yet.
    async fn review(&mut self, client: &Client, rights: &[Right<'_>]) {
        let unknown = rights.iter().filter(|right| !self.granted.contains_key(&right.owned()));
        let reviews =
            unknown.map(|right| async move { Some((right.owned(), review(client, right).await.ok()?)) });
        self.granted.extend(join_all(reviews).await.into_iter().flatten());
    }

    /// A failed check disables nothing: the API server decides on the request.
    fn lacks(&self, right: &Right<'_>) -> bool {
        self.granted.get(&right.owned()) == Some(&false)
    }

    /// All missing rights of the user in one sentence; `None` when none is missing.
    pub(crate) async fn all_missing(&mut self, client: &Client, rights: &[Right<'_>]) -> Option<String> {
        self.expire();
        self.review(client, rights).await;
        sentence(rights.iter().filter(|right| self.lacks(right)).copied())
    }

    /// Why the user cannot approve the pending plans of operators, by namespace. Several namespaces need one access
    /// review if the user has the right everywhere, else one each.
    pub(crate) async fn cannot_approve(
        &mut self,
        client: &Client,
        installed: &[Installed],
    ) -> BTreeMap<String, String> {
        self.expire();
        let pending = installed.iter().filter(|one| one.status == Status::NeedsApproval);
        let namespaces: BTreeSet<&str> = pending.map(|one| one.namespace.as_str()).collect();
        let rights: Vec<Right<'_>> =
            namespaces.into_iter().map(|one| Right::of_olm("patch", "installplans", one)).collect();
        let unknown: Vec<OwnedRight> =
            rights.iter().map(Right::owned).filter(|right| !self.granted.contains_key(right)).collect();
        let everywhere = Right { namespace: None, ..Right::of_olm("patch", "installplans", "") };
        if unknown.len() > 1 && review(client, &everywhere).await.unwrap_or_default() {
            self.granted.extend(unknown.into_iter().map(|right| (right, true)));
        }
        self.review(client, &rights).await;
        let missing = rights.iter().filter(|right| self.lacks(right));
        let why = |right: &Right<'_>| Some((right.namespace?.to_owned(), sentence(std::iter::once(*right))?));
        missing.filter_map(why).collect()
    }
}

/// `Missing permissions: create and list subscriptions in namespace x; create namespaces.`
fn sentence<'a>(missing: impl Iterator<Item = Right<'a>>) -> Option<String> {
    let mut by_object: Vec<(&str, Option<&str>, Vec<&str>)> = Vec::new();
    for Right { verb, plural, namespace, .. } in missing {
        match by_object.iter_mut().find(|(p, n, _)| (*p, *n) == (plural, namespace)) {
            Some((.., verbs)) => verbs.push(verb),
            None => by_object.push((plural, namespace, vec![verb])),
        }
    }
    let count: usize = by_object.iter().map(|(.., verbs)| verbs.len()).sum();
    let parts: Vec<String> = by_object
        .into_iter()
        .map(|(plural, namespace, verbs)| {
            let place = namespace.map_or(String::new(), |namespace| format!(" in namespace {namespace}"));
            format!("{} {plural}{place}", verbs.join(" and "))
        })
        .collect();
    let what = if count == 1 { "permission" } else { "permissions" };
    (count > 0).then(|| format!("Missing {what}: {}.", parts.join("; ")))
}

async fn review(client: &Client, right: &Right<'_>) -> kube::Result<bool> {
    let attributes = ResourceAttributes {
        verb: Some(right.verb.to_owned()),
        group: Some(right.group.to_owned()),
        resource: Some(right.plural.to_owned()),
        namespace: right.namespace.map(str::to_owned),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
    let review = SelfSubjectAccessReview { spec, ..Default::default() };
    let api = Api::<SelfSubjectAccessReview>::all(client.clone());
    let answer = api.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_missing_rights_are_one_sentence() {
        let right = |verb, plural| Right::of_olm(verb, plural, "db");
        let namespaces = Right { verb: "create", group: "", plural: "namespaces", namespace: None };
        let text = |missing: Vec<Right<'_>>| sentence(missing.into_iter());
        assert_eq!(text(vec![]), None);
        assert_eq!(
            text(vec![right("patch", "installplans")]).as_deref(),
            Some("Missing permission: patch installplans in namespace db.")
        );
        assert_eq!(
            text(vec![right("list", "subscriptions"), right("create", "subscriptions"), namespaces])
                .as_deref(),
            Some("Missing permissions: list and create subscriptions in namespace db; create namespaces.")
        );
    }
}
