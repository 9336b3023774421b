//! Every component of the pages in every state, for the development of the console.

use axum::response::Response;
use maud::{Markup, html};
use olm_catalog::graph::{ChannelGraph, Edge, EdgeKind, GraphNode, Role, UpgradeGraph};
use olm_ops::Status;
use olm_plan::{Level, PermissionRule};
use serde_json::json;

use crate::{
    caller::{Caller, Page},
    view::{
        banner, diff, drawing,
        facet::{self, Applied, Facet, Value},
        field::{self, Field},
        glyph::Glyph,
        layout::Section,
        menu::{self, Item},
        parts::{self, Tone},
        permissions, plan, ring,
        table::{self, Column, Order, Row, Sort, Style},
        tabs::{self, Tab, Target},
        tile::{self, Tile},
        time,
    },
};

const STATUSES: [Status; 11] = [
    Status::Failed,
    Status::Degraded,
    Status::NeedsApproval,
    Status::CannotUpdate,
    Status::Uninstalling,
    Status::Installing,
    Status::Updating,
    Status::Paused,
    Status::UpdateAvailable,
    Status::Unmanaged,
    Status::Healthy,
];

const TONES: [Tone; 5] = [Tone::Good, Tone::Info, Tone::Warn, Tone::Bad, Tone::Plain];

/// `GET /dev/components`, only on a dev cluster.
pub(crate) async fn page(caller: Caller) -> Response {
    let sections = [
        ("Status", status()),
        ("Buttons", buttons()),
        ("Banner", banners()),
        ("Tabs", tab_rows()),
        ("Table", tables()),
        ("Tile", tiles()),
        ("Facet", facets()),
        ("Form field", fields()),
        ("Diff", diffs()),
        ("Drawing", drawings()),
        (
            "Menu",
            menu::show(
                "menu-sample",
                &[Item::new("Pause", "/dev/components"), Item::new("Uninstall", "/dev/components").danger()],
            ),
        ),
        ("Permissions", granted()),
        (
            "Decision",
            plan::footer(&html! {
                p.small { "Missing permission: patch installplans in namespace etcd." }
                div.actions { button.button.primary type="button" disabled { "Approve 0.11.0" } button.button type="button" { "Skip 0.11.0" } }
            }),
        ),
        (
            "Ring",
            html! { @if let Some(ring) = ring::show(&json!({"ready": ["a-0", "a-1"], "unready": ["a-2"]})) { (ring) } },
        ),
        (
            "Empty",
            parts::empty(
                "No operators installed",
                "Install an operator from the catalog.",
                Some(("/catalog", "Go to the catalog")),
            ),
        ),
        ("Icons", icons()),
    ];
    let body = html! {
        div.head { div.head-text { h1 { "Components" } p.muted { "Select a theme in the menu of the user." } } }
        div.gallery {
            @for (title, content) in sections { section.stack-s aria-label=(title) { h2 { (title) } (content) } }
        }
    };
    let page = Page { section: None, ..Page::new("Components", Section::Catalog, body) };
    caller.answer(page, &json!(null))
}

fn status() -> Markup {
    html! {
        div.row { @for status in STATUSES { (parts::status(&status)) } }
        div.row { @for status in STATUSES { (parts::status_in_list(status)) } }
        div.row { @for tone in TONES { (parts::chip(tone, tone.glyph(), "Chip")) (parts::state(tone, "State")) } (parts::tag("Tag")) }
        div.row { @for level in parts::CAPABILITIES { (parts::capability(level)) } }
        div.row { @for size in ["mini", "", "big"] { (parts::icon(None, "etcd", size)) } }
    }
}

fn buttons() -> Markup {
    let kinds = [
        ("primary", "Install"),
        ("", "Review"),
        ("quiet", "Cancel"),
        ("danger", "Uninstall"),
        ("danger solid", "Delete"),
    ];
    html! {
        @for size in ["", "slim"] {
            div.actions {
                @for (kind, label) in kinds { button.button.(kind).(size) type="button" { (label) } }
                @for (kind, label) in kinds { button.button.(kind).(size) type="button" disabled { (label) } }
            }
        }
        div.actions { button.button.primary type="button" aria-busy="true" { "Install" } }
    }
}

