//! Permissions in words, with their risk.

use std::collections::BTreeMap;

use maud::{Markup, html};
use olm_plan::{Level, PermissionRule};

use super::parts::{self, Tone, sentence};
use crate::links::clean;

const LEVELS: [Level; 3] = [Level::High, Level::Med, Level::Low];

fn tone(level: Level) -> (Tone, &'static str) {
    match level {
        Level::High => (Tone::Bad, "High"),
        Level::Med => (Tone::Warn, "Medium"),
        Level::Low => (Tone::Plain, "Low"),
    }
}

fn chip(level: Level) -> Markup {
    let (tone, word) = tone(level);
    parts::chip(tone, tone.glyph(), word)
}

fn of_level(rules: &[PermissionRule], level: Level) -> Vec<&PermissionRule> {
    rules.iter().filter(|rule| rule.level == level).collect()
}

/// The number of permissions of each level.
pub(crate) fn counts(rules: &[PermissionRule]) -> Markup {
    let of = |level: Level| rules.iter().filter(|rule| rule.level == level).count();
    html! {
        @if !rules.is_empty() {
            div.counts {
                @for (level, count) in LEVELS.map(|level| (level, of(level))).into_iter().filter(|(_, count)| *count > 0) {
                    @let (tone, word) = tone(level);
                    (parts::chip(tone, tone.glyph(), &format!("{count} {}", word.to_lowercase())))
                }
            }
        }
    }
}

/// All permissions, those of level HIGH first.
pub(crate) fn all(rules: &[PermissionRule]) -> Markup {
    of_levels(rules, &LEVELS)
}

fn of_levels(rules: &[PermissionRule], levels: &[Level]) -> Markup {
    html! { ul.objects { @for level in levels { (items(&of_level(rules, *level))) } } }
}

/// The same with the lower levels folded; `id` distinguishes several lists on one page.
pub(crate) fn high_first(rules: &[PermissionRule], id: &str) -> Markup {
    let high = of_level(rules, Level::High);
    let others = rules.len() - high.len();
    html! {
        @if !high.is_empty() { ul.objects { (items(&high)) } }
        @if others > 0 {
            details.fold id={ (id) "-permissions" } {
                summary { @if high.is_empty() { "All " } @else { "Also " } (parts::plural(others, "permission")) }
                div.body { (of_levels(rules, &[Level::Med, Level::Low])) }
            }
        }
    }
}

/// Permissions of one level; those with the same reason are one item.
fn items(rules: &[&PermissionRule]) -> Markup {
    let mut by_reason: BTreeMap<&str, Vec<&PermissionRule>> = BTreeMap::new();
    for rule in rules {
        by_reason.entry(rule.reason.as_deref().unwrap_or_default()).or_default().push(rule);
    }
    let without = by_reason.remove("").unwrap_or_default();
    html! {
        @for (reason, rules) in by_reason {
            li {
                (chip(rules[0].level))
                span.what {
                    (sentence(&clean(reason)))
                    @for rule in rules { div.small.muted { (line(rule)) } }
                }
            }
        }
        @for rule in without { li { (chip(rule.level)) span.what { (line(rule)) } } }
    }
}

fn line(rule: &PermissionRule) -> Markup {
    let text = match rule.rule.split_once(' ') {
        Some((verbs, what)) => format!("{} {what}", verbs.replace(',', ", ")),
        None => rule.rule.clone(),
    };
    html! {
        (clean(&text))
        span.muted { " · " @if rule.scope == "cluster" { "whole cluster" } @else { "in namespace " (clean(&rule.scope)) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn high_permissions_are_first_and_grouped_by_reason() {
        let rule = |rule: &str, level, reason: Option<&str>| PermissionRule {
            rule: rule.into(),
            level,
            reason: reason.map(str::to_owned),
            scope: "cluster".into(),
        };
        let rules = [
            rule("get leases", Level::Low, None),
            rule("get,list secrets", Level::High, Some("reads all Secrets")),
            rule("watch secrets", Level::High, Some("reads all Secrets")),
        ];
        let page = high_first(&rules, "x").into_string();
        assert_eq!(page.matches("Reads all Secrets.").count(), 1, "{page}");
        let (high, low) = (page.find("get, list secrets").unwrap(), page.find("get leases").unwrap());
        assert!(high < page.find("<details").unwrap() && page.find("<details").unwrap() < low, "{page}");
        assert!(page.contains("Also 1 permission"), "{page}");
    }
}
