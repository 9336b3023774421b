//! The serving certificate, its CA bundle in the configurations that call the manager, and how the API server
//! authenticates.
//!
//! The certificate is in a Secret that all replicas read, and is renewed as those of operators' webhooks are
//! (see [`crate::certs`]): the leader writes it, and publishes its authority in the APIService and the
//! webhook configuration.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use k8s_openapi::{
    ClusterResourceScope,
    api::{
        admissionregistration::v1::{MutatingWebhook, MutatingWebhookConfiguration},
        core::v1::{ConfigMap, Secret, Service},
    },
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{Patch, PatchParams},
};
use olm_engine::site::MANAGER;
use olm_ops::{
    authority::policies::REQUESTS,
    manifests::{PACKAGES, PACKAGES_API},
};
use rustls::{
    ServerConfig,
    crypto::ring,
    server::{NoClientAuth, WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::{CertifiedKey, SingleCertAndKey},
};
use serde_json::json;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::listener::{Current, Settings};
use crate::{
    certs::{Authority, Certificates, Held, Step, issue, next},
    context::{Ctx, Error},
    packages::FrontProxy,
};

/// Check interval when no step is due before.
const INTERVAL: Duration = Duration::from_secs(60);
/// Check interval without a certificate, or after an error.
const SOON: Duration = Duration::from_secs(2);
/// Minimum interval of checks caused by unknown clients.
const STRANGERS: Duration = Duration::from_secs(5);
const SECRET: &str = "olm-manager-cert";
/// Where the API server publishes how it authenticates.
const FRONT: (&str, &str) = ("kube-system", "extension-apiserver-authentication");

pub(super) struct CertificateManager {
    ctx: Arc<Ctx>,
    sender: watch::Sender<Option<Arc<Settings>>>,
    stranger: Arc<Notify>,
    /// The inputs of the current settings.
    seen: Option<(Held, FrontProxy)>,
}

impl CertificateManager {
    pub(super) fn new(ctx: Arc<Ctx>) -> Self {
        Self { ctx, sender: watch::Sender::new(None), stranger: Arc::default(), seen: None }
    }

    pub(super) fn settings(&self) -> Current {
        Current { settings: self.sender.subscribe(), stranger: Arc::clone(&self.stranger) }
    }

    /// Maintains both until `stop`.
    pub(super) async fn run(mut self, stop: &CancellationToken) {
        let mut reported = String::new();
        loop {
            let again = match self.maintain().await {
                Ok(again) => {
                    reported.clear();
                    again
                }
                Err(error) => {
                    let text = error.to_string();
                    if reported != text {
                        tracing::warn!(error = text, "failed to serve the webhook and the aggregated API");
                    }
                    reported = text;
                    SOON
                }
            };
            let rang = tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(again) => false,
                () = self.stranger.notified() => true,
            };
            if rang {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(STRANGERS) => {}
                }
            }
        }
    }

    /// Takes the due steps; returns when to check again.
    async fn maintain(&mut self) -> Result<Duration, Error> {
        let callers = Callers::read(&self.ctx).await?;
        if callers.services().next().is_none() {
            self.sender.send_replace(None);
            self.seen = None;
            return Ok(INTERVAL);
        }
        // Reviews of the webhook carry no user, and some clusters have no front proxy.
        let front = if callers.packages.is_some() { self.front().await? } else { FrontProxy::default() };
        let (held, again) = self.certificate(callers).await?;
        let seen = (held, front);
        if seen.0.dates().is_some() && self.seen.as_ref() != Some(&seen) {
            let settings = settings(&seen.0, &seen.1).map_err(Error::Secure)?;
            self.sender.send_replace(Some(Arc::new(settings)));
            self.seen = Some(seen);
        }
        Ok(again)
    }

    async fn certificate(&self, mut callers: Callers) -> Result<(Held, Duration), Error> {
        let ctx = &self.ctx;
        let names = names(&ctx.namespace);
        let secrets = Api::<Secret>::namespaced(ctx.client.clone(), &ctx.namespace);
        // The number of steps is small, and none repeats.
        for _ in 0..8 {
            let secret =
                secrets.get_opt(SECRET).await.map_err(Error::kube(format!("get Secret {SECRET}")))?;
            let now = Timestamp::now();
            let held = Held::read(&encoded(secret.as_ref()), &names, now);
            if !ctx.leads() {
                let again = if held.dates().is_some() { INTERVAL } else { SOON };
                return Ok((held, again));
            }
            let published = callers.published();
            let made = || issue(&names, now).map_err(|error| Error::Secure(error.to_string()));
            let step = next(&Certificates { held: &held, published: &published }, now);
            let held = match &step {
                Step::Wait(at) => {
                    let seconds = u64::try_from(at.saturating_sub(now.as_second())).unwrap_or_default();
                    let ends = held.dates().map(|(.., end)| end);
                    ctx.metrics.certificate_expires(&ctx.namespace, MANAGER, ends);
                    return Ok((held, INTERVAL.min(Duration::from_secs(seconds.max(1)))));
                }
                Step::Publish => {
                    callers.publish(&held, ctx).await?;
                    callers = Callers::read(ctx).await?;
                    continue;
                }
                Step::Replace(_) => held.replaced(made()?, &published, now),
                Step::Prepare => held.prepared(made()?, now),
                Step::Switch => held.switched(),
                Step::Drop => held.dropped(now),
            };
            self.write(&held, secret.as_ref(), &callers).await?;
        }
        Err(Error::Secure(format!("Secret {SECRET} differs from the written content")))
    }

    /// Conditional on the Secret that was read. It is owned by the Services by which the manager is called.
    async fn write(&self, held: &Held, old: Option<&Secret>, callers: &Callers) -> Result<(), Error> {
        let ctx = &self.ctx;
        let api = Api::<Service>::namespaced(ctx.client.clone(), &ctx.namespace);
        let mut owners = Vec::new();
        for name in callers.services() {
            let service = api.get_opt(name).await.map_err(Error::kube(format!("get Service {name}")))?;
            owners.push(service.as_ref().and_then(|service| service.owner_ref(&())).ok_or_else(|| {
                Error::Secure(format!(
                    "Service {}/{name} is missing; `olm self upgrade` creates it",
                    ctx.namespace
                ))
            })?);
        }
        let mut manifest = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": { "name": SECRET, "namespace": ctx.namespace, "ownerReferences": owners },
            "data": held.data(),
        });
        if let Some(version) = old.and_then(|old| old.resource_version()) {
            manifest["metadata"]["resourceVersion"] = version.into();
        }
        ctx.resources.apply(&manifest).await?;
        Ok(())
    }

    /// How the API server authenticates requests that it forwards for users.
    async fn front(&self) -> Result<FrontProxy, Error> {
        let (namespace, name) = FRONT;
        let api = Api::<ConfigMap>::namespaced(self.ctx.client.clone(), namespace);
        let map = api.get(name).await.map_err(Error::kube(format!("get ConfigMap {namespace}/{name}")))?;
        FrontProxy::read(&map.data.unwrap_or_default())
            .map_err(|error| Error::Secure(format!("ConfigMap {namespace}/{name}: {error}")))
    }
}

