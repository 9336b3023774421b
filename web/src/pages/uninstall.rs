//! Taking an operator away, with what goes with it said beforehand.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::{IntoResponse, Response},
};
use http::StatusCode;
use maud::{Markup, html};
use olm_manager::ops::{self, Installed, Instance, Leaving, Operands, UninstallOptions, UninstallReport};
use olm_plan::Plan;
use serde::Serialize;

use super::installed::{href, name};
use crate::{
    app::App,
    caller::{Caller, Page},
    error::WebError,
    links::clean,
    posted::{Fields, Posted},
    view::{
        layout::Section,
        parts::{self, Tone},
        plan::removal,
    },
};

/// The page as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Model {
    installed: Installed,
    /// What exists of the kinds it provides; absent when that cannot be listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    instances: Option<Vec<InstanceName>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// What each choice does: what is shown is what is done.
    plans: Plans,
}

/// The plan of each choice.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Plans {
    operator: Plan,
    instances: Plan,
    crds: Plan,
}

impl Plans {
    fn of(&self, choice: Choice) -> &Plan {
        match choice {
            Choice::Operator => &self.operator,
            Choice::Instances => &self.instances,
            Choice::Everything => &self.crds,
        }
    }
}

#[derive(Serialize)]
struct InstanceName {
    kind: String,
    namespace: Option<String>,
    name: String,
}

/// What was chosen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    Operator,
    Instances,
    Everything,
}

impl Choice {
    fn read(fields: &Fields) -> Option<Self> {
        match fields.text("what")? {
            "operator" => Some(Self::Operator),
            "instances" => Some(Self::Instances),
            "crds" => Some(Self::Everything),
            _ => None,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Instances => "instances",
            Self::Everything => "crds",
        }
    }

    fn options(self) -> UninstallOptions {
        UninstallOptions {
            operands: if self == Self::Operator { Operands::Keep } else { Operands::Delete },
            delete_crds: self == Self::Everything,
            ..UninstallOptions::default()
        }
    }

    /// The digest of the plan that the page showed for this choice; whoever sends JSON may say just `digest`.
    fn reviewed(self, fields: &Fields) -> Option<String> {
        let shown = fields.text(&format!("digest-{}", self.word())).or_else(|| fields.text("digest"));
        shown.map(str::to_owned)
    }
}

async fn read(caller: &Caller, namespace: &str, target: &str) -> Result<Model, WebError> {
    let leaving = Leaving::read(&caller.client, Some(namespace), target).await?;
    let problem = leaving.unlisted().map(|crd| format!("You may not list {crd} in all namespaces."));
    let instances = leaving.instances().into_iter().map(short).collect();
    let plan = |choice: Choice| leaving.plan(&choice.options());
    let plans = Plans {
        operator: plan(Choice::Operator),
        instances: plan(Choice::Instances),
        crds: plan(Choice::Everything),
    };
    let installed = leaving.installed().clone();
    Ok(Model { installed, instances: problem.is_none().then_some(instances), problem, plans })
}

fn short(instance: &Instance) -> InstanceName {
    InstanceName {
        kind: clean(&instance.kind),
        namespace: instance.namespace.clone(),
        name: instance.name.clone(),
    }
}

/// `GET /installed/{namespace}/{name}/uninstall`
pub(crate) async fn page(
    caller: Caller,
    Path((namespace, target)): Path<(String, String)>,
) -> Result<Response, WebError> {
    let model = read(&caller, &namespace, &target).await?;
    Ok(answer(&caller, &model, Choice::Operator, None))
}

/// `POST /installed/{namespace}/{name}/uninstall`
pub(crate) async fn submit(
    State(_app): State<Arc<App>>,
    Path((namespace, target)): Path<(String, String)>,
    posted: Posted,
) -> Result<Response, WebError> {
    let Posted { caller, fields } = posted;
    let model = read(&caller, &namespace, &target).await?;
    let choice = Choice::read(&fields)
        .ok_or_else(|| WebError::bad_request("`what` has to be operator, instances or crds"))?;
    let typed = fields.text("confirm").unwrap_or_default();
    // Where the objects cannot be counted, they may be many.
    let loses_data =
        choice != Choice::Operator && model.instances.as_ref().is_none_or(|list| !list.is_empty());
    let refused = if choice != Choice::Operator && model.instances.is_none() {
        Some((
            "The objects cannot be listed, so they cannot be deleted from here",
            "ask somebody who may list them",
        ))
    } else if loses_data && typed != model.installed.package {
        Some((
            "The name does not match",
            "type the package's name, as it stands there, to delete its objects and their data",
        ))
    } else {
        None
    };
    if let Some((what, hint)) = refused {
        let error =
            WebError::new(StatusCode::UNPROCESSABLE_ENTITY, "not-confirmed", what, "Nothing was changed.")
                .hint(hint);
        return if caller.wants_json {
            Err(error)
        } else {
            Ok(answer(&caller, &model, choice, Some(&error)))
        };
    }
    let options = UninstallOptions { digest: choice.reviewed(&fields), ..choice.options() };
    match ops::uninstall(&caller.client, Some(&namespace), &target, &options).await {
        Ok(report) => {
            let title = format!("{} is uninstalled", name(&model.installed));
            Ok(caller.answer(Page::new(&title, Section::Installed, done(&title, &report)), &report))
        }
        Err(error) => {
            let error = WebError::from(error);
            if caller.wants_json || error.status == StatusCode::UNAUTHORIZED {
                return Err(error);
            }
            Ok(answer(&caller, &model, choice, Some(&error)).into_response())
        }
    }
}

