//! Observes a CatalogSource: what it asks for, and how far reading it is. Starts a read when one is due.

use std::sync::Arc;

use kube::ResourceExt;
use olm_api::{CatalogSource, names};
use olm_engine::catalogs::{Access, Problem};

use super::{
    interval,
    jobs::{Request, View},
    key,
    source::RequestedSource,
    template::{self, Template},
};
use crate::context::Ctx;

/// The observed state of a CatalogSource.
pub(super) struct Observed {
    pub(super) access: Access,
    /// What is read, or why the spec is invalid.
    pub(super) requested: Result<RequestedSource, Problem>,
    pub(super) template: Option<Template>,
    pub(super) view: View,
    pub(super) interval_problem: Option<Problem>,
}

pub(super) async fn observe(source: &CatalogSource, ctx: &Ctx) -> Observed {
    let key = key(source);
    let template = template(source, ctx).await;
    let image = template.as_ref().and_then(Template::resolved);
    let requested = RequestedSource::of(&source.spec, image)
        .and_then(|requested| requested.allowed_in(&key.0, &ctx.namespace));
    let access = Access::new(ctx.client.clone(), ctx.registries.clone(), &key.0, &source.spec.secrets);
    let (mut view, interval_problem) = view(source, &requested, &access, ctx).await;
    if view.outdated && matches!(requested, Ok(RequestedSource::Signed { .. })) {
        // Content that was read before a signature was required may not have one.
        view.catalog = None;
    }
    Observed { access, requested, template, view, interval_problem }
}

async fn view(
    source: &CatalogSource,
    requested: &Result<RequestedSource, Problem>,
    access: &Access,
    ctx: &Ctx,
) -> (View, Option<Problem>) {
    let (key, uid) = (key(source), source.uid().unwrap_or_default());
    let requested = match requested {
        Ok(requested) => requested,
        Err(problem) => return (ctx.jobs.refuse(&key, &uid, problem.clone()).await, None),
    };
    let secrets = &source.spec.secrets;
    if *requested == RequestedSource::Shipped {
        let identity = requested.identity(secrets);
        return (ctx.jobs.preloaded(&key, &uid, identity, Arc::clone(&ctx.shipped)), None);
    }
    let (every, problem) = interval::interval(&source.spec, requested);
    let request = Request {
        key,
        uid,
        requested: requested.clone(),
        secrets: secrets.clone(),
        every,
        refresh: source.annotations().get(names::ANNOTATION_REFRESH).cloned().unwrap_or_default(),
        client: ctx.client.clone(),
        access: access.clone(),
    };
    (ctx.jobs.observe(request).await, problem)
}

/// The image for this cluster, when the CatalogSource has a template for it.
async fn template(source: &CatalogSource, ctx: &Ctx) -> Option<Template> {
    let text = template::text(source)?;
    let version = ctx.resources.kubernetes().await.inspect_err(|error| tracing::debug!(%error));
    Some(template::resolve(text, version.ok().as_deref()))
}
