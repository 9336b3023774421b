//! Uninstallation of an operator, with a preview of the deleted objects.

use axum::{extract::Path, response::Response};
use http::StatusCode;
use maud::{Markup, html};
use olm_ops::{Installed, Instance, Operands, UninstallOptions, UninstallReport, UninstallTarget};
use olm_plan::Plan;
use serde::Serialize;

use super::installed::{href, name};
use crate::{
    caller::{Caller, Page},
    error::WebError,
    links::clean,
    posted::{Fields, Posted},
    rights,
    view::{
        field::{self, Field},
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
    /// Operands of the operator; absent when the user may not list them.
    #[serde(skip_serializing_if = "Option::is_none")]
    instances: Option<Vec<InstanceName>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// The plan of each choice: exactly the displayed plan is applied.
    plans: Plans,
    /// The same with the deletion of its dependencies; absent where that makes no difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    with_dependencies: Option<Plans>,
    /// Why the user cannot uninstall it.
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not: Option<String>,
}

impl Model {
    fn plan(&self, choice: Choice) -> Option<&Plan> {
        match choice.dependencies {
            true => self.with_dependencies.as_ref(),
            false => Some(&self.plans),
        }
        .map(|plans| plans.of(choice.level))
    }

    /// Every available choice, with its plan.
    fn choices(&self) -> impl Iterator<Item = (Choice, &Plan)> {
        let both = [false, true];
        let all = both.into_iter().flat_map(|dependencies| {
            [Level::Operator, Level::Instances, Level::Everything].map(|level| Choice { level, dependencies })
        });
        all.filter(|choice| self.offers(choice.level)).filter_map(|choice| Some((choice, self.plan(choice)?)))
    }

    /// Deleting operands is not offered without operands, or when the user may not list them.
    fn offers(&self, level: Level) -> bool {
        match level {
            Level::Operator => true,
            Level::Instances => self.instances.as_ref().is_some_and(|list| !list.is_empty()),
            Level::Everything => self.instances.is_some(),
        }
    }
}

/// The plan of each level.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Plans {
    operator: Plan,
    instances: Plan,
    crds: Plan,
}

impl Plans {
    fn new(plan: impl Fn(Level) -> Plan) -> Self {
        Self {
            operator: plan(Level::Operator),
            instances: plan(Level::Instances),
            crds: plan(Level::Everything),
        }
    }

    fn of(&self, level: Level) -> &Plan {
        match level {
            Level::Operator => &self.operator,
            Level::Instances => &self.instances,
            Level::Everything => &self.crds,
        }
    }
}

#[derive(Serialize)]
struct InstanceName {
    kind: String,
    namespace: Option<String>,
    name: String,
}

/// How much is deleted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Operator,
    Instances,
    Everything,
}

/// The selected options.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Choice {
    level: Level,
    /// Whether to delete the operators that were installed as dependencies and that no other operator
    /// requires.
    dependencies: bool,
}

impl Choice {
    const LEAST: Self = Self { level: Level::Operator, dependencies: false };

    fn read(fields: &Fields) -> Option<Self> {
        let level = match fields.text("what")? {
            "operator" => Level::Operator,
            "instances" => Level::Instances,
            "crds" => Level::Everything,
            _ => return None,
        };
        Some(Self { level, dependencies: fields.text("dependencies") == Some("delete") })
    }

    /// The level in names of fields and classes.
    fn word(self) -> &'static str {
        match (self.level, self.dependencies) {
            (Level::Operator, false) => "operator",
            (Level::Instances, false) => "instances",
            (Level::Everything, false) => "crds",
            (Level::Operator, true) => "operator-all",
            (Level::Instances, true) => "instances-all",
            (Level::Everything, true) => "crds-all",
        }
    }

    fn options(self) -> UninstallOptions {
        UninstallOptions {
            operands: if self.level == Level::Operator { Operands::Keep } else { Operands::Delete },
            delete_crds: self.level == Level::Everything,
            delete_dependencies: self.dependencies,
            ..UninstallOptions::default()
        }
    }

    /// The digest of the plan that the page showed for this choice; JSON clients may send a single `digest`.
    fn reviewed(self, fields: &Fields) -> Option<String> {
        let shown = fields.text(&format!("digest-{}", self.word())).or_else(|| fields.text("digest"));
        shown.map(str::to_owned)
    }
}

