//! Errors of operations, in the classes that callers act on.

use std::fmt;

use olm_api::names;
use olm_bundle::permissions::{Level, level};
use olm_engine::{CATALOG_OUT_OF_SIGHT, Refusal};
use olm_plan::{FindingCode, Plan, Severity, shell_word};
use olm_resolver::Explanation;

use crate::Diagnosis;

/// The class of an [`Error`]; each has one exit code on the command line and one HTTP status in the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An internal error: a bug, a broken connection.
    Unexpected,
    /// A package, channel, version, catalog or installation that does not exist.
    NotFound,
    /// Refused by a preflight check or by policy.
    Refused,
    Unresolvable,
    /// The operation was started and did not finish within the timeout.
    Timeout,
    Forbidden,
    /// The plan requires an approval first.
    AwaitingApproval,
}

impl Kind {
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Unexpected => 1,
            Self::NotFound => 3,
            Self::Refused => 4,
            Self::Unresolvable => 5,
            Self::Timeout => 6,
            Self::Forbidden => 7,
            Self::AwaitingApproval => 8,
        }
    }

    /// The HTTP status of the console and its JSON twins.
    #[must_use]
    pub fn http_status(self) -> u16 {
        match self {
            Self::Unexpected => 502,
            Self::NotFound => 404,
            Self::Refused | Self::AwaitingApproval => 409,
            Self::Unresolvable => 422,
            Self::Timeout => 504,
            Self::Forbidden => 403,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The named object does not exist.
    #[error("{what} `{name}` not found{}", within.as_deref().map(|w| format!(" in {w}")).unwrap_or_default())]
    NotFound {
        /// `package`, `channel`, `version`, `catalog`, `install`, `plan`, `namespace`.
        what: &'static str,
        name: String,
        /// The scope of the search, in words.
        within: Option<String>,
        nearest: Vec<String>,
    },
    /// The API server does not serve the kinds of olm.
    #[error(
        "olm is not installed on this cluster: failed to {what}: the API server does not serve this kind"
    )]
    NotInstalled {
        /// The operation.
        what: String,
    },
    /// A check or a policy refuses the operation.
    #[error("{text}")]
    Refused {
        /// Stable code, for example `plan-changed`, `OperandsPresent`.
        code: String,
        /// What is refused, on which object, why.
        text: String,
        fix: Option<String>,
    },
    #[error("{}", .0.with_causes())]
    Unresolvable(Box<Explanation>),
    /// Not finished in time; the controllers continue.
    #[error("{0}")]
    Timeout(Box<Diagnosis>),
    #[error("{text}")]
    Forbidden {
        /// The API server's message.
        text: String,
    },
    #[error("plan `{namespace}/{plan}` is waiting for approval: {summary}")]
    AwaitingApproval {
        namespace: String,
        plan: String,
        /// The package, for the command that approves.
        package: String,
        /// What it would do, in one line.
        summary: String,
    },
    /// A request to the API server failed.
    #[error("failed to {what}: {source}")]
    Kube {
        /// The operation.
        what: String,
        source: Box<kube::Error>,
    },
    #[error("{0}")]
    Other(String),
}

impl Error {
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::NotFound { .. } | Self::NotInstalled { .. } => Kind::NotFound,
            Self::Refused { code, .. } if code == FindingCode::UserLacksRights.as_str() => Kind::Forbidden,
            Self::Refused { .. } => Kind::Refused,
            Self::Unresolvable(explanation) if explanation.code.is_not_found() => Kind::NotFound,
            Self::Unresolvable(_) => Kind::Unresolvable,
            Self::Timeout(_) => Kind::Timeout,
            Self::Forbidden { .. } => Kind::Forbidden,
            Self::AwaitingApproval { .. } => Kind::AwaitingApproval,
            Self::Kube { .. } | Self::Other(_) => Kind::Unexpected,
        }
    }

    /// Whether the plan differs from the reviewed one.
    #[must_use]
    pub fn is_plan_changed(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code == super::PLAN_CHANGED)
    }

    /// What to do next, apart from the message.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound { nearest, .. } if !nearest.is_empty() => {
                Some(format!("did you mean {}?", in_words(nearest)))
            }
            Self::NotFound { what: "package", .. } => {
                Some("run `olm search` to list the available packages".into())
            }
            Self::Unresolvable(explanation) => match explanation.fixes.first() {
                Some(fix) => Some(format!("{}: `{}`", fix.text, fix.command)),
                None if explanation.nearest.is_empty() => None,
                None => Some(format!("did you mean {}?", in_words(&explanation.nearest))),
            },
            Self::NotInstalled { .. } => Some("install it with `olm self install`".into()),
            Self::Refused { fix, .. } => fix.clone(),
            Self::AwaitingApproval { namespace, package, .. } => {
                Some(format!("run `olm approve {} -n {namespace}`", shell_word(package)))
            }
            Self::Timeout(diagnosis) => diagnosis.next.clone(),
            Self::Forbidden { text } => missing_right(text),
            _ => None,
        }
    }

    /// Refuses a plan that findings block, with all findings of the first blocking code: every right that the
    /// caller lacks, every kind whose objects remain.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn refuse_blocked(verb: &str, plan: &Plan) -> Result<(), Self> {
        let mut blocking = plan.findings.iter().filter(|finding| finding.severity == Severity::Block);
        let Some(first) = blocking.next() else { return Ok(()) };
        let others = blocking.filter(|finding| finding.code == first.code);
        let texts: Vec<&str> = std::iter::once(first).chain(others).map(|f| f.text.as_str()).collect();
        Err(Self::Refused {
            code: first.code.to_string(),
            text: format!("failed to {verb} {}: {}", plan.package, texts.join("; ")),
            fix: first.fix.clone(),
        })
    }

    /// As [`Self::kube`], for a list of a kind of olm: the API server answers "not found" only where it does not
    /// serve the kind.
    pub(crate) fn list(what: String) -> impl FnOnce(kube::Error) -> Self {
        move |source| match source {
            kube::Error::Api(status) if status.is_not_found() => Self::NotInstalled { what },
            source => Self::kube(what)(source),
        }
    }

    /// Wraps a client error; a missing right becomes [`Error::Forbidden`].
    pub fn kube(what: impl fmt::Display) -> impl FnOnce(kube::Error) -> Self {
        let what = what.to_string();
        move |source| match source {
            kube::Error::Api(status) if status.is_forbidden() => {
                Self::Forbidden { text: format!("failed to {what}: {}", status.message) }
            }
            source => Self::Kube { what, source: Box::new(source) },
        }
    }
}

