//! The selectors of a query: `labelSelector` and `fieldSelector`.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::{Expression, Selector, SelectorExt};

#[derive(Debug, Clone, Default)]
pub(super) struct QuerySelector {
    labels: Selector,
    name: Option<String>,
}

impl QuerySelector {
    /// Parses both selectors.
    ///
    /// # Errors
    /// What is wrong with one, for the client.
    pub(super) fn read(labels: &str, fields: &str) -> Result<Self, String> {
        let name = match fields.split_once('=').map(|(key, value)| (key, value.trim_start_matches('='))) {
            None if fields.is_empty() => None,
            Some(("metadata.name", name)) if !name.contains(',') => Some(name.to_owned()),
            _ => {
                return Err(format!(
                    "field label not supported: {fields}; only metadata.name=NAME can be selected by"
                ));
            }
        };
        Ok(Self { labels: label_selector(labels)?, name })
    }

    /// Whether a package of this name may match, so that others are not read.
    pub(super) fn may_be(&self, name: &str) -> bool {
        self.name.as_deref().is_none_or(|wanted| wanted == name)
    }

    /// Whether a manifest with these labels matches.
    pub(super) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.labels.selects_all() || self.labels.matches(labels)
    }
}

/// `a=b,c!=d,e in (x,y),f notin (z),g,!h`
fn label_selector(text: &str) -> Result<Selector, String> {
    let wrong = |part: &str| format!("unable to parse requirement {part:?} of the label selector {text:?}");
    let mut selector = Selector::default();
    for part in parts(text) {
        let part = part.trim();
        let key = |key: &str| {
            let key = key.trim();
            let valid = !key.is_empty() && !key.contains(char::is_whitespace);
            if valid { Ok(key.to_owned()) } else { Err(wrong(part)) }
        };
        let expression = if let Some((before, set)) = part.split_once('(') {
            let set = set.strip_suffix(')').ok_or_else(|| wrong(part))?;
            let values: BTreeSet<String> = set.split(',').map(|value| value.trim().to_owned()).collect();
            match before.trim_end().rsplit_once(char::is_whitespace) {
                Some((of, "in")) => Expression::In(key(of)?, values),
                Some((of, "notin")) => Expression::NotIn(key(of)?, values),
                _ => return Err(wrong(part)),
            }
        } else if let Some((of, value)) = part.split_once("!=") {
            Expression::NotEqual(key(of)?, value.trim().to_owned())
        } else if let Some((of, value)) = part.split_once('=') {
            Expression::Equal(key(of)?, value.trim_start_matches('=').trim().to_owned())
        } else if let Some(of) = part.strip_prefix('!') {
            Expression::DoesNotExist(key(of)?)
        } else {
            Expression::Exists(key(part)?)
        };
        selector.extend([expression]);
    }
    Ok(selector)
}

/// The requirements of a selector: commas within parentheses separate values.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    let split = text.split(move |c| {
        inside = (inside || c == '(') && c != ')';
        c == ',' && !inside
    });
    split.filter(|part| !part.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_read_as_kubectl_writes_them() {
        let labels: BTreeMap<String, String> =
            [("catalog", "a"), ("tier", "x"), ("on", "")].map(|(k, v)| (k.into(), v.into())).into();
        let cases = [
            ("", true),
            ("catalog=a", true),
            ("catalog==a,tier=x", true),
            ("catalog=b", false),
            ("catalog != b, tier in (x, y)", true),
            ("tier notin (x,y)", false),
            ("none notin (x)", true),
            ("on,!none", true),
            ("none", false),
            ("!on", false),
        ];
        for (text, expected) in cases {
            assert_eq!(QuerySelector::read(text, "").unwrap().matches(&labels), expected, "{text}");
        }
        for text in ["a in x)", "a in (x", "= b", "a b", "in (x)"] {
            assert!(QuerySelector::read(text, "").unwrap_err().contains("label selector"), "{text}");
        }
    }

    #[test]
    fn fields_are_names_alone() {
        let one = QuerySelector::read("", "metadata.name=etcd").unwrap();
        assert!(one.may_be("etcd") && !one.may_be("other"));
        assert!(QuerySelector::read("", "metadata.namespace=a").is_err());
        assert!(QuerySelector::read("", "x").is_err());
    }
}
