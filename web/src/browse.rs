//! Selection of packages in the catalog: facets with counts, order and pages. Decisions only, no HTML.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BTreeMap, BTreeSet},
};

use crate::links::encode;

/// Number of packages on a page.
pub(crate) const PAGE: usize = 60;

/// Maximum number of selected values; more are ignored.
const SELECTED: usize = 50;

/// A property that packages are filtered by. Values of one facet are alternatives; facets restrict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Facet {
    Category,
    State,
    Source,
    Capability,
    Provider,
}

impl Facet {
    /// In the order of the page.
    pub(crate) const ALL: [Self; 5] =
        [Self::Category, Self::State, Self::Source, Self::Capability, Self::Provider];

    /// Name of the field in the query.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Category => "category",
            Self::State => "state",
            Self::Source => "source",
            Self::Capability => "capability",
            Self::Provider => "provider",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Name,
    /// By the date of the version that is installed by default.
    Newest,
    /// Highest level first.
    Capability,
}

impl Sort {
    pub(crate) const ALL: [Self; 3] = [Self::Name, Self::Newest, Self::Capability];

    /// Value of `sort` in the query.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Newest => "newest",
            Self::Capability => "capability",
        }
    }
}

/// The query of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) text: String,
    values: BTreeSet<(Facet, String)>,
    /// Absent for the default: by relevance with a search text, otherwise by name.
    pub(crate) sort: Option<Sort>,
    /// From 1; 0 is the first page as well.
    page: usize,
}

impl Selection {
    pub(crate) fn parse(query: &[u8]) -> Self {
        let mut out = Self::default();
        for (key, value) in form_urlencoded::parse(query) {
            let value = value.trim();
            match key.as_ref() {
                "q" => out.text = value.to_owned(),
                "sort" => out.sort = Sort::ALL.into_iter().find(|sort| sort.key() == value),
                "page" => out.page = value.parse().unwrap_or_default(),
                key => {
                    let facet = Facet::ALL.into_iter().find(|facet| facet.key() == key);
                    if let Some(facet) = facet.filter(|_| !value.is_empty() && out.values.len() < SELECTED) {
                        out.values.insert((facet, value.to_owned()));
                    }
                }
            }
        }
        out
    }

    /// The selected values, without the search text.
    pub(crate) fn values(&self) -> impl Iterator<Item = (Facet, &str)> {
        self.values.iter().map(|(facet, value)| (*facet, value.as_str()))
    }

    pub(crate) fn of(&self, facet: Facet) -> impl Iterator<Item = &str> {
        self.values().filter(move |(other, _)| *other == facet).map(|(_, value)| value)
    }

    pub(crate) fn has(&self, facet: Facet, value: &str) -> bool {
        self.of(facet).any(|selected| selected == value)
    }

    /// Whether anything restricts the list.
    pub(crate) fn is_restricted(&self) -> bool {
        !self.text.is_empty() || !self.values.is_empty()
    }

    /// The first page with a value selected, or without it where it is selected.
    pub(crate) fn toggled(&self, facet: Facet, value: &str) -> Self {
        let mut out = Self { page: 0, ..self.clone() };
        let value = (facet, value.to_owned());
        if !out.values.remove(&value) {
            out.values.insert(value);
        }
        out
    }

    pub(crate) fn without_text(&self) -> Self {
        Self { text: String::new(), page: 0, ..self.clone() }
    }

    pub(crate) fn sorted(&self, sort: Option<Sort>) -> Self {
        Self { sort, page: 0, ..self.clone() }
    }

    pub(crate) fn on_page(&self, page: usize) -> Self {
        Self { page, ..self.clone() }
    }

    /// Fields of the query, without the search text and the page: a new search keeps them.
    pub(crate) fn kept(&self) -> Vec<(&'static str, String)> {
        let sort = self.sort.map(|sort| ("sort", sort.key().to_owned()));
        self.values().map(|(facet, value)| (facet.key(), value.to_owned())).chain(sort).collect()
    }

    pub(crate) fn href(&self) -> String {
        let mut fields = self.kept();
        if !self.text.is_empty() {
            fields.insert(0, ("q", self.text.clone()));
        }
        if self.page > 1 {
            fields.push(("page", self.page.to_string()));
        }
        let pairs: Vec<String> =
            fields.iter().map(|(key, value)| format!("{key}={}", encode(value))).collect();
        if pairs.is_empty() { "/catalog".to_owned() } else { format!("/catalog?{}", pairs.join("&")) }
    }
}

/// A package that matches the search text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) values: BTreeMap<Facet, Vec<String>>,
    /// Relevance for the search text.
    pub(crate) score: u32,
    /// 0 for installed packages, 1 for featured ones, 2 for others.
    pub(crate) rank: u8,
    /// Capability level, from 1; 0 for an unknown one.
    pub(crate) level: usize,
    /// Date of the version that is installed by default: `2026-11-21…`, or anything else for an unknown one.
    pub(crate) created: String,
    pub(crate) deprecated: bool,
}

