//! Change of the operator's rights.

use std::collections::BTreeMap;

use olm_bundle::Rendered;
use olm_bundle::permissions::{Level, PermissionRule, Rights, percentile, score};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Change of the permissions of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionDelta {
    /// Added permissions.
    pub added: Vec<PermissionRule>,
    /// Removed permissions.
    pub removed: Vec<PermissionRule>,
    /// Unchanged permissions.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub unchanged: Vec<PermissionRule>,
    /// Number of rules of the new version by level.
    pub summary: BTreeMap<Level, usize>,
    /// Score of all permissions of the new version, for comparison only.
    #[serde(default)]
    pub score: u32,
    /// Percentage of operators of the catalog with a lower score.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub percentile: Option<u8>,
    /// The basis of the percentile, or why it is absent.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub compared: String,
}

/// Risk scores of the operators of a catalog, as far as the catalog contains their manifests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogRisk {
    /// The known scores of channel heads.
    pub scores: Vec<u32>,
    /// Number of packages in the catalog.
    pub packages: usize,
}

impl CatalogRisk {
    /// From a catalog's index, without opening packages.
    pub fn of(catalog: &olm_catalog::Catalog) -> Self {
        let mut risk = Self::default();
        for summary in catalog.summaries() {
            risk.packages += 1;
            risk.scores.extend(summary.risk);
        }
        risk
    }
}

/// Minimum number of operators for a meaningful comparison.
const FEWEST: usize = 10;

/// The change of rights between two versions; without a previous one all rights are new.
pub(crate) fn delta(previous: Option<&Rendered>, new: Option<&Rendered>) -> PermissionDelta {
    fn rights(rendered: Option<&Rendered>) -> Rights<'_> {
        rendered.map(|r| Rights::of(r.objects().map(|(_, object)| object))).unwrap_or_default()
    }
    let (before, after) = (rights(previous), rights(new));
    let mut summary = BTreeMap::from([(Level::High, 0), (Level::Med, 0), (Level::Low, 0)]);
    let all = after.rules();
    for rule in &all {
        *summary.entry(rule.level).or_insert(0) += 1;
    }
    let score = score(&all);
    let (added, unchanged) =
        if previous.is_some() { (after.beyond(&before), after.shared(&before)) } else { (all, Vec::new()) };
    let removed = before.beyond(&after);
    PermissionDelta { added, removed, unchanged, summary, score, percentile: None, compared: String::new() }
}

impl PermissionDelta {
    /// Adds the percentile within the catalog.
    pub(crate) fn among(mut self, catalog: Option<&CatalogRisk>) -> Self {
        (self.percentile, self.compared) = match catalog {
            None => (None, "no data about other operators of the catalog".to_owned()),
            Some(catalog) => compare(self.score, catalog),
        };
        self
    }
}

fn compare(score: u32, catalog: &CatalogRisk) -> (Option<u8>, String) {
    let CatalogRisk { scores, packages } = catalog;
    if scores.len() < FEWEST {
        let text = format!(
            "the catalog contains the manifests of {} of its {packages} operators, too few for a comparison",
            scores.len()
        );
        return (None, text);
    }
    let text = format!("compared with {} of the catalog's {packages} operators", scores.len());
    (percentile(score, scores), text)
}

#[cfg(test)]
mod tests {
    use olm_bundle::Phase;
    use serde_json::{Value, json};

    use super::*;

    fn rendered(rules: Value) -> Rendered {
        let objects = vec![
            json!({ "kind": "ClusterRole", "metadata": { "name": "r" }, "rules": rules }),
            json!({ "kind": "ClusterRoleBinding", "metadata": { "name": "b" },
                    "roleRef": { "kind": "ClusterRole", "name": "r" } }),
        ];
        let objects = objects.into_iter().map(Into::into).collect();
        Rendered { phases: vec![(Phase::Rbac, objects)], ..Rendered::default() }
    }

    fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
        json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs })
    }

    #[test]
    fn upgrades_show_what_is_new() {
        // given a version that may read pods, and the next that may also patch nodes
        let old = rendered(json!([rule("", "pods", &["get", "list"])]));
        let new = rendered(json!([rule("", "pods", &["get"]), rule("", "nodes", &["patch"])]));
        let delta = delta(Some(&old), Some(&new));
        let rules =
            |list: &[PermissionRule]| list.iter().map(|r| (r.rule.clone(), r.level)).collect::<Vec<_>>();
        assert_eq!(rules(&delta.added), [("patch nodes".to_owned(), Level::High)]);
        assert_eq!(rules(&delta.removed), [("list pods".to_owned(), Level::Low)]);
        assert_eq!(rules(&delta.unchanged), [("get pods".to_owned(), Level::Low)]);
        assert_eq!((delta.summary[&Level::High], delta.summary[&Level::Low]), (1, 1));
    }

    #[test]
    fn the_place_in_the_catalog_is_reported_or_why_it_is_unknown() {
        let new = rendered(json!([rule("", "nodes", &["patch"])]));
        // a catalog of images has no information about rights
        let few = CatalogRisk { scores: vec![], packages: 300 };
        let unknown = delta(None, Some(&new)).among(Some(&few));
        assert_eq!(unknown.percentile, None);
        assert!(unknown.compared.contains("0 of its 300"), "{}", unknown.compared);
        // one with manifests has: nine of ten have a lower score
        let scores: Vec<u32> = (0..9).map(|n| n * 1_000).chain([990_000]).collect();
        let known = delta(None, Some(&new)).among(Some(&CatalogRisk { scores, packages: 12 }));
        assert_eq!((known.percentile, known.score), (Some(90), 10_000));
    }
}
