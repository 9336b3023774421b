//! The definition as a whole: names, scope, versions, conversion, subresources.

use serde_json::Value;

use super::collect::{Collector, listed};
use super::{ChangeCode, Severity};
use crate::view::{Version, View};

use ChangeCode::*;
use Severity::{Breaking, Careful, Safe};

pub(super) fn compare(live: &View<'_>, new: &View<'_>, out: &mut Collector) {
    out.about(None);
    names(live, new, out);
    versions(live, new, out);
    conversion(live, new, out);
    if live.preserves_all && !new.preserves_all {
        let text = "fields that the schemas do not name were kept and are dropped from now on";
        out.add(UnknownFieldsPruned, Breaking, ".spec.preserveUnknownFields", text);
    }
    for version in &live.versions {
        if let Some(next) = new.version(version.name) {
            out.about(Some(version.name.to_owned()));
            subresources(version, next, out);
        }
    }
}

fn names(live: &View<'_>, new: &View<'_>, out: &mut Collector) {
    let mut differ = |code, severity, path: &str, before: &str, after: &str, text: &str| {
        if before != after {
            out.add_with(code, severity, path, text, Some(before.into()), Some(after.into()));
        }
    };
    let fixed =
        "API servers do not let it change: the definition would have to be deleted, and all objects with it";
    differ(GroupChanged, Breaking, ".spec.group", live.group, new.group, fixed);
    differ(ScopeChanged, Breaking, ".spec.scope", live.scope, new.scope, fixed);
    differ(KindChanged, Breaking, ".spec.names.kind", live.kind, new.kind, fixed);
    differ(PluralChanged, Breaking, ".spec.names.plural", live.plural, new.plural, fixed);
    let text = "commands and scripts that use the old name stop working";
    differ(SingularChanged, Careful, ".spec.names.singular", &live.singular, &new.singular, text);
    let text = "clients that expect the old kind of lists cannot read them any more";
    differ(ListKindChanged, Careful, ".spec.names.listKind", &live.list_kind, &new.list_kind, text);
    let gone: Vec<&str> =
        live.short_names.iter().copied().filter(|name| !new.short_names.contains(name)).collect();
    if !gone.is_empty() {
        out.add_with(
            ShortNameRemoved,
            Careful,
            ".spec.names.shortNames",
            format!("commands and scripts that use {} stop working", listed(&gone)),
            Some(listed(&live.short_names)),
            Some(listed(&new.short_names)),
        );
    }
}

fn versions(live: &View<'_>, new: &View<'_>, out: &mut Collector) {
    const PATH: &str = ".spec.versions";
    for stored in live.stored.iter().filter(|stored| new.version(stored).is_none()) {
        let text = format!(
            "objects may be stored as {stored}, which the new definition does not have: they could not be read any \
             more; migrate them and remove {stored} from status.storedVersions first"
        );
        out.add(StoredVersionRemoved, Breaking, PATH, text);
    }
    for version in live.versions.iter().filter(|version| version.served) {
        // The removal of a version that was deprecated before is less severe: clients had time to migrate.
        let (severity, announced) = match version.deprecated {
            true => (Careful, ", as was announced by its being deprecated"),
            false => (Breaking, ""),
        };
        let name = version.name;
        match new.version(name) {
            None => {
                let text = format!("requests for {name} fail from now on{announced}");
                out.add(VersionRemoved, severity, PATH, text);
            }
            Some(next) if !next.served => {
                let text =
                    format!("{name} is there but not served: requests for it fail from now on{announced}");
                out.add(VersionNotServed, severity, PATH, text);
            }
            Some(next) if next.deprecated && !version.deprecated => {
                let text = format!("{name} is deprecated from now on; requests for it get a warning");
                out.add(VersionDeprecated, Safe, PATH, text);
            }
            Some(_) => {}
        }
    }
    for version in new.versions.iter().filter(|version| version.served) {
        if !live.version(version.name).is_some_and(|old| old.served) {
            out.add(VersionAdded, Safe, PATH, format!("{} is served from now on", version.name));
        }
    }
    if let (Some(before), Some(after)) = (live.storage(), new.storage())
        && before.name != after.name
    {
        out.add_with(
            StorageVersionChanged,
            Careful,
            PATH,
            "what is written from now on is stored in the new version; a definition that lacks it cannot come back",
            Some(before.name.into()),
            Some(after.name.into()),
        );
    }
}

fn conversion(live: &View<'_>, new: &View<'_>, out: &mut Collector) {
    const PATH: &str = ".spec.conversion.strategy";
    match (live.webhook, new.webhook) {
        (false, true) => out.add_with(
            ConversionWebhookAdded,
            Careful,
            PATH,
            "objects of other versions can be read only while the webhook answers",
            Some("None".into()),
            Some("Webhook".into()),
        ),
        (true, false) => {
            let (severity, text) = match new.versions.len() {
                1 => (
                    Careful,
                    "objects that are stored in another version are no longer converted, only renamed",
                ),
                _ => (Breaking, "objects are no longer converted between versions, only renamed"),
            };
            let (before, after) = (Some("Webhook".into()), Some("None".into()));
            out.add_with(ConversionWebhookRemoved, severity, PATH, text, before, after);
        }
        _ => {}
    }
}

fn subresources(live: &Version<'_>, new: &Version<'_>, out: &mut Collector) {
    match (live.status, new.status) {
        (true, false) => {
            let text = "requests to /status fail, and what clients write into .status of the object counts";
            out.add(StatusSubresourceRemoved, Breaking, ".status", text);
        }
        (false, true) => {
            let text = "what clients write into .status is ignored unless they use /status";
            out.add(StatusSubresourceAdded, Careful, ".status", text);
        }
        _ => {}
    }
    match (live.scale, new.scale) {
        (Some(_), None) => {
            let text = "requests to /scale fail: autoscalers and `kubectl scale` stop working";
            out.add(ScaleSubresourceRemoved, Breaking, "", text);
        }
        (Some(before), Some(after)) => {
            for key in ["specReplicasPath", "statusReplicasPath", "labelSelectorPath"] {
                let field = |scale: &Value| scale.get(key).and_then(Value::as_str).map(str::to_owned);
                let (before, after) = (field(before), field(after));
                if before.is_some() && before != after {
                    let text = format!("/scale has another {key}: autoscalers work with another field");
                    let path = before.clone().unwrap_or_default();
                    out.add_with(ScaleSubresourceChanged, Careful, &path, text, before, after);
                }
            }
        }
        (None, _) => {}
    }
    for field in live.selectable.iter().filter(|field| !new.selectable.contains(field)) {
        let text = "requests that select objects by it fail";
        out.add(SelectableFieldRemoved, Breaking, field, text);
    }
}
