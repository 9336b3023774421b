//! The certificate to serve with, and by which others are recognised.
//!
//! The certificate is in a Secret that all replicas read, and is renewed as those of webhooks are (see [`crate::certs`]): whoever
//! leads writes it, and tells the APIService whom to trust.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{ConfigMap, Secret, Service},
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{Patch, PatchParams},
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

use super::{
    access::Front,
    listener::{Current, Settings},
};
use crate::{
    certs::{Authority, Certificates, Held, Step, mint, next},
    context::{Ctx, Error},
    manifests::{PACKAGES, PACKAGES_API},
};

/// How often it looks, where nothing is due before.
const LOOK: Duration = Duration::from_secs(60);
/// How soon it looks again when there is no certificate yet, or something went wrong.
const SOON: Duration = Duration::from_secs(2);
/// Strangers make it look again no more often than that.
const STRANGERS: Duration = Duration::from_secs(5);
/// The Secret with the certificate.
const SECRET: &str = "olm-packages-cert";
/// Where the API server says how it is recognised.
const FRONT: (&str, &str) = ("kube-system", "extension-apiserver-authentication");

pub(super) struct Keeper {
    ctx: Arc<Ctx>,
    sender: watch::Sender<Option<Arc<Settings>>>,
    stranger: Arc<Notify>,
    /// What the settings were made of.
    seen: Option<(Held, Front)>,
}

impl Keeper {
    pub(super) fn new(ctx: Arc<Ctx>) -> Self {
        Self { ctx, sender: watch::Sender::new(None), stranger: Arc::default(), seen: None }
    }

    pub(super) fn settings(&self) -> Current {
        Current { settings: self.sender.subscribe(), stranger: Arc::clone(&self.stranger) }
    }

    /// Looks after both until `stop`.
    pub(super) async fn run(mut self, stop: &CancellationToken) {
        let mut told = String::new();
        loop {
            let again = match self.look().await {
                Ok(again) => {
                    told.clear();
                    again
                }
                Err(error) => {
                    let text = error.to_string();
                    if told != text {
                        tracing::warn!(error = text, "PackageManifests cannot be served as they should");
                    }
                    told = text;
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

    /// Takes the steps that are due; says when to look again.
    async fn look(&mut self) -> Result<Duration, Error> {
        let (held, again) = self.certificate().await?;
        let front = self.front().await?;
        let seen = (held, front);
        if seen.0.dates().is_some() && self.seen.as_ref() != Some(&seen) {
            let settings = settings(&seen.0, &seen.1).map_err(Error::Packages)?;
            self.sender.send_replace(Some(Arc::new(settings)));
            self.seen = Some(seen);
        }
        Ok(again)
    }

    async fn certificate(&self) -> Result<(Held, Duration), Error> {
        let ctx = &self.ctx;
        let names = names(&ctx.namespace);
        let secrets = Api::<Secret>::namespaced(ctx.client.clone(), &ctx.namespace);
        let services = Api::<APIService>::all(ctx.client.clone());
        // Each step is one of a few, and none comes twice.
        for _ in 0..8 {
            let secret =
                secrets.get_opt(SECRET).await.map_err(Error::kube(format!("get Secret {SECRET}")))?;
            let now = Timestamp::now();
            let held = Held::read(&encoded(secret.as_ref()), &names, now);
            if !ctx.leads() {
                let again = if held.dates().is_some() { LOOK } else { SOON };
                return Ok((held, again));
            }
            let service = services.get_opt(PACKAGES_API).await;
            let service = service.map_err(Error::kube(format!("get APIService {PACKAGES_API}")))?;
            let bundle = service.as_ref().and_then(|s| s.spec.as_ref()).map(|spec| spec.ca_bundle.clone());
            let published: Vec<Vec<Authority>> = bundle
                .iter()
                .map(|b| b.as_ref().map(|pem| Authority::all(&pem.0)).unwrap_or_default())
                .collect();
            let made = || mint(&names, now).map_err(|error| Error::Packages(error.to_string()));
            let step = next(&Certificates { held: &held, published: &published }, now);
            let held = match &step {
                Step::Wait(at) => {
                    let seconds = u64::try_from(at.saturating_sub(now.as_second())).unwrap_or_default();
                    let ends = held.dates().map(|(.., end)| end);
                    ctx.metrics.certificate_expires(&ctx.namespace, PACKAGES, ends);
                    return Ok((held, LOOK.min(Duration::from_secs(seconds.max(1)))));
                }
                Step::Publish => {
                    let patch = json!({ "spec": { "caBundle": held.ca_bundle() } });
                    let patched =
                        services.patch(PACKAGES_API, &PatchParams::default(), &Patch::Merge(&patch)).await;
                    patched.map_err(Error::kube(format!("write caBundle of APIService {PACKAGES_API}")))?;
                    continue;
                }
                Step::Replace(_) => held.replaced(made()?, &published, now),
                Step::Prepare => held.prepared(made()?, now),
                Step::Switch => held.switched(),
                Step::Drop => held.dropped(now),
            };
            self.write(&held, secret.as_ref()).await?;
        }
        Err(Error::Packages(format!("Secret {SECRET} does not become as it was written")))
    }

    /// Over the Secret that was read. It goes with the Service: when the API is switched off, and with the namespace.
    async fn write(&self, held: &Held, old: Option<&Secret>) -> Result<(), Error> {
        let ctx = &self.ctx;
        let services = Api::<Service>::namespaced(ctx.client.clone(), &ctx.namespace);
        let service =
            services.get_opt(PACKAGES).await.map_err(Error::kube(format!("get Service {PACKAGES}")))?;
        let owner = service.as_ref().and_then(|service| service.owner_ref(&()));
        let owner = owner.ok_or_else(|| {
            Error::Packages(format!(
                "there is no Service {PACKAGES} in {}; put it there with `olm self upgrade --package-manifests`",
                ctx.namespace
            ))
        })?;
        let mut manifest = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": { "name": SECRET, "namespace": ctx.namespace, "ownerReferences": [owner] },
            "data": held.data(),
        });
        if let Some(version) = old.and_then(|old| old.resource_version()) {
            manifest["metadata"]["resourceVersion"] = version.into();
        }
        ctx.resources.apply(&manifest).await?;
        Ok(())
    }

    async fn front(&self) -> Result<Front, Error> {
        let (namespace, name) = FRONT;
        let api = Api::<ConfigMap>::namespaced(self.ctx.client.clone(), namespace);
        let map = api.get(name).await.map_err(Error::kube(format!("get ConfigMap {namespace}/{name}")))?;
        Front::read(&map.data.unwrap_or_default())
            .map_err(|error| Error::Packages(format!("ConfigMap {namespace}/{name}: {error}")))
    }
}

/// The names of the Service, by which the API server asks.
fn names(namespace: &str) -> Vec<String> {
    vec![format!("{PACKAGES}.{namespace}.svc"), format!("{PACKAGES}.{namespace}.svc.cluster.local")]
}

fn encoded(secret: Option<&Secret>) -> BTreeMap<String, String> {
    let data = secret.and_then(|secret| secret.data.as_ref()).into_iter().flatten();
    data.map(|(key, value)| (key.clone(), BASE64_STANDARD.encode(&value.0))).collect()
}

/// Probes come without a certificate; who has one must have that of the API server.
fn settings(held: &Held, front: &Front) -> Result<Settings, String> {
    let provider = Arc::new(ring::default_provider());
    let (chain, key) = held.certified().ok_or("the Secret has no certificate")??;
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