/// The configurations by which the API server calls the manager, where the cluster has them.
struct Callers {
    packages: Option<APIService>,
    webhook: Option<MutatingWebhookConfiguration>,
}

impl Callers {
    async fn read(ctx: &Ctx) -> Result<Self, Error> {
        let (packages, webhook) = (api(ctx), api(ctx));
        let (packages, webhook) = tokio::join!(packages.get_opt(PACKAGES_API), webhook.get_opt(REQUESTS));
        Ok(Self {
            packages: packages.map_err(Error::kube(format!("get APIService {PACKAGES_API}")))?,
            webhook: webhook.map_err(Error::kube(format!("get MutatingWebhookConfiguration {REQUESTS}")))?,
        })
    }

    /// The Services by which the API server calls.
    fn services(&self) -> impl Iterator<Item = &'static str> {
        let packages = self.packages.as_ref().map(|_| PACKAGES);
        packages.into_iter().chain(self.webhook.as_ref().map(|_| REQUESTS))
    }

    fn webhooks(&self) -> impl Iterator<Item = &MutatingWebhook> {
        self.webhook.iter().flat_map(|webhook| webhook.webhooks.iter().flatten())
    }

    /// The CA bundle of each configuration.
    fn published(&self) -> Vec<Vec<Authority>> {
        let packages =
            self.packages.iter().map(|api| api.spec.as_ref().and_then(|spec| spec.ca_bundle.as_ref()));
        let bundles = packages.chain(self.webhooks().map(|webhook| webhook.client_config.ca_bundle.as_ref()));
        bundles.map(|pem| pem.map(|pem| Authority::all(&pem.0)).unwrap_or_default()).collect()
    }

    async fn publish(&self, held: &Held, ctx: &Ctx) -> Result<(), Error> {
        let (params, bundle) = (PatchParams::default(), held.ca_bundle());
        if self.packages.is_some() {
            let patch = Patch::Merge(json!({ "spec": { "caBundle": bundle } }));
            let patched = api::<APIService>(ctx).patch(PACKAGES_API, &params, &patch).await;
            patched.map_err(Error::kube(format!("write caBundle of APIService {PACKAGES_API}")))?;
        }
        let steps: Vec<_> = self
            .webhooks()
            .enumerate()
            .flat_map(|(n, webhook)| {
                [
                    json!({ "op": "test", "path": format!("/webhooks/{n}/name"), "value": webhook.name }),
                    json!({ "op": "add", "path": format!("/webhooks/{n}/clientConfig/caBundle"), "value": bundle }),
                ]
            })
            .collect();
        if !steps.is_empty() {
            let patch =
                serde_json::from_value(steps.into()).map_err(|error| Error::Secure(error.to_string()))?;
            let patched = api::<MutatingWebhookConfiguration>(ctx)
                .patch(REQUESTS, &params, &Patch::Json::<()>(patch))
                .await;
            patched
                .map_err(Error::kube(format!("write caBundle of MutatingWebhookConfiguration {REQUESTS}")))?;
        }
        Ok(())
    }
}

