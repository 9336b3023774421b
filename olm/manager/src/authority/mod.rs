//! The authority of the manager's changes, and the check of its rights.
//!
//! The API server records requesters and approvers ([`olm_ops::authority`]). Before the manager applies a
//! change, it proves with SubjectAccessReviews that this user, or an author of an InstallPolicy who lends
//! rights, holds every right that is used or granted ([`review`]).

mod review;
pub(crate) mod second_approval;
pub(crate) mod webhook;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{Api, Client, ResourceExt, api::PostParams};
use olm_api::{InstallPlan, OperatorGroup, Subscription};
use olm_ops::authority::{Authority, record};
use olm_plan::{AccessRequest, Demands, Identity, Plan};
use tokio::sync::OnceCell;

use crate::{cache::ClusterCache, context::Error};

/// The recorded authority of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RecordedAuthority {
    By(Authority),
    /// Without a record: the object is older than the policies.
    NoRecord,
}

/// The verdict on the demanded rights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Permission {
    Granted,
    /// Another approver is needed, and why.
    Waits(String),
}

/// Determines authorities and reviews their rights.
pub(crate) struct Authorities {
    client: Client,
    own: OnceCell<String>,
}

impl Authorities {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, own: OnceCell::new() }
    }

    /// The user who requested the content of an object.
    pub(crate) fn of_request(object: &impl ResourceExt) -> RecordedAuthority {
        Authority::requested(object).map_or(RecordedAuthority::NoRecord, RecordedAuthority::By)
    }

    /// The user who approved a plan. A plan that the manager approved is applied on behalf of the author of
    /// its Subscription.
    pub(crate) async fn of_plan(
        &self,
        plan: &InstallPlan,
        subscription: &impl ResourceExt,
    ) -> Result<RecordedAuthority, Error> {
        match Authority::approved(plan) {
            Some(approver) if !self.is_own(approver.user()).await? => Ok(RecordedAuthority::By(approver)),
            Some(_) => Ok(Self::of_request(subscription)),
            None => Ok(RecordedAuthority::NoRecord),
        }
    }

    /// Whether a plan may be applied on behalf of a user. Where the OperatorGroup names a ServiceAccount,
    /// that is the authority: the API server checks its rights with every write. The user who names an
    /// account must have the right to use it.
    ///
    /// `lenders` are the authors of InstallPolicies that lend their rights to the plan.
    pub(crate) async fn permits_plan(
        &self,
        named: &RecordedAuthority,
        demands: &Demands,
        subscription: &Subscription,
        group: Option<&OperatorGroup>,
        lenders: &[LendingPolicy],
    ) -> Result<Permission, Error> {
        let account = group.and_then(|group| Some((group, group.spec.service_account_name.as_deref()?)));
        let Some((group, account)) = account else {
            return match named {
                _ if demands.is_empty() => Ok(Permission::Granted),
                RecordedAuthority::NoRecord => Ok(Permission::Waits(without_record(subscription))),
                RecordedAuthority::By(authority) => match self.holds(authority, demands).await? {
                    Permission::Waits(why) => self.lent(why, demands, lenders).await,
                    Permission::Granted => Ok(Permission::Granted),
                },
            };
        };
        match Authority::requested(group) {
            Some(author) => self.may_use(&author, group, account).await,
            // An OperatorGroup from before authors were recorded; the API server checks the account's rights.
            None => Ok(Permission::Granted),
        }
    }

    /// Whether one lender holds all demanded rights. `why` names the rights that the requester lacks.
    async fn lent(
        &self,
        mut why: String,
        demands: &Demands,
        lenders: &[LendingPolicy],
    ) -> Result<Permission, Error> {
        for LendingPolicy { policy, author } in lenders {
            let Some(author) = author else {
                why += &format!(
                    "; InstallPolicy {policy} has no recorded author to lend permissions: {}",
                    record("InstallPolicy", "", policy)
                );
                continue;
            };
            match self.holds(author, demands).await? {
                Permission::Granted => return Ok(Permission::Granted),
                Permission::Waits(lacks) => {
                    why += &format!("; the author of InstallPolicy {policy} also lacks permissions: {lacks}");
                }
            }
        }
        Ok(Permission::Waits(why))
    }

    /// Whether content that a user wrote may be applied with the rights of an OperatorGroup: those of its
    /// account, or the user's own.
    pub(crate) async fn permits_author(
        &self,
        author: Authority,
        demands: &Demands,
        group: Option<&OperatorGroup>,
    ) -> Result<Permission, Error> {
        let account = group.and_then(|group| Some((group, group.spec.service_account_name.as_deref()?)));
        match account {
            Some((group, account)) => self.may_use(&author, group, account).await,
            None => self.holds(&author, demands).await,
        }
    }

    /// Whether a user may use the rights of the account that an OperatorGroup names.
    async fn may_use(
        &self,
        author: &Authority,
        group: &OperatorGroup,
        account: &str,
    ) -> Result<Permission, Error> {
        let namespace = group.namespace().unwrap_or_default();
        let is_it = author.who()
            == Identity::ServiceAccount { namespace: namespace.clone(), name: account.to_owned() };
        if is_it
            || review::any(&self.client, author, AccessRequest::to_use_account(&namespace, account)).await?
        {
            return Ok(Permission::Granted);
        }
        Ok(Permission::Waits(format!(
            "{} may not use ServiceAccount {account} (spec.serviceAccountName of OperatorGroup \
                {namespace}/{}): this requires `create pods`, `create serviceaccounts/token` or `impersonate \
                serviceaccounts` in the namespace",
            author.who(),
            group.name_any()
        )))
    }

    pub(crate) async fn is_own(&self, user: &str) -> Result<bool, Error> {
        Ok(user == self.own_name().await?)
    }

    /// The manager's user name at the API server.
    pub(crate) async fn own_name(&self) -> Result<&String, Error> {
        self.own
            .get_or_try_init(|| async {
                let api = Api::<SelfSubjectReview>::all(self.client.clone());
                let review = api.create(&PostParams::default(), &SelfSubjectReview::default()).await;
                let review = review.map_err(Error::kube("review the manager's own identity"))?;
                let user = review.status.and_then(|status| status.user_info?.username);
                Ok(user.unwrap_or_default())
            })
            .await
    }

    /// Whether a user holds the demanded rights.
    async fn holds(&self, authority: &Authority, demands: &Demands) -> Result<Permission, Error> {
        if demands.is_empty() {
            return Ok(Permission::Granted);
        }
        let missing = review::missing(&self.client, authority, demands).await?;
        if missing.is_empty() {
            return Ok(Permission::Granted);
        }
        let who = authority.who();
        let texts: Vec<String> = missing.iter().map(|missing| missing.describe(&who)).collect();
        Ok(Permission::Waits(texts.join("; ")))
    }
}

/// An InstallPolicy that lends the rights of its author.
pub(crate) struct LendingPolicy {
    policy: String,
    author: Option<Authority>,
}

impl LendingPolicy {
    /// The authors who lend their rights to a plan.
    pub(crate) fn of(plan: &Plan, cache: &ClusterCache) -> Vec<Self> {
        let lender = |policy: &String| {
            let found = cache.policies.get("", policy)?;
            Some(Self { policy: policy.clone(), author: Authority::requested(found.as_ref()) })
        };
        plan.lending.iter().filter_map(lender).collect()
    }
}

fn without_record(subscription: &Subscription) -> String {
    let (namespace, name) = (subscription.namespace().unwrap_or_default(), subscription.name_any());
    format!(
        "Subscription {namespace}/{name} has no recorded author, so the author's permissions were not checked; \
            approve the plan, or record yourself as the author: {}",
        record("Subscription", &namespace, &name)
    )
}