fn answer(caller: &Caller, model: &Model, choice: Choice, failed: Option<&WebError>) -> Response {
    let title = format!("Uninstall {}", name(&model.installed));
    let body = view(model, choice, caller.csrf(), failed);
    let status = failed.map_or(StatusCode::OK, |f| f.status);
    caller.answer(Page::new(&title, Section::Installed, body).status(status), model)
}

fn view(model: &Model, choice: Choice, csrf: &str, failed: Option<&WebError>) -> Markup {
    let one = &model.installed;
    let title = name(one);
    let instances = model.instances.as_deref().unwrap_or_default();
    let n = parts::plural(instances.len(), "object");
    let known = model.instances.is_some();
    html! {
        (parts::crumbs(&[("/installed", "Installed"), (&href(one), &title)], "Uninstall"))
        div.head { div.head-text { h1 { "Uninstall " (title) } p.muted { (one.version.as_deref().unwrap_or_default()) " in namespace " (one.namespace) } } }
        div.stack {
            @if let Some(failed) = failed { (parts::alert(&failed.what, &failed.why, failed.hint.as_deref())) }
            @if let Some(problem) = &model.problem {
                (parts::note(Tone::Warn, &html! { strong { "Its objects cannot be listed, so only the operator can be removed here. " } (clean(problem)) }))
            }
            div.panel.narrow { form.body.stack.uninstall method="post" action={ (href(one)) "/uninstall" } {
                (parts::csrf(csrf))
                @for shown in [Choice::Operator, Choice::Instances, Choice::Everything] {
                    input type="hidden" name={ "digest-" (shown.word()) } value=(model.plans.of(shown).digest);
                }
                fieldset.field {
                    legend { "What goes?" }
                    label.choice {
                        input type="radio" name="what" value="operator" checked[choice == Choice::Operator];
                        span { "The operator only" small {
                            @if !known { "Objects of its kinds stay as they are, unmanaged." }
                            @else if instances.is_empty() { "There are no objects of its kinds." }
                            @else if instances.len() == 1 { (n) " stays as it is, unmanaged." }
                            @else { (n) " stay as they are, unmanaged." }
                        } }
                    }
                    @if known && !instances.is_empty() {
                        label.choice {
                            input type="radio" name="what" value="instances" checked[choice == Choice::Instances];
                            span { "The operator and its " (n) small { @if instances.len() == 1 { "Deletes it first. Its data is lost." } @else { "Deletes them first. Their data is lost." } } }
                        }
                    }
                    @if known {
                        label.choice {
                            input type="radio" name="what" value="crds" checked[choice == Choice::Everything];
                            span { "The operator" @if !instances.is_empty() { ", its " (n) } " and its kinds" small { "Also deletes the CustomResourceDefinitions, and with them every object of these kinds." } }
                        }
                    }
                }
                @for shown in [Choice::Operator, Choice::Instances, Choice::Everything] {
                    @if shown == Choice::Operator || known && (shown == Choice::Everything || !instances.is_empty()) {
                        (removal(model.plans.of(shown), shown.word()))
                    }
                }
                @if !instances.is_empty() {
                    details.fold #objects open {
                        summary { (n) " of its kinds" }
                        div.body { ul.objects { @for i in instances {
                            li { span.what { span.kind { (i.kind) } " " (i.name) @if let Some(ns) = &i.namespace { span.muted { " in " (ns) } } } }
                        } } }
                    }
                    div.field.confirm {
                        label for="confirm" { "To delete objects, type " code { (clean(&one.package)) } }
                        input #confirm type="text" name="confirm" autocomplete="off" spellcheck="false";
                        p.help { "Not needed when only the operator goes." }
                    }
                }
                div.actions {
                    button.button.danger.solid { "Uninstall" }
                    a.button.quiet href=(href(one)) { "Cancel" }
                }
            } }
        }
    }
}

fn done(title: &str, report: &UninstallReport) -> Markup {
    html! {
        div.head { div.head-text { h1 { (title) } } }
        div.stack {
            @if !report.leftovers.is_empty() {
                (parts::note(Tone::Warn, &html! { "Some objects should have gone with the operator and are still there, or could not be looked at." }))
            }
            @for (label, list) in [("Still there", &report.leftovers), ("Removed", &report.removed), ("Kept", &report.kept)] {
                @if !list.is_empty() {
                    section.panel {
                        header { h2 { (label) } (parts::tag(&list.len().to_string())) }
                        div.body { ul.objects { @for item in list { li { span.what { (clean(item)) } } } } }
                    }
                }
            }
            div.actions { a.button.primary href="/installed" { "To what is installed" } a.button href="/catalog" { "To the catalog" } }
        }
    }
}