async fn read(caller: &Caller, namespace: &str, target: &str) -> Result<Model, WebError> {
    let (operator, why_not) = tokio::join!(
        UninstallTarget::read(&caller.client, Some(namespace), target),
        rights::missing(&caller.client, "delete", "clusterserviceversions", namespace)
    );
    let operator = operator?;
    let problem = operator.unlisted().map(|crd| format!("Missing permission: list {crd} in all namespaces."));
    let instances = operator.instances().into_iter().map(short).collect();
    let plans = |dependencies| Plans::new(|level| operator.plan(&Choice { level, dependencies }.options()));
    let (without, with) = (plans(false), plans(true));
    let differs = without.operator.digest != with.operator.digest;
    let installed = operator.installed().clone();
    Ok(Model {
        installed,
        instances: problem.is_none().then_some(instances),
        problem,
        plans: without,
        with_dependencies: differs.then_some(with),
        why_not,
    })
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
    Ok(answer(&caller, &model, Choice::LEAST, None))
}

/// `POST /installed/{namespace}/{name}/uninstall`
pub(crate) async fn submit(
    Path((namespace, target)): Path<(String, String)>,
    posted: Posted,
) -> Result<Response, WebError> {
    let Posted { caller, fields } = posted;
    let model = read(&caller, &namespace, &target).await?;
    let choice = Choice::read(&fields).ok_or_else(|| {
        WebError::bad_request("`what`: invalid value, expected operator, instances or crds")
    })?;
    if let Some((what, hint)) = refusal(&model, choice, fields.text("confirm").unwrap_or_default()) {
        let error =
            WebError::new(StatusCode::UNPROCESSABLE_ENTITY, "not-confirmed", what, "No changes were made.")
                .hint(hint);
        return if caller.wants_json {
            Err(error)
        } else {
            Ok(answer(&caller, &model, choice, Some(&error)))
        };
    }
    let options = UninstallOptions { digest: choice.reviewed(&fields), ..choice.options() };
    match olm_ops::uninstall(&caller.client, Some(&namespace), &target, &options).await {
        Ok(report) => {
            let title = format!("{} uninstalled", name(&model.installed));
            Ok(caller.answer(Page::new(&title, Section::Installed, done(&title, &report)), &report))
        }
        Err(error) => {
            let error = WebError::from(error);
            if caller.wants_json || error.status == StatusCode::UNAUTHORIZED {
                return Err(error);
            }
            Ok(answer(&caller, &model, choice, Some(&error)))
        }
    }
}

