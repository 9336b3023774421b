//! Workloads: the Deployments of the operator, and their pods.

use maud::{Markup, html};
use olm_ops::{DeploymentState, Overview, PodState};

use crate::{
    links::{clean, word},
    view::{
        parts::{self, Tone, sentence},
        table::{self, Column, Row, Style},
        time,
    },
};

pub(super) fn show(view: &Overview, list: &[DeploymentState]) -> Markup {
    let one = &view.timeline.installed;
    html! {
        div.stack {
            @if list.is_empty() { (parts::empty("No workloads", "The operator has no Deployments.", None)) }
            @for deployment in list { (panel(deployment)) }
            p.small.muted { "Command line: " code { "olm logs " (word(&one.package)) " -n " (one.namespace) } }
        }
    }
}

fn panel(one: &DeploymentState) -> Markup {
    let heading = format!("deployment-{}", one.name);
    let tone = if one.ready >= one.replicas { Tone::Good } else { Tone::Warn };
    html! {
        section.panel aria-labelledby=(heading) {
            header {
                h2 id=(heading) { span.muted { "Deployment " } (clean(&one.name)) }
                (parts::state(tone, &format!("{} of {} ready", one.ready, one.replicas)))
            }
            div.body.stack-s {
                @if let Some(reason) = &one.reason { (parts::note(Tone::Warn, &html! { (sentence(&clean(reason))) })) }
                @if !one.images.is_empty() || one.created.is_some() {
                    dl.facts {
                        @if !one.images.is_empty() { div { dt { "Image" } dd { (images(&one.images)) } } }
                        @if let Some(created) = &one.created { div { dt { "Created" } dd { (time::ago(created)) } } }
                    }
                }
            }
            @if !one.pods.is_empty() { (pods(one)) }
        }
    }
}

fn images(list: &[String]) -> Markup {
    html! { ul.plain { @for image in list { li { code { (clean(image)) } } } } }
}

fn pods(deployment: &DeploymentState) -> Markup {
    let columns = [
        Column::new("Pod").with_class("clip"),
        Column::new("Status").with_class(table::FILL),
        Column::new("Ready").with_class(table::NUMBER),
        Column::new("Restarts").with_class(table::NUMBER),
        Column::new("Node"),
        Column::new("Age").with_class(table::NUMBER),
    ];
    let rows: Vec<Row> = deployment.pods.iter().map(|pod| row(pod, &deployment.images)).collect();
    let caption = format!("Pods of Deployment {}", clean(&deployment.name));
    table::show(Style::Records, &caption, &columns, &rows)
}

fn row(pod: &PodState, images_of_deployment: &[String]) -> Row {
    let tone = match pod.phase.as_str() {
        _ if pod.is_ready => Tone::Good,
        "Terminating" => Tone::Plain,
        "Failed" => Tone::Bad,
        _ if pod.reason.is_some() => Tone::Warn,
        _ => Tone::Info,
    };
    let cells = vec![
        html! { (clean(&pod.name)) },
        html! {
            (parts::state(tone, &clean(if pod.phase.is_empty() { "Unknown" } else { &pod.phase })))
            @if let Some(reason) = &pod.reason { div.sub.clip { (clean(reason)) } }
            // A pod of another template.
            @if pod.images != images_of_deployment { @for image in &pod.images { div.sub.clip { (clean(image)) } } }
        },
        html! { (pod.ready_containers) "/" (pod.containers) },
        html! { (parts::plural(usize::try_from(pod.restarts).unwrap_or_default(), "restart")) },
        html! { @if let Some(node) = &pod.node { (clean(node)) } },
        html! { @if let Some(created) = &pod.created { (time::age(created)) } },
    ];
    Row { id: Some(format!("pod-{}", pod.name)), cells }
}
