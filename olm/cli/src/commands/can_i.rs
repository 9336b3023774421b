//! `olm can-i`.

use kube::Client;
use olm_ops::{InstallRequest, Right};
use olm_plan::{FindingCode, Severity};
use serde::Serialize;

use super::{catalogs, installed};
use crate::{
    args::{CanI, CanIArgs, Global},
    context,
    exit::{Code, Failure},
    output::{print_one, table},
    prose::printable,
};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    allowed: bool,
    namespace: String,
    rights: Vec<Right>,
    /// Rights of the operator that the caller does not hold, so that another person has to approve the plan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waits: Vec<String>,
    /// Why the plan was not examined.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_checked: Option<String>,
}

pub async fn run(global: &Global, args: CanIArgs) -> Result<(), Failure> {
    let client = context::connect(global).await?;
    let namespace = namespace(global, &client, &args).await?;
    let rights = olm_ops::rights(&client, args.operation.into(), &namespace).await?;
    let mut answer = Answer {
        allowed: rights.iter().all(|right| right.allowed),
        namespace,
        rights,
        waits: Vec::new(),
        not_checked: None,
    };
    if answer.allowed && args.operation == CanI::Install {
        match plan_waits(&client, &args.name, &answer.namespace).await {
            Ok(waits) => answer.waits = waits,
            // The package does not exist, or no version can be installed: that is the answer.
            Err(failure) if matches!(failure.code, Code::NotFound | Code::Unresolvable) => {
                return Err(failure);
            }
            Err(failure) => answer.not_checked = Some(failure.message),
        }
    }
    let word = if answer.allowed { "yes" } else { "no" };
    print_one(&answer, &args.out.output, word, || text(&answer, !args.out.no_headers))?;
    if !answer.allowed {
        let missing = answer.rights.iter().filter(|right| !right.allowed);
        let missing: Vec<String> = missing.map(ToString::to_string).collect();
        let failure = Failure::new(Code::Forbidden, format!("missing permission: {}", missing.join("; ")));
        return Err(installed::whom_to_ask(&client, &answer.namespace, failure).await);
    }
    if answer.waits.is_empty() { Ok(()) } else { Err(Failure::new(Code::NeedsApproval, "")) }
}

/// That of the operator, or the one that it would be installed in.
async fn namespace(global: &Global, client: &Client, args: &CanIArgs) -> Result<String, Failure> {
    if let Some(namespace) = &global.namespace {
        return Ok(namespace.clone());
    }
    if args.operation == CanI::Install {
        let catalogs = catalogs::fetch(client.clone()).await?;
        return Ok(olm_ops::suggested_namespace(&catalogs, &args.name));
    }
    Ok(installed::find(global, &args.name).await?.1.namespace)
}

/// What the plan of the installation needs beyond the caller's rights.
async fn plan_waits(client: &Client, package: &str, namespace: &str) -> Result<Vec<String>, Failure> {
    let catalogs = catalogs::fetch(client.clone()).await?;
    let request = InstallRequest::new(package, namespace);
    let plan = olm_ops::preview_install(client, &catalogs, &request).await?;
    let lacking = [FindingCode::ApproverLacksRights, FindingCode::UserLacksRights];
    let findings = plan.findings.iter().filter(|f| lacking.contains(&f.code) && f.severity != Severity::Info);
    Ok(findings.map(|finding| finding.text.clone()).collect())
}

fn text(answer: &Answer, headers: bool) -> String {
    let rows: Vec<Vec<String>> = answer
        .rights
        .iter()
        .map(|right| {
            let place = right.namespace.clone().unwrap_or_else(|| "(cluster)".to_owned());
            let allowed = if right.allowed { "yes" } else { "no" };
            vec![right.verb.clone(), right.resource.clone(), place, allowed.to_owned()]
        })
        .collect();
    let header = ["VERB", "RESOURCE", "NAMESPACE", "ALLOWED"];
    let mut out = match (answer.allowed, answer.waits.is_empty()) {
        (false, _) => "no\n\n".to_owned(),
        (true, true) => "yes\n\n".to_owned(),
        (true, false) => "yes, but the plan waits for an approver with more permissions\n\n".to_owned(),
    };
    out += &table(if headers { header.as_slice() } else { &[] }, &rows);
    for wait in &answer.waits {
        out += &format!("\n\nneeds approval: {}", printable(wait));
    }
    if let Some(why) = &answer.not_checked {
        out += &format!("\n\nthe permissions of the operator were not checked: {}", printable(why));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_lists_each_right() {
        let right = |verb: &str, namespace: Option<&str>, allowed| Right {
            verb: verb.into(),
            resource: "subscriptions.operators.coreos.com".into(),
            namespace: namespace.map(Into::into),
            allowed,
        };
        let answer = Answer {
            allowed: false,
            namespace: "a".into(),
            rights: vec![right("list", Some("a"), true), right("create", None, false)],
            waits: Vec::new(),
            not_checked: None,
        };
        assert_eq!(
            text(&answer, false),
            "no\n\nlist     subscriptions.operators.coreos.com   a           yes\n\
             create   subscriptions.operators.coreos.com   (cluster)   no"
        );
    }
}