fn banners() -> Markup {
    html! {
        @for tone in TONES { (banner::note(tone, &html! { strong { "Cause. " } "What to do, with " code { "a command" } "." })) }
        (banner::alert("Refused", "The API server rejected the request.", Some("run `olm doctor`")))
        (banner::problems("Not created: 2 problems", &[html! { a href="#f-size" { "Size" } ": too large" }, html! { "unknown field" }]))
    }
}

fn tab_rows() -> Markup {
    let pages = ["Overview", "Updates", "Instances", "Workloads", "Permissions", "History", "Events", "YAML"];
    let tabs: Vec<Tab<'_>> = pages
        .into_iter()
        .enumerate()
        .map(|(i, label)| {
            let tab = Tab::new(label, Target::Link("/dev/components"), i == 0);
            if i == 2 { tab.count(3) } else { tab }
        })
        .collect();
    let views = [
        Tab::new("Form", Target::Submit("view", "form"), true),
        Tab::new("YAML", Target::Submit("view", "yaml"), false),
    ];
    html! {
        (tabs::show("Pages of an operator", &tabs))
        form method="get" action="/dev/components" { (tabs::show("View", &views)) }
    }
}

fn tables() -> Markup {
    let sort = |current| Sort { href: "/dev/components".into(), current };
    let columns = [
        Column::new("Name").sort(sort(Some(Order::Ascending))),
        Column::new("Namespace").sort(sort(None)),
        Column::new("Status").sort(sort(Some(Order::Descending))).with_class(table::FILL),
        Column::new("Age").with_class(table::NUMBER),
        Column::new("Actions").with_class(table::BUTTONS).unlabelled(),
    ];
    let row = |status: Status| {
        let reason =
            "InstallPlan install-abc: failed to apply Deployment etcd/etcd-operator: exceeded quota: pods";
        Row::new(vec![
            html! { div.cell-name { (parts::icon(None, "etcd", "mini")) a href="/dev/components" { "etcd" } } },
            html! { "etcd" },
            html! { (parts::status_in_list(status)) @if status != Status::Healthy { span.sub.line title=(reason) { (reason) } } },
            html! { (time::age("2026-01-01T00:00:00Z")) },
            html! { @if status == Status::NeedsApproval { button.button.slim type="button" { "Approve" } } },
        ])
    };
    let values = [Column::new("Channel"), Column::new("Newest").with_class(table::NUMBER)];
    let value = |name: &str, version: &str| Row::new(vec![html! { (name) }, html! { (version) }]);
    html! {
        div.panel { (table::show(Style::Records, "Operators", &columns, &STATUSES.map(row))) }
        div.panel { (table::show(Style::Values, "Channels", &values, &[value("stable", "0.11.0"), value("alpha", "0.12.0")])) }
        (table::show(Style::Nested, "Members", &values, &[value("a", "1")]))
    }
}

fn tiles() -> Markup {
    let summary = "Creates and maintains highly available etcd clusters, with backups to object storage and restores of them.";
    let short = Tile {
        href: "/dev/components",
        icon: None,
        name: "etcd",
        provider: "etcd project",
        summary: "Runs etcd.",
        capability: "Full Lifecycle",
    };
    let long = Tile {
        name: "An operator with a name that is too long for its tile",
        provider: "A provider with a name that is too long for its tile",
        summary,
        ..short
    };
    let bare = Tile { provider: "", summary: "", capability: "", ..short };
    html! {
        ul.tiles {
            li { (tile::show(&short, &html! { "0.11.0 · stable" })) }
            li { (tile::show(&long, &html! { (parts::state(Tone::Good, "Installed 0.11.0")) })) }
            li { (tile::show(&bare, &html! {})) }
            li { (tile::show(&long, &html! { (parts::state(Tone::Warn, "Deprecated")) })) }
            @for status in [Status::Failed, Status::NeedsApproval] { li { (tile::show(&short, &parts::status_in_list(status))) } }
        }
    }
}

fn facets() -> Markup {
    let values = (0..10).map(|i| Value {
        label: if i == 0 {
            "A category with a name that is too long".into()
        } else {
            format!("Category {i}")
        },
        count: 200 - 20 * i,
        selected: i == 1,
        href: "/dev/components".into(),
    });
    let facet = Facet { id: "category", title: "Category", values: values.collect() };
    let applied = ["Search: cluster", "Category: Category 1"];
    let applied = applied.map(|label| Applied { label: label.into(), href: "/dev/components".into() });
    html! {
        div.browse {
            (facet::show(&[facet]))
            div.stack { (facet::applied(&applied, "/dev/components")) }
        }
    }
}

