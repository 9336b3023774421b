//! Search for packages.

use std::collections::BTreeSet;

use crate::group::Group;
use crate::summary::Summary;

/// A package that matches a search.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Hit {
    pub package: String,
    /// Higher matches better.
    pub score: u32,
    /// The matching text, for users: `name`, `provides EtcdCluster`, `keyword database`.
    pub why: String,
}

/// Search texts of packages, in lower case; computed once per catalog.
#[derive(Debug, Default)]
pub(crate) struct SearchIndex {
    packages: Vec<Indexed>,
}

#[derive(Debug)]
struct Indexed {
    name: String,
    display_name: String,
    provider: String,
    keywords: Vec<String>,
    categories: Vec<String>,
    /// Kinds as written, and in lower case.
    kinds: Vec<(String, String)>,
    capability: String,
    text: String,
}

impl SearchIndex {
    pub fn of<'a>(groups: impl Iterator<Item = &'a Group>) -> Self {
        Self { packages: groups.filter_map(Indexed::of).collect() }
    }

    /// See [`Catalog::search`](crate::Catalog::search).
    pub fn search(&self, text: &str) -> Vec<Hit> {
        let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
        let mut hits: Vec<Hit> = self.packages.iter().filter_map(|package| package.fit(&words)).collect();
        hits.sort_by(|a, b| b.score.cmp(&a.score).then_with(|| a.package.cmp(&b.package)));
        hits
    }
}

impl Indexed {
    fn of(group: &Group) -> Option<Self> {
        let Summary { name, display_name, provider, keywords, categories, head, provides, .. } =
            group.summary.as_ref()?;
        let small = |words: &[String]| words.iter().map(|word| word.to_lowercase()).collect();
        let mut kinds: Vec<&String> = head.iter().flat_map(|head| &head.kinds).collect();
        kinds.extend(provides.iter().map(|gvk| &gvk.kind));
        kinds.sort();
        kinds.dedup();
        Some(Self {
            name: name.clone(),
            display_name: display_name.to_lowercase(),
            provider: provider.to_lowercase(),
            keywords: small(keywords),
            categories: small(categories),
            kinds: kinds.into_iter().map(|kind| (kind.to_lowercase(), kind.clone())).collect(),
            capability: group.summary.as_ref()?.capability.to_lowercase(),
            text: group.words.clone(),
        })
    }

    fn fit(&self, words: &[String]) -> Option<Hit> {
        let mut score = 0;
        let mut best: (u32, String) = (0, String::new());
        for word in words {
            let fit = self.match_word(word)?;
            score += fit.0;
            if fit.0 > best.0 {
                best = fit;
            }
        }
        Some(Hit { package: self.name.clone(), score, why: best.1 })
    }

    fn match_word(&self, word: &str) -> Option<(u32, String)> {
        let mut fits: Vec<(u32, String)> = Vec::new();
        fits.extend(closeness(word, &self.name).map(|fit| (fit * 10, "name".to_owned())));
        fits.extend(closeness(word, &self.display_name).map(|fit| (fit * 9, "display name".to_owned())));
        for (small, kind) in &self.kinds {
            fits.extend(closeness(word, small).map(|fit| (fit * 8, format!("provides {kind}"))));
        }
        for keyword in &self.keywords {
            fits.extend(closeness(word, keyword).map(|fit| (fit * 6, format!("keyword {keyword}"))));
        }
        for category in &self.categories {
            fits.extend(closeness(word, category).map(|fit| (fit * 4, format!("category {category}"))));
        }
        fits.extend(closeness(word, &self.provider).map(|fit| (fit * 3, "provider".to_owned())));
        fits.extend(closeness(word, &self.capability).map(|fit| (fit * 2, format!("capability {word}"))));
        if self.text.contains(word) {
            fits.push((5, "description".to_owned()));
        }
        // A word that matches in several places describes the package's main purpose.
        let places: BTreeSet<&str> = fits.iter().filter_map(|(_, why)| why.split(' ').next()).collect();
        let several = 2 * u32::try_from(places.len()).unwrap_or_default();
        fits.into_iter().max_by_key(|(score, _)| *score).map(|(score, why)| (score + several, why))
    }
}

/// 10 for equality, 8 for a prefix, 7 for a word in it, 5 for a part, 4 with a typing error.
fn closeness(word: &str, text: &str) -> Option<u32> {
    if text.is_empty() {
        return None;
    }
    if text == word {
        return Some(10);
    }
    if text.starts_with(word) {
        return Some(8);
    }
    let mut parts = text.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty());
    if parts.clone().any(|part| part == word) {
        return Some(7);
    }
    if text.contains(word) {
        return Some(5);
    }
    let allowed = match word.chars().count() {
        0..=3 => return None,
        4..=7 => 1,
        _ => 2,
    };
    let near = |part: &str| {
        part.len().abs_diff(word.len()) <= allowed && olm_version::distance(word, part) <= allowed
    };
    (near(text) || parts.any(near)).then_some(4)
}

#[cfg(test)]
mod tests {
    use crate::Catalog;

    fn catalog() -> Catalog {
        let package = |name: &str, display: &str, keyword: &str, kind: &str, description: &str| {
            format!(
                "---\n{{schema: olm.package, name: {name}, defaultChannel: c}}\n---\n{{schema: olm.channel, package: {name}, name: c, entries: [{{name: {name}.v1}}]}}\n---\n{{schema: olm.bundle, package: {name}, name: {name}.v1, image: a/b, properties: [{{type: olm.package, value: {{packageName: {name}, version: 1.0.0}}}}, {{type: olm.gvk, value: {{group: g, version: v1, kind: {kind}}}}}, {{type: olm.csv.metadata, value: {{displayName: {display}, keywords: [{keyword}], description: {description}}}}}]}}\n"
            )
        };
        let text = package("etcd", "etcd Operator", "key-value", "EtcdCluster", "a store")
            + &package("redis", "Redis", "database", "RedisCluster", "cache used beside etcd")
            + &package("postgresql", "Postgres", "database", "Cluster", "a database");
        let catalog = Catalog::from_bytes("test", text.as_bytes());
        assert_eq!(catalog.problems, []);
        catalog
    }

    fn found(text: &str) -> Vec<(String, String)> {
        catalog().search(text).into_iter().map(|hit| (hit.package, hit.why)).collect()
    }

    fn pair(package: &str, why: &str) -> (String, String) {
        (package.to_owned(), why.to_owned())
    }

    #[test]
    fn ranked_by_where_it_fits() {
        assert_eq!(found("etcd"), [pair("etcd", "name"), pair("redis", "description")]);
        assert_eq!(found("EtcdCluster")[0], pair("etcd", "provides EtcdCluster"));
        assert_eq!(found("database")[0], pair("postgresql", "keyword database"));
        assert_eq!(found("cluster")[0], pair("postgresql", "provides Cluster"));
        assert_eq!(found("redis cache"), [pair("redis", "name")]);
        assert_eq!(found("").len(), 3);
        assert_eq!(found("nothing-like-it"), []);
    }

    #[test]
    fn typing_errors_are_forgiven() {
        assert_eq!(found("ectd")[0], pair("etcd", "name"));
        assert_eq!(found("postgersql"), [pair("postgresql", "name")]);
    }
}
