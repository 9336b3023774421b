//! `olm policy`.

use std::{fmt::Write as _, path::Path};

use olm_api::InstallPolicy;
use olm_engine::catalogs::Fetcher;
use olm_ops::{PolicyTest, Subject, Verdict};
use serde::Deserialize as _;
use serde_json::Value;

use crate::{
    args::{Global, PolicyArgs, PolicyCommand, PolicyTestArgs},
    context,
    exit::{Code, Failure},
    output::{count, print_one, table},
    prose::printable,
};

pub async fn run(global: &Global, args: PolicyArgs) -> Result<(), Failure> {
    match args.command {
        PolicyCommand::Test(args) => test(global, args).await,
    }
}

async fn test(global: &Global, args: PolicyTestArgs) -> Result<(), Failure> {
    let mut policies = Vec::new();
    for path in &args.file {
        policies.extend(read(path)?);
    }
    let client = context::connect(global).await?;
    let (catalogs, unreadable) = match Fetcher::service_proxy(client.clone()).fetch().await {
        Ok(catalogs) => (catalogs, None),
        Err(error) => (Vec::new(), Some(format!("catalogs: {error}"))),
    };
    let tested = olm_ops::test_policies(&client, global.namespace.as_deref(), &catalogs, policies).await;
    let mut tested = tested?;
    tested.not_checked.splice(0..0, unreadable);
    print_one(&tested, &args.out.output, "policies", || text(&tested, !args.out.no_headers))?;
    match (tested.has_effect(), tested.not_checked.is_empty()) {
        (true, _) => Err(Failure::no()),
        (false, false) => Err(Failure::new(Code::Unanswered, "")),
        (false, true) => Ok(()),
    }
}

/// Reads the policies of a file. Fields are validated like on the API server, and unknown ones are an error.
fn read(path: &Path) -> Result<Vec<InstallPolicy>, Failure> {
    let wrong = |text: String| Failure::new(Code::Usage, format!("{}: {text}", path.display()));
    let content =
        std::fs::read_to_string(path).map_err(|error| wrong(format!("failed to read the file: {error}")))?;
    parse(&content).map_err(wrong)
}

fn parse(content: &str) -> Result<Vec<InstallPolicy>, String> {
    let mut policies = Vec::new();
    for document in serde_yaml::Deserializer::from_str(content) {
        let object =
            Value::deserialize(document).map_err(|error| format!("failed to parse the file: {error}"))?;
        let items = match object["items"].as_array() {
            Some(items) => items.clone(),
            None if object.is_null() => continue,
            None => vec![object],
        };
        for item in items {
            policies.push(policy(item)?);
        }
    }
    if policies.is_empty() { Err("expected at least one InstallPolicy".into()) } else { Ok(policies) }
}

fn policy(mut object: Value) -> Result<InstallPolicy, String> {
    const API_VERSION: &str = "operators.coreos.com/v1alpha1";
    if object["kind"] != "InstallPolicy" || object["apiVersion"] != API_VERSION {
        return Err(format!("expected objects of kind InstallPolicy and apiVersion {API_VERSION}"));
    }
    let Some(name) = object["metadata"]["name"].as_str().map(str::to_owned) else {
        return Err("metadata.name: missing, expected the name of the InstallPolicy".into());
    };
    let crd = olm_api::crds().into_iter().find(|crd| crd.spec.names.kind == "InstallPolicy");
    let crd = crd
        .and_then(|crd| serde_json::to_value(crd).ok())
        .and_then(|crd| olm_kube_schema::definition::parse(&crd).ok());
    let crd = crd.ok_or("failed to parse the schema of InstallPolicies")?;
    let schema = &crd.storage().schema;
    let of = |text: String| format!("InstallPolicy {name}: {text}");
    let unknown = schema.prune(&mut object);
    if !unknown.is_empty() {
        return Err(of(format!("unknown field {}", unknown.join(", "))));
    }
    let errors: Vec<String> = schema.validate(&object).iter().map(ToString::to_string).collect();
    if !errors.is_empty() {
        return Err(of(errors.join("; ")));
    }
    let policy: InstallPolicy = serde_json::from_value(object).map_err(|error| of(error.to_string()))?;
    // The API server does not validate keys and patterns.
    for (at, rule) in policy.spec.signatures.iter().flatten().enumerate() {
        rule.verifiers().map_err(|wrong| of(format!("spec.signatures[{at}].anyOf: {wrong}")))?;
    }
    Ok(policy)
}

