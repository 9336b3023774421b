//! Filter and order of installed operators. Decisions only, no HTML.

use olm_ops::{Installed, Status};

use crate::links::encode;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// Worst first.
    Status,
    Name,
    Namespace,
    /// Newest first.
    Age,
}

impl Sort {
    const ALL: [Self; 4] = [Self::Status, Self::Name, Self::Namespace, Self::Age];

    fn key(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Name => "name",
            Self::Namespace => "namespace",
            Self::Age => "age",
        }
    }
}

/// The query of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Part of the name, the package, the namespace or the reason.
    pub(crate) text: String,
    /// All namespaces when empty.
    pub(crate) namespace: String,
    /// The key of a status; all when empty.
    pub(crate) status: String,
    pub(crate) sort: Sort,
    pub(crate) descending: bool,
}

impl Default for Filter {
    fn default() -> Self {
        let none = String::new;
        Self { text: none(), namespace: none(), status: none(), sort: Sort::Status, descending: false }
    }
}

/// The value of a status in the query.
pub(crate) fn status_key(status: Status) -> String {
    status.word().to_lowercase().replace(' ', "-")
}

/// Whether a status is that of a pending plan or of an available upgrade.
pub(crate) fn has_update(status: Status) -> bool {
    matches!(status, Status::NeedsApproval | Status::UpdateAvailable)
}

/// The number of operators with a pending plan or an available upgrade.
pub(crate) fn count_updates(installed: &[Installed]) -> usize {
    installed.iter().filter(|one| has_update(one.status)).count()
}

impl Filter {
    pub(crate) fn parse(query: &[u8]) -> Self {
        let mut out = Self::default();
        for (key, value) in form_urlencoded::parse(query) {
            let value = value.trim();
            match key.as_ref() {
                "q" => out.text = value.to_owned(),
                "namespace" => out.namespace = value.to_owned(),
                "status" => out.status = value.to_owned(),
                "sort" => {
                    let name = value.strip_prefix('-').unwrap_or(value);
                    if let Some(sort) = Sort::ALL.into_iter().find(|sort| sort.key() == name) {
                        (out.sort, out.descending) = (sort, name.len() < value.len());
                    }
                }
                _ => {}
            }
        }
        out
    }

    pub(crate) fn is_restricted(&self) -> bool {
        [&self.text, &self.namespace, &self.status].iter().any(|value| !value.is_empty())
    }

    /// Sorted by a column; a second time in the opposite order.
    pub(crate) fn sorted(&self, sort: Sort) -> Self {
        let descending = self.sort == sort && !self.descending;
        Self { sort, descending, ..self.clone() }
    }

    /// The value of `sort` in the query; `None` for the default order.
    pub(crate) fn sort_value(&self) -> Option<String> {
        let value = format!("{}{}", if self.descending { "-" } else { "" }, self.sort.key());
        (value != "status").then_some(value)
    }

    /// The query without `?`; empty for the default.
    pub(crate) fn query(&self) -> String {
        let fields = [("q", &self.text), ("namespace", &self.namespace), ("status", &self.status)];
        let fields = fields.into_iter().filter(|(_, value)| !value.is_empty());
        let pairs = fields.map(|(key, value)| format!("{key}={}", encode(value)));
        let pairs: Vec<String> = pairs.chain(self.sort_value().map(|sort| format!("sort={sort}"))).collect();
        pairs.join("&")
    }

    pub(crate) fn href(&self) -> String {
        let query = self.query();
        if query.is_empty() { "/installed".to_owned() } else { format!("/installed?{query}") }
    }

    /// The operators that match, in order. `list` is sorted by urgency.
    pub(crate) fn select<'a>(&self, list: &'a [Installed]) -> Vec<&'a Installed> {
        let mut found: Vec<&Installed> = list.iter().filter(|one| self.matches(one)).collect();
        match self.sort {
            Sort::Status => {}
            Sort::Name => found.sort_by_cached_key(|one| name(one).to_lowercase()),
            Sort::Namespace => found.sort_by(|a, b| a.namespace.cmp(&b.namespace)),
            Sort::Age => found.sort_by(|a, b| b.created.cmp(&a.created)),
        }
        if self.descending {
            found.reverse();
        }
        found
    }

    fn matches(&self, one: &Installed) -> bool {
        let text = [name(one), &one.package, &one.namespace, &one.reason].join(" ").to_lowercase();
        (self.namespace.is_empty() || one.namespace == self.namespace)
            && (self.status.is_empty() || status_key(one.status) == self.status)
            && self.text.to_lowercase().split_whitespace().all(|word| text.contains(word))
    }
}

fn name(one: &Installed) -> &str {
    if one.display_name.is_empty() { &one.package } else { &one.display_name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, namespace: &str, status: Status, created: &str) -> Installed {
        Installed {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            package: name.to_owned(),
            display_name: String::new(),
            status,
            reason: String::new(),
            version: None,
            csv: None,
            next: None,
            available: None,
            channel: None,
            catalog: None,
            approval: "Automatic".to_owned(),
            plan: None,
            plan_digest: None,
            paused: false,
            planned: None,
            review: None,
            watches: Vec::new(),
            skip_versions: Vec::new(),
            deprecations: Vec::new(),
            created: Some(created.to_owned()),
        }
    }

    fn list() -> Vec<Installed> {
        vec![
            one("kiali", "mesh", Status::Failed, "2026-01-03T00:00:00Z"),
            one("etcd", "data", Status::NeedsApproval, "2026-01-01T00:00:00Z"),
            one("minio", "data", Status::Healthy, "2026-01-02T00:00:00Z"),
        ]
    }

    fn names(query: &str) -> Vec<String> {
        let list = list();
        Filter::parse(query.as_bytes()).select(&list).iter().map(|one| one.name.clone()).collect()
    }

    #[test]
    fn operators_are_filtered_by_namespace_status_and_text() {
        assert_eq!(names("installed"), ["kiali", "etcd", "minio"]);
        assert_eq!(names("namespace=data"), ["etcd", "minio"]);
        assert_eq!(names("status=needs-approval"), ["etcd"]);
        assert_eq!(names("q=+DATA+min"), ["minio"]);
        assert_eq!(names("namespace=mesh&status=healthy"), [""; 0]);
    }

    #[test]
    fn columns_sort_in_both_orders() {
        assert_eq!(names("sort=name"), ["etcd", "kiali", "minio"]);
        assert_eq!(names("sort=-name"), ["minio", "kiali", "etcd"]);
        assert_eq!(names("sort=namespace"), ["etcd", "minio", "kiali"]);
        assert_eq!(names("sort=age"), ["kiali", "minio", "etcd"]);
        assert_eq!(names("sort=-status"), ["minio", "etcd", "kiali"]);
        assert_eq!(names("sort=other"), names(""));
    }

    #[test]
    fn the_query_of_a_link_is_read_back() {
        let filter = Filter::parse(b"q=a+b&namespace=data&status=healthy&sort=-age");
        assert_eq!(filter.href(), "/installed?q=a%20b&namespace=data&status=healthy&sort=-age");
        assert_eq!(Filter::parse(filter.query().as_bytes()), filter);
        assert_eq!(filter.sorted(Sort::Age).sort_value().as_deref(), Some("age"));
        assert_eq!(Filter::default().href(), "/installed");
        assert_eq!(Filter::default().sorted(Sort::Name).sorted(Sort::Name).query(), "sort=-name");
    }
}
