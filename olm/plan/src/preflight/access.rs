//! Rights of a user or account, evaluated like in the API server.

use std::collections::BTreeMap;

use olm_kube_schema::rbac::{covers_resource, covers_url};
use serde_json::Value;

use crate::json::{list, strings};

/// A rule of a role or a review.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    pub verbs: Vec<String>,
    /// API groups.
    pub groups: Vec<String>,
    /// Resources: `pods`, `pods/exec`, `*/scale`, `*`.
    pub resources: Vec<String>,
    /// Object names; empty means all.
    pub names: Vec<String>,
    /// Non-resource paths.
    pub urls: Vec<String>,
}

impl Rule {
    /// Parses a `PolicyRule`, a `ResourceRule` or a `NonResourceRule`: their fields have the same names.
    pub fn of(rule: &Value) -> Self {
        Self {
            verbs: strings(rule, "/verbs"),
            groups: strings(rule, "/apiGroups"),
            resources: strings(rule, "/resources"),
            names: strings(rule, "/resourceNames"),
            urls: strings(rule, "/nonResourceURLs"),
        }
    }

    pub(crate) fn of_role(role: &Value) -> Vec<Self> {
        list(role, "/rules").iter().map(Self::of).collect()
    }

    /// Whether it allows a request. `resource` is with its subresource; a `name` of `None` requests all
    /// objects.
    pub(crate) fn allows(&self, verb: &str, group: &str, resource: &str, name: Option<&str>) -> bool {
        has(&self.verbs, verb)
            && has(&self.groups, group)
            && self.resources.iter().any(|r| covers_resource(r, resource))
            && (self.names.is_empty() || name.is_some_and(|name| self.names.iter().any(|n| n == name)))
    }

    /// The rule split into rules of one verb on one resource, one object or one path each.
    pub(crate) fn parts(&self) -> Vec<Self> {
        let one = |text: &String| vec![text.clone()];
        let mut parts = Vec::new();
        for verb in &self.verbs {
            parts.extend(self.urls.iter().map(|url| Self {
                verbs: one(verb),
                urls: one(url),
                ..Self::default()
            }));
            for group in &self.groups {
                for resource in &self.resources {
                    let part = Self {
                        verbs: one(verb),
                        groups: one(group),
                        resources: one(resource),
                        ..Self::default()
                    };
                    if self.names.is_empty() {
                        parts.push(part);
                        continue;
                    }
                    parts.extend(self.names.iter().map(|name| Self { names: one(name), ..part.clone() }));
                }
            }
        }
        parts
    }

    /// Whether both grant a common right. A named object is part of all objects.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let common = |own: &[String], others: &[String], overlap: fn(&str, &str) -> bool| {
            own.iter().any(|own| others.iter().any(|other| overlap(own, other)))
        };
        let same = |own: &str, other: &str| own == "*" || other == "*" || own == other;
        if !common(&self.verbs, &other.verbs, same) {
            return false;
        }
        let paths = |own: &str, other: &str| covers_url(own, other) || covers_url(other, own);
        let resources = |own: &str, other: &str| covers_resource(own, other) || covers_resource(other, own);
        let objects = common(&self.groups, &other.groups, same)
            && common(&self.resources, &other.resources, resources)
            && (self.names.is_empty()
                || other.names.is_empty()
                || common(&self.names, &other.names, |a, b| a == b));
        objects || common(&self.urls, &other.urls, paths)
    }

    /// Whether it grants everything in a part of another rule.
    fn covers(&self, part: &Self) -> bool {
        let verb = part.verbs.first().map_or("", String::as_str);
        if let Some(url) = part.urls.first() {
            return has(&self.verbs, verb) && self.urls.iter().any(|own| covers_url(own, url));
        }
        let text = |list: &'_ [String]| list.first().cloned().unwrap_or_default();
        self.allows(verb, &text(&part.groups), &text(&part.resources), part.names.first().map(String::as_str))
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verbs = self.verbs.join(",");
        if !self.urls.is_empty() {
            return write!(f, "{verbs} {}", self.urls.join(","));
        }
        let mut resources = Vec::new();
        for resource in &self.resources {
            for group in &self.groups {
                resources.push(match group.as_str() {
                    "" => resource.clone(),
                    group => format!("{resource}.{group}"),
                });
            }
        }
        write!(f, "{verbs} {}", resources.join(","))?;
        if self.names.is_empty() { Ok(()) } else { write!(f, " named {}", self.names.join(",")) }
    }
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|own| own == "*" || own == wanted)
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    cluster: Option<Vec<Rule>>,
    namespaces: BTreeMap<String, Vec<Rule>>,
}

impl Access {
    /// Unknown rights.
    pub fn unknown() -> Self {
        Self::default()
    }

    /// Adds rights in all scopes: for cluster-scoped objects and in all namespaces.
    #[must_use]
    pub fn with_cluster(mut self, rules: Vec<Rule>) -> Self {
        self.cluster = Some(rules);
        self
    }

    /// Adds rights in a namespace, cluster-wide ones included.
    #[must_use]
    pub fn with_namespace(mut self, namespace: &str, rules: Vec<Rule>) -> Self {
        self.namespaces.insert(namespace.to_owned(), rules);
        self
    }