fn api<K: Resource<Scope = ClusterResourceScope, DynamicType = ()>>(ctx: &Ctx) -> Api<K> {
    Api::all(ctx.client.clone())
}

/// The names of the Services, which the API server verifies.
fn names(namespace: &str) -> Vec<String> {
    [PACKAGES, REQUESTS]
        .iter()
        .flat_map(|name| [format!("{name}.{namespace}.svc"), format!("{name}.{namespace}.svc.cluster.local")])
        .collect()
}

fn encoded(secret: Option<&Secret>) -> BTreeMap<String, String> {
    let data = secret.and_then(|secret| secret.data.as_ref()).into_iter().flatten();
    data.map(|(key, value)| (key.clone(), BASE64_STANDARD.encode(&value.0))).collect()
}

/// Probes have no certificate; a client with one must present that of the API server.
fn settings(held: &Held, front: &FrontProxy) -> Result<Settings, String> {
    let provider = Arc::new(ring::default_provider());
    let (chain, key) = held.certified().ok_or("the Secret contains no certificate")??;
    let key = provider.key_provider.load_private_key(key).map_err(|error| error.to_string())?;
    let roots = front.roots();
    let verifier: Arc<dyn ClientCertVerifier> = if roots.is_empty() {
        Arc::new(NoClientAuth)
    } else {
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .map_err(|error| error.to_string())?
    };
    let mut tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(CertifiedKey::new(chain, key))));
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Settings { tls: Arc::new(tls), front: Arc::new(front.clone()) })
}
