//! Certificate rotation while the serving webhook is called all the time.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use olm_tests::inprocess::{Catalog, Endpoint, Operator, World, text};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{a_crd, op, scenario};

const CSV: &str = "a.v1.0.0";
const SECRET: &str = "a-service-cert";
const DAY: Duration = Duration::from_secs(86_400);

/// An authority and its certificate, in PEM.
struct Made {
    authority: String,
    certificate: String,
    key: String,
}

/// As the manager creates them, at another time.
fn made(name: &str, age: Duration, left: Duration) -> Result<Made> {
    let now = SystemTime::now();
    let common = |params: &mut CertificateParams, name: &str| {
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = (now - age).into();
        params.not_after = (now + left).into();
    };
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    common(&mut params, name);
    let key = KeyPair::generate()?;
    let authority = params.self_signed(&key)?.pem();
    let issuer = Issuer::new(params, key);
    let names = ["a-service.ns", "a-service.ns.svc", "a-service.ns.svc.cluster.local"];
    let mut params = CertificateParams::new(names.map(str::to_owned))?;
    common(&mut params, "a-service.ns");
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?.pem();
    Ok(Made { authority, certificate, key: key.serialize_pem() })
}

fn hooked(port: u16) -> Operator {
    let rules = json!([{ "apiGroups": ["a.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["as"] }]);
    op("1.0.0")
        .owns(a_crd(&["v1"]))
        .image("example.invalid/local:1")
        .webhook("ValidatingAdmissionWebhook", "check.a.example.com", rules)
        .csv(|csv| csv["spec"]["webhookdefinitions"][0]["targetPort"] = port.into())
}

/// Calls the webhook once; any other result than a denial is an error.
async fn asked(world: &World) -> Result<()> {
    let object = json!({ "apiVersion": "a.example.com/v1", "kind": "A", "metadata": { "name": "forbidden", "namespace": "ns" } });
    let refused = world.apply(&object).await.err().context("it was let in")?;
    ensure!(format!("{refused:#}").contains("the operator forbids it"), "{refused:#}");
    Ok(())
}

/// Changes the Secret, and triggers the manager, which does not watch it.
async fn patch_secret(world: &World, parts: &[(&str, &str)]) -> Result<()> {
    let data: serde_json::Map<String, Value> =
        parts.iter().map(|(key, pem)| ((*key).to_owned(), STANDARD.encode(pem).into())).collect();
    world.patch("Secret", "ns", SECRET, &json!({ "data": data })).await?;
    world.touch("ClusterServiceVersion", "ns", CSV).await
}

async fn part(world: &World, key: &str) -> Result<String> {
    let secret = world.get("Secret", "ns", SECRET).await?;
    let found = secret["data"][key].as_str().with_context(|| format!("no {key}"))?;
    Ok(String::from_utf8(STANDARD.decode(found)?)?)
}

/// Waits until the callers of the webhook trust this authority.
async fn trusted(world: &World, authority: &str) -> Result<String> {
    world
        .eventually("the authority to be trusted", async || {
            let all = world.list("ValidatingWebhookConfiguration", "").await?;
            let first = all.first().context("no webhook")?;
            let bundle = STANDARD.decode(text(first, "/webhooks/0/clientConfig/caBundle"))?;
            let bundle = String::from_utf8(bundle)?;
            ensure!(lines(&bundle).contains(&lines(authority)), "it is not in\n{bundle}");
            Ok(bundle)
        })
        .await
}

/// PEM without line breaks.
fn lines(pem: &str) -> String {
    pem.split_whitespace().collect()
}

/// WH-7: a certificate that expires soon is replaced. Both authorities are trusted before the new certificate
/// is served, and as long as the old one is valid: a server that switches late is still trusted. Not one
/// request fails meanwhile.
#[test]
fn a_certificate_follows_another_without_a_gap() {
    scenario(async |world, _manager| {
        // given an operator whose webhook is called, with a certificate that expires in a month
        let endpoint = Endpoint::start(world.client.clone(), "ns", SECRET).await?;
        world.publish("catalog", &Catalog::chain(&[&hooked(endpoint.port)])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", CSV).await?;
        let old = made("old", 700 * DAY, 30 * DAY)?;
        patch_secret(
            &world,
            &[("tls.crt", &old.certificate), ("tls.key", &old.key), ("olmCAKey", &old.authority)],
        )
        .await?;
        trusted(&world, &old.authority).await?;
        world.eventually("the webhook to be reached", async || asked(&world).await).await?;
        let world = Arc::new(world);
        let (stop, wrong) = (CancellationToken::new(), Arc::new(Mutex::new(Vec::new())));
        let asking = tokio::spawn({
            let (world, stop, wrong) = (world.clone(), stop.clone(), wrong.clone());
            async move {
                let mut times = 0_u32;
                while !stop.is_cancelled() {
                    if let Err(error) = asked(&world).await {
                        wrong.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{error:#}"));
                    }
                    times += 1;
                }
                times
            }
        });

        // then a new one is created, and trusted, and not served yet
        world.eventually("the next certificate", async || part(&world, "next.crt").await).await?;
        let authorities = part(&world, "olmCAKey").await?;
        ensure!(authorities.matches("BEGIN CERTIFICATE").count() == 2, "{authorities}");
        let bundle = trusted(&world, &authorities).await?;
        ensure!(lines(&bundle).contains(&lines(&old.authority)), "the old one is not trusted any more");
        ensure!(lines(&part(&world, "tls.crt").await?) == lines(&old.certificate), "it was shown at once");

        // when another one has been trusted for long enough, and the operator keeps serving the old one
        let new = made("new", DAY, 600 * DAY)?;
        patch_secret(&world, &[("olmCAKey", &format!("{authorities}{}", new.authority))]).await?;
        trusted(&world, &new.authority).await?;
        endpoint.hold().await?;
        patch_secret(&world, &[("next.crt", &new.certificate), ("next.key", &new.key)]).await?;
        // then it becomes the current one, and the old one is still trusted
        world
            .eventually("the switch", async || {
                let now = part(&world, "tls.crt").await?;
                ensure!(lines(&now) == lines(&new.certificate), "{now}");
                Ok(())
            })
            .await?;
        world.quiet().await?;
        let bundle = trusted(&world, &new.authority).await?;
        ensure!(lines(&bundle).contains(&lines(&old.authority)), "the old one is not trusted any more");
        asked(&world).await.context("with the old certificate")?;
        endpoint.release();
        asked(&world).await.context("with the new certificate")?;
        ensure!(part(&world, "next.crt").await.is_err(), "the next one is there still");
        world.csv("ns", CSV, "Succeeded").await?;
        stop.cancel();
        let times = asking.await?;
        let wrong = std::mem::take(&mut *wrong.lock().unwrap_or_else(PoisonError::into_inner));
        println!("asked {times} times");
        ensure!(wrong.is_empty(), "{} of {times} went wrong: {}", wrong.len(), wrong.join("\n"));
        Ok(())
    });
}