/// Why a choice is refused, and what to do.
fn refusal(model: &Model, choice: Choice, typed: &str) -> Option<(&'static str, &'static str)> {
    // Without dependencies, keeping and deleting them is the same plan.
    let plan = model.plan(choice).unwrap_or_else(|| model.plans.of(choice.level));
    let deletes = choice.level != Level::Operator;
    if deletes && plan.operands.iter().any(|operand| operand.count.is_none()) {
        return Some((
            "Missing permission to list the objects to delete",
            "ask a user with this permission to uninstall the operator",
        ));
    }
    if !plan.reversible.possible && typed != model.installed.package {
        return Some((
            "The name does not match",
            "enter the package name to confirm the deletion of its objects and their data",
        ));
    }
    None
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
    let loses_data = model.choices().any(|(_, plan)| !plan.reversible.possible);
    html! {
        (parts::crumbs(&[("/installed", "Installed"), (&href(one), &title)], "Uninstall"))
        div.head { div.head-text { h1 { "Uninstall " (title) } p.muted { (one.version.as_deref().unwrap_or_default()) " in namespace " (one.namespace) } } }
        div.stack {
            @if let Some(failed) = failed { (parts::alert(&failed.what, &failed.why, failed.hint.as_deref())) }
            @if let Some(problem) = &model.problem {
                (parts::note(Tone::Warn, &html! { strong { "Failed to list objects of its kinds; only the operator can be removed. " } (clean(problem)) }))
            }
            form.split-form.uninstall method="post" action={ (href(one)) "/uninstall" } {
                div.panel { div.body.stack {
                    (parts::csrf(csrf))
                    @for (shown, plan) in model.choices() {
                        input type="hidden" name={ "digest-" (shown.word()) } value=(plan.digest);
                    }
                    (levels(model, choice))
                    @if let Some(with) = &model.with_dependencies { (dependencies(&with.operator, choice)) }
                    @if loses_data {
                        (Field::new("confirm", html! { "To confirm the deletion of objects, enter " code { (clean(&one.package)) } })
                            .confirm()
                            .help(Some(html! { "Required only if objects are deleted." }))
                            .show(&html! { input #confirm type="text" name="confirm" autocomplete="off" spellcheck="false" aria-describedby="confirm-help"; }))
                    }
                    @if let Some(why) = &model.why_not { (parts::note(Tone::Info, &html! { (why) })) }
                    div.actions {
                        button.button.danger.solid disabled[model.why_not.is_some()] { "Uninstall" }
                        a.button.quiet href=(href(one)) { "Cancel" }
                    }
                } }
                div.stack {
                    section.panel #plan aria-labelledby="plan-h" aria-live="polite" {
                        header { h2 #plan-h { "Plan" } }
                        // The page contains the plan of each choice; the style sheet shows the selected one.
                        div.body.stack { @for (shown, plan) in model.choices() { div.removal.{ "is-" (shown.word()) } { (removal(plan, shown.word(), &choice_summary(shown))) } } }
                    }
                    @if !instances.is_empty() {
                        details.fold #objects open[instances.len() <= 20] {
                            summary { (parts::plural(instances.len(), "object")) " of its kinds" }
                            div.body { ul.objects { @for i in instances {
                                li { span.what { span.kind { (i.kind) } " " (i.name) @if let Some(ns) = &i.namespace { span.muted { " in " (ns) } } } }
                            } } }
                        }
                    }
                }
            }
        }
    }
}

/// A short description of a choice.
fn choice_summary(choice: Choice) -> String {
    let what = match choice.level {
        Level::Operator => "The operator only",
        Level::Instances => "The operator and its objects",
        Level::Everything => "The operator, its objects and its kinds",
    };
    if choice.dependencies { format!("{what}, with unused dependencies") } else { what.to_owned() }
}

/// The three levels.
fn levels(model: &Model, choice: Choice) -> Markup {
    let instances = model.instances.as_deref();
    let n = parts::plural(instances.unwrap_or_default().len(), "object");
    let several = instances.is_some_and(|list| list.len() > 1);
    let some = instances.is_some_and(|list| !list.is_empty());
    html! {
        fieldset.field {
            legend { "Objects to remove" }
            (field::radio("what", "operator", choice.level == Level::Operator, &html! { "The operator only" }, &html! {
                @if instances.is_none() { "Objects of its kinds are retained, unmanaged." }
                @else if !some { "No objects of its kinds exist." }
                @else if several { (n) " are retained, unmanaged." }
                @else { (n) " is retained, unmanaged." }
            }))
            @if model.offers(Level::Instances) {
                (field::radio("what", "instances", choice.level == Level::Instances, &html! { "The operator and its " (n) }, &html! {
                    @if several { "Deletes the objects first. Their data is lost." } @else { "Deletes the object first. Its data is lost." }
                }))
            }
            @if model.offers(Level::Everything) {
                (field::radio("what", "crds", choice.level == Level::Everything, &html! { "The operator" @if some { ", its " (n) } " and its kinds" },
                    &html! { "Also deletes the CustomResourceDefinitions and every object of these kinds." }))
            }
        }
    }
}

/// The dependencies of the operator and their fate. `plan` is one that deletes them.
fn dependencies(plan: &Plan, choice: Choice) -> Markup {
    html! {
        fieldset.field {
            legend { "Dependencies" }
            (field::radio("dependencies", "keep", !choice.dependencies, &html! { "Retain" },
                &html! { "Dependencies keep running and receive upgrades." }))
            (field::radio("dependencies", "delete", choice.dependencies, &html! { "Remove unused dependencies" }, &html! {
                @for need in &plan.dependencies { (clean(&need.need)) ": " (clean(&need.satisfied_by)) "." br; }
            }))
        }
    }
}

fn done(title: &str, report: &UninstallReport) -> Markup {
    html! {
        div.head { div.head-text { h1 { (title) } } }
        div.stack {
            @if !report.leftovers.is_empty() {
                (parts::note(Tone::Warn, &html! { "Some objects of the operator were not removed or could not be checked." }))
            }
            @for (label, list) in [("Not removed", &report.leftovers), ("Removed", &report.removed), ("Retained", &report.kept)] {
                @if !list.is_empty() {
                    section.panel {
                        header { h2 { (label) } (parts::tag(&list.len().to_string())) }
                        div.body { ul.objects { @for item in list { li { span.what { (clean(item)) } } } } }
                    }
                }
            }
            div.actions { a.button.primary href="/installed" { "Installed operators" } a.button href="/catalog" { "Catalog" } }
        }
    }
}
