//! Explanation of a failed resolution.

use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::text;

/// Explanation of a failed resolution: a tree from the request down to facts that a user can change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The main cause.
    pub code: Code,
    /// The cause in one sentence.
    pub summary: String,
    /// One node per request that cannot be met.
    pub nodes: Vec<Node>,
    /// Possible fixes, best first.
    pub fixes: Vec<Fix>,
    /// Known names close to an unknown one.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub nearest: Vec<String>,
}

/// One fact of the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// A Subscription, a bundle, an API.
    pub subject: String,
    pub code: Code,
    pub text: String,
    /// Its causes.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub children: Vec<Node>,
}

impl Node {
    /// The subject without its kind: `ns/name` of `Subscription ns/name`.
    fn subject_name(&self) -> &str {
        self.subject.rsplit_once(' ').map_or(&self.subject, |(_, name)| name)
    }

    /// A node without further causes.
    pub fn leaf(subject: impl Into<String>, code: Code, text: impl Into<String>) -> Self {
        Self { subject: subject.into(), code, text: text.into(), children: Vec::new() }
    }
}

/// A possible fix.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fix {
    pub text: String,
    pub command: String,
}

/// Beginnings of the commands that change a Subscription.
const CHANGES: [&str; 4] = ["kubectl patch subscription ", "olm set-channel ", "olm skip ", "olm unpin "];

impl Fix {
    /// Whether the command changes an existing Subscription.
    #[must_use]
    pub fn changes_subscription(&self) -> bool {
        CHANGES.iter().any(|start| self.command.starts_with(start))
    }

    /// Whether the command needs a cluster, as opposed to a catalog.
    #[must_use]
    pub fn needs_cluster(&self) -> bool {
        let others = ["kubectl ", "olm catalog sources", "olm install "];
        self.changes_subscription() || others.iter().any(|start| self.command.starts_with(start))
    }

    /// Adds it without duplicates.
    pub(crate) fn add_to(&self, fixes: &mut Vec<Fix>) {
        if !fixes.contains(self) {
            fixes.push(self.clone());
        }
    }
}

/// The longest condition message, in characters.
const MESSAGE: usize = 1000;

impl Explanation {
    /// The tree as text, at most `width` columns wide where words allow. Commands are never broken.
    pub fn text(&self, width: usize) -> String {
        let mut out = text::wrapped("", "", &self.summary, width);
        // a tree that only repeats the summary is omitted
        let flat = matches!(self.nodes.as_slice(), [only] if only.children.is_empty());
        if !flat && !self.nodes.is_empty() {
            out.push('\n');
        }
        for node in self.nodes.iter().filter(|_| !flat) {
            text::node(&mut out, node, width);
        }
        if !self.fixes.is_empty() {
            out.push('\n');
        }
        for fix in &self.fixes {
            text::fix(&mut out, fix, width);
        }
        out
    }

    /// The summary with the first causes, for errors: the summary alone does not explain them.
    pub fn with_causes(&self) -> String {
        let mut message = self.summary.clone();
        let mut level = self.nodes.iter().flat_map(|n| &n.children).take(3).collect::<Vec<_>>();
        if level.is_empty() && self.nodes.len() > 1 {
            // a conflict has no tree: its shared objects follow the requests, which the summary names
            level = self.nodes.iter().filter(|n| !self.summary.contains(n.subject_name())).take(3).collect();
        }
        while let Some(first) = level.first().copied() {
            for node in &level {
                message.push_str(&format!("; {}: {} ({})", node.subject, node.text, node.code));
            }
            level = first.children.iter().take(1).collect();
        }
        message
    }

    /// One paragraph for a condition: the summary, the first causes, the first fix. Never longer than 1,000
    /// characters.
    pub fn condition_message(&self) -> String {
        let mut message = self.with_causes();
        if let Some(fix) = self.fixes.first() {
            message.push_str(&format!("; hint: {}: {}", fix.text, fix.command));
        }
        if message.chars().count() > MESSAGE {
            message = message.chars().take(MESSAGE - 3).collect::<String>() + "...";
        }
        message
    }
}

impl std::fmt::Display for Explanation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.summary)
    }
}

impl std::error::Error for Explanation {}
