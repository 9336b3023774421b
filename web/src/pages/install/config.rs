//! The settings of the operator's Deployments as the form has them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::posted::Fields;

/// Fields for quantities, named as their settings.
pub(super) const RESOURCES: [(&str, &str); 4] = [
    ("resources.requests.cpu", "CPU request"),
    ("resources.requests.memory", "Memory request"),
    ("resources.limits.cpu", "CPU limit"),
    ("resources.limits.memory", "Memory limit"),
];

/// Fields with one setting a line, and the beginning of each setting.
const LISTS: [(&str, &str); 3] =
    [("env", "env."), ("node-selector", "nodeSelector."), ("toleration", "toleration=")];

/// The text of each field.
#[derive(Default)]
pub(super) struct ConfigForm(BTreeMap<&'static str, String>);

impl ConfigForm {
    pub(super) fn read(fields: &Fields) -> Self {
        let names = LISTS.iter().chain(&RESOURCES).map(|(name, _)| *name);
        Self(names.filter_map(|name| Some((name, fields.text(name)?.to_owned()))).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// The settings as the command line takes them, each with its field.
    pub(super) fn assignments(&self) -> Vec<(&'static str, String)> {
        let mut out = Vec::new();
        for (name, start) in LISTS {
            let lines = self.text(name).lines().map(str::trim).filter(|line| !line.is_empty());
            out.extend(lines.map(|line| (name, format!("{start}{line}"))));
        }
        let set = RESOURCES.iter().filter(|(name, _)| !self.text(name).is_empty());
        out.extend(set.map(|(name, _)| (*name, format!("{name}={}", self.text(name)))));
        out
    }

    /// The first problem of each field.
    pub(super) fn problems(&self) -> BTreeMap<&'static str, String> {
        let mut out = BTreeMap::new();
        for (name, assignment) in self.assignments() {
            if let Err(why) = olm_ops::parse_config(&[assignment]) {
                out.entry(name).or_insert(why);
            }
        }
        out
    }

    /// `spec.config` of the Subscription; without one where a setting is invalid.
    pub(super) fn value(&self) -> Option<Value> {
        let assignments: Vec<String> = self.assignments().into_iter().map(|(_, text)| text).collect();
        olm_ops::parse_config(&assignments).ok().flatten()
    }
}