impl Item {
    fn values(&self, facet: Facet) -> &[String] {
        self.values.get(&facet).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether it matches the selected values of all facets, or of all but one.
    fn matches(&self, selection: &Selection, except: Option<Facet>) -> bool {
        Facet::ALL.into_iter().filter(|facet| Some(*facet) != except).all(|facet| {
            let mut selected = selection.of(facet).peekable();
            selected.peek().is_none() || selected.any(|value| self.values(facet).iter().any(|v| v == value))
        })
    }

    /// The date, if it is one.
    fn date(&self) -> &str {
        let date = self.created.get(..10).unwrap_or_default();
        let is_date = date.bytes().enumerate().all(|(i, byte)| match i {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
        if is_date { date } else { "" }
    }
}

/// A value of a facet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) value: String,
    /// Number of packages with the value, given the selected values of the other facets.
    pub(crate) count: usize,
}

/// The selected packages.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Values of each facet, most frequent first; selected values are never omitted.
    pub(crate) counts: Vec<(Facet, Vec<Count>)>,
    /// Positions in the list of items, of this page only.
    pub(crate) shown: Vec<usize>,
    pub(crate) total: usize,
    /// From 1.
    pub(crate) page: usize,
    pub(crate) pages: usize,
}

pub(crate) fn select(items: &[Item], selection: &Selection) -> Outcome {
    let mut found: Vec<usize> = (0..items.len()).filter(|i| items[*i].matches(selection, None)).collect();
    found.sort_by(|a, b| order(&items[*a], &items[*b], selection));
    let total = found.len();
    let pages = total.div_ceil(PAGE).max(1);
    let page = selection.page.clamp(1, pages);
    Outcome {
        counts: Facet::ALL.into_iter().map(|facet| (facet, counts(items, selection, facet))).collect(),
        shown: found.into_iter().skip((page - 1) * PAGE).take(PAGE).collect(),
        total,
        page,
        pages,
    }
}

fn order(a: &Item, b: &Item, selection: &Selection) -> Ordering {
    let by_name = || {
        let key = |item: &Item| (item.deprecated, item.name.to_lowercase());
        key(a).cmp(&key(b))
    };
    if !selection.text.is_empty() && selection.sort.is_none() {
        return b.score.cmp(&a.score).then_with(by_name);
    }
    // The results of a search have one order.
    let first = if selection.text.is_empty() { a.rank.cmp(&b.rank) } else { Ordering::Equal };
    let chosen = match selection.sort.unwrap_or(Sort::Name) {
        Sort::Name => Ordering::Equal,
        Sort::Newest => b.date().cmp(a.date()),
        Sort::Capability => b.level.cmp(&a.level),
    };
    first.then(chosen).then_with(by_name)
}

fn counts(items: &[Item], selection: &Selection, facet: Facet) -> Vec<Count> {
    let mut counts: BTreeMap<&str, usize> = selection.of(facet).map(|value| (value, 0)).collect();
    for item in items.iter().filter(|item| item.matches(selection, Some(facet))) {
        // A value that a package has twice counts once.
        let values: BTreeSet<&str> = item.values(facet).iter().map(String::as_str).collect();
        for value in values {
            *counts.entry(value).or_default() += 1;
        }
    }
    let mut counts: Vec<Count> =
        counts.into_iter().map(|(value, count)| Count { value: value.to_owned(), count }).collect();
    counts.sort_by_key(|one| Reverse(one.count));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str, category: &str, provider: &str) -> Item {
        let values = [
            (Facet::Category, category.split(',').map(str::to_owned).collect()),
            (Facet::Provider, vec![provider.to_owned()]),
        ];
        Item { name: name.to_owned(), values: values.into(), rank: 2, ..Item::default() }
    }

    fn items() -> Vec<Item> {
        vec![
            item("etcd", "Database,Storage", "a"),
            item("postgres", "Database", "b"),
            item("minio", "Storage", "b"),
            item("kiali", "Monitoring", "c"),
        ]
    }

    fn names(items: &[Item], query: &str) -> Vec<String> {
        let outcome = select(items, &Selection::parse(query.as_bytes()));
        outcome.shown.iter().map(|i| items[*i].name.clone()).collect()
    }

    fn count(items: &[Item], query: &str, facet: Facet) -> Vec<(String, usize)> {
        let outcome = select(items, &Selection::parse(query.as_bytes()));
        let (_, counts) = outcome.counts.into_iter().find(|(of, _)| *of == facet).unwrap();
        counts.into_iter().map(|one| (one.value, one.count)).collect()
    }

