//! Why requests cannot be met.

use std::collections::BTreeMap;

use olm_version::shell_word;

use crate::bundle::Bundle;
use crate::candidates::Candidates;
use crate::code::Code;
use crate::context::{Context, clear_skip_versions, name_of, namespace_of};
use crate::explain::{Explanation, Fix, Node};
use crate::group::{group_by_cause, version_span};
use crate::need::to_need;
use crate::package::{Package, newest_first};
use crate::request::Request;
use crate::selection::{NoCandidates, channels_text, is_skip_version};
use crate::solve::{Cause, Search, UnsatCore, Unsolved, solve};
use crate::solver::BUDGET;
use crate::why::Why;

/// Maximum number of candidates of one request in an explanation.
const SHOWN: usize = 8;

fn subject(request: &Request) -> String {
    format!("Subscription {}", request.subscription)
}

pub(crate) fn no_choice(request: &Request, nothing: NoCandidates) -> Explanation {
    Explanation {
        code: nothing.code,
        summary: format!(
            "failed to resolve {} for Subscription {}: {}",
            request.package, request.subscription, nothing.text
        ),
        nodes: vec![Node::leaf(subject(request), nothing.code, nothing.text)],
        fixes: nothing.fixes,
        nearest: nothing.nearest,
    }
}

/// Every candidate is excluded by facts.
pub(crate) fn all_ruled_out(request: &Request, list: &Candidates<'_>) -> Explanation {
    let mut children: Vec<Node> = list
        .excluded
        .iter()
        .map(|(place, why)| Node::leaf(&place.bundle.name, why.code, &why.text))
        .collect();
    let skipped = list.package.bundles().iter().filter(|b| is_skip_version(request, b));
    children.extend(skipped.map(|b| Node::leaf(&b.name, Code::SkipVersions, "excluded by skipVersions")));
    let mut fixes: Vec<Fix> = Vec::new();
    for fix in list.excluded.iter().filter_map(|(_, why)| why.fix.as_ref()) {
        fix.add_to(&mut fixes);
    }
    if children.iter().any(|c| c.code == Code::SkipVersions) {
        fixes.push(clear_skip_versions(request));
    }
    let code = children.first().map_or(Code::UnknownVersion, |c| c.code);
    explanation(request, list, code, children, fixes)
}

fn explanation(
    request: &Request,
    list: &Candidates<'_>,
    code: Code,
    children: Vec<Node>,
    mut fixes: Vec<Fix>,
) -> Explanation {
    if fixes.is_empty() {
        fixes.push(Fix {
            text: "choose another version".into(),
            command: format!("olm show {}", shell_word(&request.package)),
        });
    }
    let total = children.len();
    let mut children = by_cause(list.package, children);
    let all = children.len() <= SHOWN;
    children.truncate(SHOWN);
    let place = channels_text(request, list.package);
    let text = match total {
        0 => format!("{place} of catalog {} has no bundles", request.catalog),
        1 => format!("the only candidate in {place} of catalog {} is not installable", request.catalog),
        n => {
            let first = if all { "" } else { ", the first are" };
            format!("none of {n} candidates in {place} of catalog {} is installable{first}", request.catalog)
        }
    };
    Explanation {
        code,
        summary: format!(
            "failed to resolve {} for Subscription {}: {text}",
            request.package, request.subscription
        ),
        nodes: vec![Node { subject: subject(request), code, text, children }],
        fixes,
        nearest: Vec::new(),
    }
}

/// Candidates of a package, those with a common cause in one node.
fn by_cause(package: &Package, candidates: Vec<Node>) -> Vec<Node> {
    let same_cause = |a: &Node, b: &Node| (a.code, &a.text, &a.children) == (b.code, &b.text, &b.children);
    let merged = |mut group: Vec<Node>| {
        if group.len() > 1 {
            let mut bundles: Vec<&Bundle> = group.iter().filter_map(|n| package.bundle(&n.subject)).collect();
            bundles.sort_by(|a, b| newest_first(a, b));
            let version =
                |b: &&Bundle| b.version.as_ref().map_or_else(|| b.name.clone(), ToString::to_string);
            let versions: Vec<String> = bundles.iter().map(version).collect();
            let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
            group[0].subject = format!("versions {}", version_span(&versions));
        }
        group.swap_remove(0)
    };
    group_by_cause(candidates, same_cause).into_iter().map(merged).collect()
}

/// Explains the solver's failure for these requests.
pub(crate) fn explain<'a>(
    ctx: &Context<'a>,
    found: &BTreeMap<usize, Candidates<'a>>,
    to_blame: &[usize],
    unsolved: &Unsolved<'a>,
) -> Explanation {
    match unsolved {
        Unsolved::GaveUp(search) => gave_up(ctx, to_blame, search),
        Unsolved::Conflict(causes) => match to_blame {
            [only] => unmet(ctx, *only, found, causes),
            _ => conflicting_requests(ctx, found, to_blame, causes),
        },
    }
}