/// The command by which an administrator grants the missing right, parsed from the API server's message.
/// Refusals of admission plugins have other messages, and no such grant resolves them. It proposes rights to read,
/// and to write objects of olm, for which the manager checks the author's rights. Rights that lead to others are
/// not proposed: Secrets may hold tokens, a workload can run as any account of its namespace, and an InstallPolicy
/// lends rights.
fn missing_right(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("User \"")?;
    let (user, rest) = rest.split_once("\" cannot ")?;
    let (verb, rest) = rest.split_once(" resource \"")?;
    let (resource, rest) = rest.split_once("\" in API group \"")?;
    let (group, rest) = rest.split_once('"')?;
    let namespace = rest.strip_prefix(" in the namespace \"").and_then(|rest| rest.split_once('"'));
    let namespace = namespace.map(|(namespace, _)| namespace);
    // The text becomes part of a command: only characters without a meaning to the shell are accepted.
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:@/".contains(c);
    let mut words = [user, verb, resource, group].into_iter().chain(namespace);
    let printable = words.all(|word| word.chars().all(plain));
    let reads = ["get", "list", "watch"].contains(&verb) && resource != "secrets";
    let of_olm = group == names::GROUP && resource != "installpolicies";
    let harmless = (reads || of_olm) && level(verb, group, resource, namespace) == Level::Low;
    if !printable || !harmless {
        return Some("ask an administrator for this permission".into());
    }
    let name = format!("{verb}-{}", resource.replace('/', "-"));
    let (plural, subresource) = resource.split_at(resource.find('/').unwrap_or(resource.len()));
    let group = if group.is_empty() { String::new() } else { format!(".{group}") };
    let (role, place) = match namespace {
        Some(namespace) => ("role", format!(" -n {namespace}")),
        None => ("clusterrole", String::new()),
    };
    Some(format!(
        "an administrator can grant this permission: `kubectl create {role} {name}{place} --verb={verb} \
            --resource={plural}{group}{subresource} && kubectl create {role}binding {name}{place} \
            --{role}={name} --user={user}`"
    ))
}