    #[test]
    fn values_of_a_facet_are_alternatives_and_facets_restrict_each_other() {
        let items = items();
        assert_eq!(names(&items, ""), ["etcd", "kiali", "minio", "postgres"]);
        assert_eq!(names(&items, "category=Database"), ["etcd", "postgres"]);
        assert_eq!(names(&items, "category=Database&category=Monitoring"), ["etcd", "kiali", "postgres"]);
        assert_eq!(names(&items, "category=Database&provider=b"), ["postgres"]);
        assert_eq!(names(&items, "category=nothing"), [""; 0]);
    }

    #[test]
    fn counts_follow_the_other_facets() {
        let items = items();
        let of = |list: &[(&str, usize)]| list.iter().map(|(v, n)| ((*v).to_owned(), *n)).collect::<Vec<_>>();
        assert_eq!(
            count(&items, "", Facet::Category),
            of(&[("Database", 2), ("Storage", 2), ("Monitoring", 1)])
        );
        // the own selection does not change the counts of a facet
        assert_eq!(
            count(&items, "category=Monitoring", Facet::Category),
            of(&[("Database", 2), ("Storage", 2), ("Monitoring", 1)])
        );
        assert_eq!(count(&items, "provider=b", Facet::Category), of(&[("Database", 1), ("Storage", 1)]));
        // a selected value remains, so that it can be removed
        assert_eq!(
            count(&items, "provider=c&category=Storage", Facet::Category),
            of(&[("Monitoring", 1), ("Storage", 0)])
        );
    }

    #[test]
    fn each_order_has_installed_and_featured_packages_first() {
        let mut items = items();
        for (item, (created, level)) in items.iter_mut().zip([
            ("2019-11-15 12:00:00", 3),
            ("2026-01-02T00:00:00Z", 5),
            ("soon", 1),
            ("2025-05-05", 4),
        ]) {
            item.created = created.into();
            item.level = level;
        }
        assert_eq!(names(&items, "sort=newest"), ["postgres", "kiali", "etcd", "minio"]);
        assert_eq!(names(&items, "sort=capability"), ["postgres", "kiali", "etcd", "minio"]);
        items[2].rank = 0;
        items[0].rank = 1;
        items[1].deprecated = true;
        items[3].name = "Zipkin".into();
        assert_eq!(names(&items, ""), ["minio", "etcd", "Zipkin", "postgres"]);
        assert_eq!(names(&items, "sort=newest"), ["minio", "etcd", "postgres", "Zipkin"]);
        // with a search text the order is that of the search
        items[1].score = 9;
        items[3].score = 7;
        assert_eq!(names(&items, "q=x"), ["postgres", "Zipkin", "etcd", "minio"]);
        assert_eq!(names(&items, "q=x&sort=name"), ["etcd", "minio", "Zipkin", "postgres"]);
    }

    #[test]
    fn pages_have_sixty_packages_and_no_page_is_missing() {
        let items: Vec<Item> = (0..130).map(|i| item(&format!("p{i:03}"), "x", "y")).collect();
        let page = |query: &str| {
            let outcome = select(&items, &Selection::parse(query.as_bytes()));
            (outcome.page, outcome.pages, outcome.shown.len(), outcome.shown[0])
        };
        assert_eq!(page(""), (1, 3, 60, 0));
        assert_eq!(page("page=3"), (3, 3, 10, 120));
        assert_eq!([page("page=99"), page("page=0"), page("page=-1")], [page("page=3"), page(""), page("")]);
        let none = select(&[], &Selection::default());
        assert_eq!((none.total, none.page, none.pages), (0, 1, 1));
    }

    #[test]
    fn the_query_of_a_link_is_read_back() {
        let selection = Selection::parse(
            b"q=a+b%26c&category=Integration+%26+Delivery&sort=newest&page=2&unknown=x&provider=",
        );
        assert_eq!(
            selection.href(),
            "/catalog?q=a%20b%26c&category=Integration%20%26%20Delivery&sort=newest&page=2"
        );
        let query =
            |of: &Selection| of.href().split_once('?').map(|(_, query)| query.to_owned()).unwrap_or_default();
        assert_eq!(Selection::parse(query(&selection).as_bytes()), selection);
        // a change leads to the first page
        let other = selection.toggled(Facet::State, "installed");
        assert!(other.has(Facet::State, "installed") && !other.href().contains("page="));
        assert_eq!(other.toggled(Facet::State, "installed"), selection.on_page(0));
        assert_eq!(
            selection.without_text().sorted(None).toggled(Facet::Category, "Integration & Delivery").href(),
            "/catalog"
        );
        let many: String = (0..200).map(|i| format!("provider={i}&")).collect();
        assert_eq!(Selection::parse(many.as_bytes()).values().count(), SELECTED);
    }
}