fn text(tested: &PolicyTest, headers: bool) -> String {
    let mut out = String::new();
    for policy in &tested.policies {
        let how = if policy.replaces { "replaced" } else { "new" };
        let selects = match policy.namespaces {
            Some(0) => "selects no namespace".to_owned(),
            Some(n) => format!("selects {}", count(n, "namespace")),
            None => "number of selected namespaces unknown".to_owned(),
        };
        _ = writeln!(out, "InstallPolicy {} ({how}): {selects}", printable(&policy.name));
    }
    let rows: Vec<Vec<String>> = tested
        .effects
        .iter()
        .map(|effect| {
            let what = match effect.what {
                Subject::Installed => "installed",
                Subject::Requested => "requested",
            };
            let result = match effect.result {
                Verdict::Denied => "denied",
                Verdict::SecondApprover => "second approver",
                Verdict::Allowed => "allowed",
            };
            vec![
                effect.namespace.clone(),
                effect.name.clone(),
                what.to_owned(),
                effect.bundle.clone().unwrap_or_default(),
                result.to_owned(),
                effect.reasons.join("; "),
            ]
        })
        .collect();
    let header = ["NAMESPACE", "NAME", "WHAT", "BUNDLE", "RESULT", "REASON"];
    if !rows.is_empty() {
        _ = writeln!(out, "{}", table(if headers { &header } else { &[] }, &rows));
    }
    for what in &tested.not_checked {
        _ = writeln!(out, "· not checked: {}", printable(what));
    }
    let of = |verdict: Verdict| tested.effects.iter().filter(|effect| effect.result == verdict).count();
    _ = write!(
        out,
        "{} denied, {} waiting for a second approver, {} allowed",
        of(Verdict::Denied),
        of(Verdict::SecondApprover),
        of(Verdict::Allowed)
    );
    if tested.effects.iter().any(|e| e.result == Verdict::Denied && e.what == Subject::Installed) {
        out += "\ninstalled operators that are denied keep running; their upgrades are refused";
    }
    out
}

#[cfg(test)]
mod tests {
    use olm_ops::{Effect, TestedPolicy};

    use super::*;

    const POLICY: &str =
        "apiVersion: operators.coreos.com/v1alpha1\nkind: InstallPolicy\nmetadata: {name: dev}\n";

    #[test]
    fn a_file_with_a_mistake_is_refused_with_the_field() {
        let wrong = |spec: &str| parse(&format!("{POLICY}spec: {spec}\n")).unwrap_err();
        for (spec, field) in [
            ("{alow: [{packages: [etcd]}]}", "spec.alow"),
            ("{allow: [{packages: [etcd], channel: [a]}]}", "spec.allow[0].channel"),
            ("{allow: []}", "spec.allow"),
            ("{}", "spec"),
            ("{approvals: {high: 3}}", "spec.approvals.high"),
            (
                "{signatures: [{images: ['*'], anyOf: [{key: '-----BEGIN PUBLIC KEY-----'}]}]}",
                "spec.signatures[0].anyOf: key",
            ),
        ] {
            let text = wrong(spec);
            assert!(text.starts_with("InstallPolicy dev: ") && text.contains(field), "{spec}: {text}");
        }
        assert!(parse("kind: Pod\n").unwrap_err().contains("expected objects of kind InstallPolicy"));
        assert!(parse("").is_err());
        let two = format!(
            "{POLICY}spec: {{approvals: {{high: 2}}}}\n---\n{POLICY}spec: {{allow: [{{packages: ['*']}}]}}\n"
        );
        assert_eq!(parse(&two).unwrap().len(), 2);
    }

    #[test]
    fn the_effect_is_one_table_and_what_was_not_looked_at() {
        let effect = |name: &str, what, result, reason: &str| Effect {
            namespace: "team-a".into(),
            name: name.into(),
            what,
            bundle: Some(format!("{name}.v1.0.0")),
            result,
            reasons: (!reason.is_empty()).then(|| reason.to_owned()).into_iter().collect(),
        };
        let tested = PolicyTest {
            policies: vec![TestedPolicy { name: "dev".into(), replaces: false, namespaces: Some(2) }],
            effects: vec![
                effect(
                    "vault",
                    Subject::Installed,
                    Verdict::Denied,
                    "InstallPolicy dev does not allow package vault of catalog olm/community (spec.allow)",
                ),
                effect(
                    "cert",
                    Subject::Requested,
                    Verdict::SecondApprover,
                    "the plan grants 1 HIGH right and InstallPolicy dev requires 2 different approvers \
                        (spec.approvals.high)",
                ),
                effect("etcd", Subject::Installed, Verdict::Allowed, ""),
            ],
            not_checked: vec![
                "namespaces other than team-a: no permission to list Subscriptions in all namespaces".into(),
            ],
        };
        insta::assert_snapshot!(text(&tested, true));
    }
}