fn fields() -> Markup {
    let input = |id: &str, value: &str, wrong: bool| {
        html! { input id=(id) type="text" name=(id) value=(value) aria-invalid=[wrong.then_some("true")] aria-describedby=[field::described_by(id, true, wrong)]; }
    };
    let help = || Some(html! { "What the value means." });
    html! {
        form.stack method="get" action="/dev/components" {
            div.grid2 {
                (Field::new("f-name", html! { "Name" }).required(true).help(help()).show(&input("f-name", "etcd", false)))
                (Field::new("f-size", html! { "Size" }).help(help()).problem(Some("should be less than or equal to 7")).show(&input("f-size", "8", true)))
                (Field::new("f-channel", html! { "Channel" }).show(&html! { select #f-channel { option { "stable (default)" } } }))
                (Field::new("f-off", html! { "Not available" }).show(&html! { input #f-off type="text" disabled; }))
            }
            fieldset.field {
                legend { "Updates" }
                (field::radio("updates", "automatic", true, &html! { "Automatic" }, &html! { "New versions are installed automatically." }))
                (field::radio("updates", "manual", false, &html! { "Manual" }, &html! { "Every plan requires approval." }))
            }
            (Field::new("f-yaml", html! { "YAML" }).show(&html! { textarea #f-yaml rows="3" spellcheck="false" { "size: 3" } }))
        }
    }
}

fn diffs() -> Markup {
    let (old, new) = (json!("localhost/etcd-operator:0.10.1"), json!("localhost/etcd-operator:0.11.0"));
    html! {
        (diff::field("/spec/template/spec/containers/0/image", Some(&old), Some(&new), Some("changed since the last apply by kubectl")))
        (diff::field("/spec/replicas", None, Some(&json!(1)), None))
        (diff::field("/spec/paused", Some(&json!(true)), None, None))
    }
}

fn granted() -> Markup {
    let rule = |rule: &str, level, reason: Option<&str>| PermissionRule {
        rule: rule.into(),
        level,
        reason: reason.map(str::to_owned),
        scope: "cluster".into(),
    };
    let rules = [
        rule("get,list,watch secrets", Level::High, Some("reads all Secrets")),
        rule("create pods", Level::Med, Some("creates workloads anywhere")),
        rule("get configmaps", Level::Low, None),
    ];
    html! { (permissions::counts(&rules)) (permissions::high_first(&rules, "sample")) }
}

fn icons() -> Markup {
    html! { ul.glyphs { @for glyph in Glyph::ALL { li { (glyph.draw()) (format!("{glyph:?}")) } } } }
}

/// An upgrade graph with every mark.
fn drawings() -> Markup {
    let bundle = |version: &str, role| GraphNode {
        name: format!("etcd.v{version}"),
        version: Some(version.to_owned()),
        role,
        deprecated: (version == "0.9.0").then(|| "Upgrade to 0.9.2.".to_owned()),
        installed: version == "0.9.2",
        excluded: version == "0.9.3",
        hop: (version == "0.10.0").then_some(1),
    };
    let edge = |from: &str, to: &str, kind, hop| Edge {
        from: format!("etcd.v{from}"),
        to: format!("etcd.v{to}"),
        kind,
        hop,
    };
    let channel = ChannelGraph {
        name: "stable".into(),
        default: true,
        deprecated: None,
        bundles: vec![
            bundle("0.10.0", Role::Head),
            bundle("0.9.3", Role::Skipped),
            bundle("0.9.2", Role::Chain),
            bundle("0.9.0", Role::Chain),
        ],
        edges: vec![
            edge("0.9.2", "0.10.0", EdgeKind::Replaces, Some(1)),
            edge("0.9.3", "0.10.0", EdgeKind::Skips, None),
            edge("0.9.0", "0.9.2", EdgeKind::Replaces, None),
        ],
    };
    let path = vec!["etcd.v0.9.2".into(), "etcd.v0.10.0".into()];
    let graph = UpgradeGraph { package: "etcd".into(), deprecated: None, path, channels: vec![channel] };
    drawing::show("Upgrade graph", graph.inline_svg(&|_, _| "/dev/components".into()))
}