fn gave_up(ctx: &Context<'_>, to_blame: &[usize], search: &Search<'_>) -> Explanation {
    let requests: Vec<&Request> = to_blame.iter().map(|at| ctx.requests[*at]).collect();
    let subjects: Vec<&str> = requests.iter().map(|r| r.subscription.as_str()).collect();
    let node = |request: &&Request| {
        let text = format!(
            "gave up after {} decisions about {} bundles without a result for package {}; conflicts include",
            search.steps, search.bundles, request.package
        );
        Node { subject: subject(request), code: Code::GaveUp, text, children: shared(&search.met) }
    };
    let fix = |request: &&Request| Fix {
        text: "pin a version".into(),
        command: format!(
            "olm install {} --version VERSION -n {}",
            shell_word(&request.package),
            namespace_of(request)
        ),
    };
    Explanation {
        code: Code::GaveUp,
        summary: format!("the search for {} gave up after {} decisions", subjects.join(", "), search.steps),
        nodes: requests.iter().map(node).collect(),
        fixes: requests.first().map(fix).into_iter().collect(),
        nearest: Vec::new(),
    }
}

/// One request cannot be met, regardless of the others.
fn unmet<'a>(
    ctx: &Context<'a>,
    at: usize,
    found: &BTreeMap<usize, Candidates<'a>>,
    causes: &[Cause<'a>],
) -> Explanation {
    let (request, list) = (ctx.requests[at], &found[&at]);
    let mut together = None;
    let mut why = Why::new(ctx);
    let mut children = Vec::new();
    let mut fixes: Vec<Fix> = Vec::new();
    for candidate in &list.allowed {
        let name = &candidate.place.bundle.name;
        children.push(match why.unmet(candidate.place) {
            Some(unmet) => {
                for fix in why.fixes(&unmet) {
                    fix.add_to(&mut fixes);
                }
                unmet.of(name)
            }
            None => Node {
                subject: name.clone(),
                code: Code::RequestsConflict,
                text: "its dependencies conflict".into(),
                children: together.get_or_insert_with(|| shared(&minimal(ctx, found, causes))).clone(),
            },
        });
    }
    children.extend(list.excluded.iter().map(|(p, why)| Node::leaf(&p.bundle.name, why.code, &why.text)));
    let code = children.first().map_or(Code::DependencyUnsatisfied, |c| c.code);
    explanation(request, list, code, children, fixes)
}

/// The contradiction of a single request, minimized; that of several already is.
fn minimal<'a>(
    ctx: &Context<'a>,
    found: &BTreeMap<usize, Candidates<'a>>,
    causes: &[Cause<'a>],
) -> Vec<Cause<'a>> {
    let lenient = found.keys().copied().collect();
    let mut budget = BUDGET;
    match found.len() {
        1 => match solve(ctx, found, &lenient, UnsatCore::Minimal, &mut budget) {
            Err(Unsolved::Conflict(causes)) => causes,
            _ => causes.to_vec(),
        },
        _ => causes.to_vec(),
    }
}

/// The exclusive objects, and their requesters.
fn shared(causes: &[Cause<'_>]) -> Vec<Node> {
    let nodes = causes.iter().filter_map(|cause| match cause {
        Cause::Request(_) | Cause::Candidates | Cause::Held(_) => None,
        Cause::Need(bundle, need) => {
            let text = format!("requires {}", to_need(need));
            Some(Node::leaf(*bundle, Code::DependencyUnsatisfied, text))
        }
        Cause::Package(package) => {
            let text = "only one version of a package can be installed";
            Some(Node::leaf(format!("package {package}"), Code::RequestsConflict, text))
        }
        Cause::Api(gvk) => {
            Some(Node::leaf(format!("API {gvk}"), Code::ApiOwnedBy, "an API has only one owner"))
        }
    });
    let mut nodes: Vec<Node> = nodes.collect();
    nodes.sort_by(|a, b| (&a.subject, &a.text).cmp(&(&b.subject, &b.text)));
    nodes.dedup();
    nodes.truncate(SHOWN);
    nodes
}

/// Each of the requests can be met without one of the others, but not all together.
fn conflicting_requests<'a>(
    ctx: &Context<'a>,
    found: &BTreeMap<usize, Candidates<'a>>,
    to_blame: &[usize],
    causes: &[Cause<'a>],
) -> Explanation {
    let requests: Vec<&Request> = to_blame.iter().map(|at| ctx.requests[*at]).collect();
    let names: Vec<&str> = requests.iter().map(|r| r.subscription.as_str()).collect();
    let mut nodes: Vec<Node> = to_blame
        .iter()
        .map(|at| {
            let (request, list) = (ctx.requests[*at], &found[at]);
            let best = list.allowed.iter().take(SHOWN).map(|c| c.place.bundle.name.as_str());
            let stays = request.installed.iter().map(|i| i.name.as_str());
            let options: Vec<&str> = best.chain(stays).collect();
            let more = if list.allowed.len() > SHOWN { ", ..." } else { "" };
            Node::leaf(
                subject(request),
                Code::RequestsConflict,
                format!("requests package {}: {}{more}", request.package, options.join(", ")),
            )
        })
        .collect();
    nodes.extend(shared(causes));
    let fix = |request: &&Request| Fix {
        text: "remove one of them".into(),
        command: format!("olm uninstall {} -n {}", name_of(request), namespace_of(request)),
    };
    Explanation {
        code: Code::RequestsConflict,
        summary: match names.as_slice() {
            [all @ .., last] => {
                format!("Subscriptions {} and {last} conflict", all.join(", "))
            }
            [] => String::new(),
        },
        nodes,
        fixes: requests.last().map(fix).into_iter().collect(),
        nearest: Vec::new(),
    }
}