    /// Whether the request is allowed; `None` when unknown. Without a namespace it is for a cluster-scoped
    /// object (or all namespaces), without a name for every object.
    pub fn allows(
        &self,
        verb: &str,
        group: &str,
        resource: &str,
        subresource: Option<&str>,
        name: Option<&str>,
        namespace: Option<&str>,
    ) -> Option<bool> {
        let full = subresource.map_or_else(|| resource.to_owned(), |sub| format!("{resource}/{sub}"));
        let allowed = |rules: &[Rule]| rules.iter().any(|rule| rule.allows(verb, group, &full, name));
        self.judge(namespace, allowed)
    }

    /// The rules of `rules` that are missing in a scope, merged where only the verb differs; `None` when
    /// unknown.
    pub fn lacks(&self, rules: &[Rule], namespace: Option<&str>) -> Option<Vec<Rule>> {
        let mut missing: Vec<Rule> = Vec::new();
        for part in rules.iter().flat_map(Rule::parts) {
            if self.judge(namespace, |own| own.iter().any(|rule| rule.covers(&part)))? {
                continue;
            }
            add(&mut missing, part);
        }
        Some(missing)
    }

    fn judge(&self, namespace: Option<&str>, test: impl Fn(&[Rule]) -> bool) -> Option<bool> {
        if self.cluster.as_deref().is_some_and(&test) {
            return Some(true);
        }
        match namespace {
            Some(namespace) => self.namespaces.get(namespace).map(|rules| test(rules)),
            None => self.cluster.as_ref().map(|_| false),
        }
    }
}

/// Adds a rule of one verb to rules that are otherwise the same.
pub(crate) fn add(rules: &mut Vec<Rule>, part: Rule) {
    let same = |r: &&mut Rule| {
        (&r.groups, &r.resources, &r.names, &r.urls)
            == (&part.groups, &part.resources, &part.names, &part.urls)
    };
    match rules.iter_mut().find(same) {
        Some(rule) => {
            for verb in part.verbs {
                if !rule.verbs.contains(&verb) {
                    rule.verbs.push(verb);
                }
            }
        }
        None => rules.push(part),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(verbs: &[&str], group: &str, resources: &[&str]) -> Rule {
        Rule::of(&json!({ "verbs": verbs, "apiGroups": [group], "resources": resources }))
    }

    #[test]
    fn rights_of_the_cluster_hold_in_every_namespace_and_those_of_a_namespace_nowhere_else() {
        let access = Access::unknown()
            .with_cluster(vec![rule(&["get"], "", &["pods"])])
            .with_namespace("a", vec![rule(&["get"], "", &["pods"]), rule(&["create"], "", &["pods"])]);
        let may = |verb: &str, namespace| access.allows(verb, "", "pods", None, None, namespace);
        assert_eq!(may("get", None), Some(true));
        assert_eq!(may("get", Some("b")), Some(true));
        assert_eq!(may("create", Some("a")), Some(true));
        assert_eq!(may("create", None), Some(false));
        // rights in another namespace are unknown
        assert_eq!(may("create", Some("b")), None);
        assert_eq!(Access::unknown().allows("get", "", "pods", None, None, None), None);
    }

    #[test]
    fn wildcards_subresources_and_names() {
        let access = Access::unknown().with_cluster(vec![
            rule(&["get"], "*", &["*/log"]),
            rule(&["*"], "apps", &["deployments"]),
            Rule { names: vec!["x".into()], ..rule(&["delete"], "", &["secrets"]) },
        ]);
        let may = |verb: &str, group: &str, resource: &str, sub, name| {
            access.allows(verb, group, resource, sub, name, None) == Some(true)
        };
        assert!(may("get", "", "pods", Some("log"), None));
        assert!(!may("get", "", "pods", Some("exec"), None) && !may("get", "", "pods", None, None));
        assert!(may("deletecollection", "apps", "deployments", None, None));
        // a resource without its subresource does not cover it
        assert!(!may("get", "apps", "deployments", Some("scale"), None));
        assert!(may("delete", "", "secrets", None, Some("x")));
        assert!(!may("delete", "", "secrets", None, Some("y")) && !may("delete", "", "secrets", None, None));
    }

    #[test]
    fn what_is_lacking_is_named_verb_by_verb() {
        let access = Access::unknown().with_cluster(vec![
            rule(&["get", "list"], "", &["pods"]),
            Rule::of(&json!({ "verbs": ["get"], "nonResourceURLs": ["/metrics/*"] })),
        ]);
        let granted = [
            rule(&["get", "create", "delete"], "", &["pods"]),
            Rule::of(&json!({ "verbs": ["get", "post"], "nonResourceURLs": ["/metrics/a"] })),
        ];
        let lacking: Vec<String> =
            access.lacks(&granted, None).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(lacking, ["create,delete pods", "post /metrics/a"]);
        // only a wildcard covers a wildcard
        assert_eq!(access.lacks(&[rule(&["get"], "*", &["pods"])], None).unwrap().len(), 1);
        let all = Access::unknown().with_cluster(vec![rule(&["*"], "*", &["*"])]);
        assert_eq!(all.lacks(&[rule(&["*"], "*", &["*"])], None).unwrap(), []);
    }
}