fn in_words(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [init @ .., last] => format!("{} or {last}", init.join(", ")),
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unresolvable(explanation) => Self::Unresolvable(explanation),
            Refusal::UnknownCatalog { catalog, nearest } => {
                Self::NotFound { what: "catalog", name: catalog, within: None, nearest }
            }
            Refusal::CatalogOutOfSight { text, fix } => {
                Self::Refused { code: CATALOG_OUT_OF_SIGHT.into(), text, fix: Some(fix) }
            }
            Refusal::Resource(error) if error.is_forbidden() => Self::Forbidden { text: error.to_string() },
            Refusal::Resource(error) => Self::Other(error.to_string()),
            Refusal::Internal { text } => Self::Other(format!("internal error: {text}")),
            other => Self::Refused { code: other.code().into(), text: other.to_string(), fix: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_right_is_answered_with_how_it_is_given() {
        let hint = |text: &str| Error::Forbidden { text: text.into() }.hint();
        let words = "pods is forbidden: User \"ada\" cannot get resource \"pods/log\" in API group \"\"";
        assert_eq!(
            hint(&format!("{words} in the namespace \"ns\"")).as_deref(),
            Some(
                "an administrator can grant this permission: `kubectl create role get-pods-log -n ns \
                    --verb=get --resource=pods/log && kubectl create rolebinding get-pods-log -n ns \
                    --role=get-pods-log --user=ada`"
            )
        );
        let everywhere = hint(&format!("{words} at the cluster scope")).unwrap_or_default();
        assert!(everywhere.contains("create clusterrolebinding get-pods-log --clusterrole=get-pods-log"));
        // a name cannot run a command
        let hostile = words.replace("ada", "`rm`");
        assert_eq!(hint(&hostile).as_deref(), Some("ask an administrator for this permission"));
        // nor does it propose a right that leads to others
        for (verb, resource, group) in [
            ("create", "serviceaccounts/token", ""),
            ("get", "secrets", ""),
            ("create", "deployments", "apps"),
            ("create", "installpolicies", "operators.coreos.com"),
        ] {
            let words = format!(
                "{resource} is forbidden: User \"ada\" cannot {verb} resource \"{resource}\" in API group \
                    \"{group}\" in the namespace \"olm\""
            );
            assert_eq!(hint(&words).as_deref(), Some("ask an administrator for this permission"), "{words}");
        }
        assert_eq!(hint("admission webhook \"x\" denied the request"), None);
    }

    #[test]
    fn a_refusal_names_every_kind_whose_objects_remain() {
        let finding = |code: &str, severity: &str, text: &str| serde_json::json!({ "code": code, "severity": severity, "subject": "a", "text": text, "fix": "olm" });
        let plan = |findings: &[serde_json::Value]| -> Plan {
            serde_json::from_value(serde_json::json!({
                "apiVersion": olm_plan::API_VERSION, "digest": "sha256:0", "action": "uninstall", "namespace": "ns",
                "subscription": "etcd", "package": "etcd", "bundle": "etcd.v1", "path": [], "dependencies": [],
                "objects": [], "why": { "chosen": "", "text": "", "rejected": [] }, "findings": findings,
                "requiresApproval": false, "permissions": { "added": [], "removed": [], "summary": {} },
                "reversible": { "possible": true },
            }))
            .unwrap()
        };
        let refused = plan(&[
            finding("OperandsPresent", "block", "3 EtcdCluster objects would remain"),
            finding("OperandsPresent", "block", "1 EtcdBackup object would remain"),
            finding("NotChecked", "info", "not checked"),
        ]);
        let error = Error::refuse_blocked("uninstall", &refused).unwrap_err();
        let text =
            "failed to uninstall etcd: 3 EtcdCluster objects would remain; 1 EtcdBackup object would remain";
        assert_eq!((error.to_string().as_str(), error.hint().as_deref()), (text, Some("olm")));
        assert!(Error::refuse_blocked("uninstall", &plan(&[])).is_ok());
    }

    #[test]
    fn a_plan_that_the_caller_may_not_request_is_forbidden() {
        let refused = |code: &str| Error::Refused { code: code.into(), text: String::new(), fix: None };
        assert_eq!(refused("UserLacksRights").kind().exit_code(), 7);
        assert_eq!(refused("QuotaExceeded").kind().exit_code(), 4);
    }

    #[test]
    fn an_unresolvable_request_is_answered_with_the_reason() {
        use olm_resolver::{Code, Node};
        let leaf = Node::leaf("etcd.v0.9.4", Code::OpenShiftTooNew, "it supports OpenShift up to 4.18");
        let text = "the only candidate in channel stable is not installable";
        let subject = "Subscription ns/etcd".to_owned();
        let node = Node { subject, code: Code::OpenShiftTooNew, text: text.into(), children: vec![leaf] };
        let summary = format!("failed to resolve etcd for Subscription ns/etcd: {text}");
        let (nodes, fixes, nearest) = (vec![node], Vec::new(), Vec::new());
        let error = Error::Unresolvable(Box::new(Explanation {
            code: Code::OpenShiftTooNew,
            summary,
            nodes,
            fixes,
            nearest,
        }));
        let reason = "etcd.v0.9.4: it supports OpenShift up to 4.18 (OpenShiftTooNew)";
        assert!(error.to_string().ends_with(&format!("{text}; {reason}")), "{error}");
    }

    #[test]
    fn a_kind_that_is_not_served_is_answered_with_the_installation() {
        let answer = |code: u16, reason: &str| {
            let status = kube::core::Status::failure("no", reason).with_code(code);
            Error::list("list subscriptions in all namespaces".into())(kube::Error::Api(status.boxed()))
        };
        // connections give the text "404 page not found" this reason
        let missing = answer(404, "NotFound");
        assert!(missing.to_string().starts_with("olm is not installed on this cluster: "), "{missing}");
        assert_eq!(missing.hint().as_deref(), Some("install it with `olm self install`"));
        assert_eq!(missing.kind().exit_code(), 3);
        assert!(matches!(answer(403, "Forbidden"), Error::Forbidden { .. }));
        assert!(matches!(answer(500, "InternalError"), Error::Kube { .. }));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest() {
        let error = Error::NotFound {
            what: "package",
            name: "etdc".into(),
            within: Some("catalog olm/community".into()),
            nearest: vec!["etcd".into(), "etc".into()],
        };
        assert_eq!(error.to_string(), "package `etdc` not found in catalog olm/community");
        assert_eq!(error.hint().as_deref(), Some("did you mean `etcd` or `etc`?"));
        assert_eq!(error.kind().exit_code(), 3);
    }
}
