//! S20: members with TLS, with clients that stay connected while certificates change.
//!
//! The operator's requests to such members are encrypted: the audit does not see them. The result is checked
//! as everywhere.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use etcd_operator::{crd::EtcdCluster, tls::SecretCache, validate::validate};
use futures::future::try_join_all;
use olm_tests::etcd_stage::{Handle, Stage, condition};
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use serde_json::{Value, json};

use crate::{
    certificates::{Authority, GOOD, Leaf},
    clients::Clients,
    judge::{Guarantee, judge},
    long, scenario, spec,
};

/// The test's server name for members.
pub const SERVICE: &str = "c-client.ns.svc";
/// Names and addresses of members: those of DNS, and those of the stage, which has none.
const NAMES: [&str; 5] =
    ["*.c.ns.svc", "*.c.ns.svc.cluster.local", SERVICE, "c-client.ns.svc.cluster.local", "localhost"];
/// Members of one stage have addresses that end with numbers from 1.
const MEMBERS: u8 = 12;

/// Addresses of the members of a stage, for servers and clients.
pub fn addresses(stage: &Stage) -> Vec<IpAddr> {
    let [a, b, c, _] = stage.net.outside("unknown").octets();
    let outside = (1..=MEMBERS).map(|d| IpAddr::from([a, b, c, d]));
    outside.chain([IpAddr::from([127, 0, 0, 1])]).collect()
}

/// The last year of an expired certificate.
const OVER: i32 = 2021;

/// What members present, and the year and names in it.
struct Shown {
    peers: Authority,
    clients: Authority,
    names: Vec<String>,
}

impl Shown {
    fn new(stage: &Stage) -> Result<Self> {
        let mut names: Vec<String> = NAMES.map(str::to_owned).to_vec();
        names.extend(addresses(stage).iter().map(ToString::to_string));
        Ok(Self { peers: Authority::new("peers")?, clients: Authority::new("clients")?, names })
    }

    /// New certificates in all three Secrets; returns that of the servers.
    async fn renew(&self, stage: &Stage) -> Result<Vec<u8>> {
        publish(stage, &self.peers, "peer", "peer", &self.peers.leaf(&self.names, GOOD)?).await?;
        let operator = self.clients.leaf(&[], GOOD)?;
        publish(stage, &self.clients, "operator", "etcd-client", &operator).await?;
        let server = self.clients.leaf(&self.names, GOOD)?;
        publish(stage, &self.clients, "server", "server", &server).await?;
        Ok(server.certificate.der().to_vec())
    }
}

/// Writes one of the three Secrets, with the keys of a part.
async fn publish(stage: &Stage, authority: &Authority, secret: &str, part: &str, leaf: &Leaf) -> Result<()> {
    stage.apply(&authority.secret("ns", secret, part, leaf)).await
}

/// Accepts any certificate: the connection has it.
#[derive(Debug)]
struct Anything;

impl ServerCertVerifier for Anything {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// The certificate that a member presents to clients now.
async fn shown(cluster: &Handle<'_>, member: &str) -> Result<Vec<u8>> {
    let config = ClientConfig::builder().dangerous().with_custom_certificate_verifier(Arc::new(Anything));
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config.with_no_client_auth()));
    let stream = tokio::net::TcpStream::connect((cluster.stage.net.inside(member), 2379)).await?;
    let connection = connector.connect(ServerName::try_from(SERVICE)?, stream).await?;
    let (_, session) = connection.get_ref();
    Ok(session.peer_certificates().and_then(|chain| chain.first()).context("no certificate")?.to_vec())
}

/// Waits until no member presents another certificate.
async fn all_show(cluster: &Handle<'_>, meant: impl Fn(&[u8]) -> bool) -> Result<()> {
    cluster
        .stage
        .eventually("all members to show the new certificate", async || {
            for member in cluster.names().await? {
                ensure!(meant(&shown(cluster, &member).await?), "{member} shows another one");
            }
            Ok(())
        })
        .await
}

/// A cluster with TLS; the test uses the operator's certificate.
pub async fn secured<'a>(stage: &'a Stage, mut spec: Value, tls: Value, secret: &str) -> Result<Handle<'a>> {
    spec["TLS"] = tls;
    let size = usize::try_from(spec["size"].as_u64().context("a size")?)?;
    stage.enter_through(secret, SERVICE);
    let cluster = stage.create("c", spec).await?;
    cluster.steady(size).await?;
    Ok(cluster)
}

/// Number of starts of members' processes.
fn starts(cluster: &Handle<'_>) -> usize {
    cluster.stage.kubelet.starts().len()
}

/// S20: the user's certificates are renewed while clients are connected: no member is restarted, and new
/// connections get the new ones. An expired one and one without the names are reported, with Secret and key,
/// and nothing is done until they are fixed.
#[test]
fn s20_certificates_of_the_users_are_renewed_under_clients() {
    scenario("S20 static", async |stage| {
        let _operator = stage.operator()?;
        let given = Shown::new(stage)?;
        given.renew(stage).await?;
        let member = json!({ "peerSecret": "peer", "serverSecret": "server" });
        let tls = json!({ "static": { "member": member, "operatorSecret": "operator" } });
        let cluster = secured(stage, spec(2), tls, "operator").await?;
        let clients = Clients::start(&cluster, 3, 20);
        let before = starts(&cluster);
        let renewed = given.renew(stage).await?;
        all_show(&cluster, |certificate| certificate == renewed).await?;
        ensure!(starts(&cluster) == before, "a member was restarted for a certificate");
        // Afterwards the third joins.
        cluster.spec(json!({ "size": 3 })).await?;
        cluster.steady(3).await?;
        judge(&cluster, clients, Guarantee::of(3).unreported()).await?;

        let before = starts(&cluster);
        let over = given.clients.leaf(&given.names, OVER)?;
        publish(stage, &given.clients, "server", "server", &over).await?;
        let nameless = given.peers.leaf(&["elsewhere.example.com".to_owned()], GOOD)?;
        publish(stage, &given.peers, "peer", "peer", &nameless).await?;
        let reported = |object: &Value| {
            let reported = condition(object, "TLSReady");
            let text = reported["message"].as_str().unwrap_or_default().to_owned();
            reported["status"] == "False"
                && text.contains("Secret server, key server.crt: expired at 2021-12-31")
                && text.contains("Secret peer, key peer.crt")
                && text.contains("*.c.ns.svc")
        };
        cluster.until("both mistakes to be reported", reported).await?;
        cluster.spec(json!({ "size": 2 })).await?;
        let blocked = |object: &Value| {
            object["status"]["observedGeneration"] == object["metadata"]["generation"]
                && condition(object, "TLSReady")["status"] == "False"
        };
        cluster.until("the new size to be seen", blocked).await?;
        let names = cluster.names().await?;
        ensure!(names.len() == 3, "with wrong certificates a member was removed: {names:?}");
        let renewed = given.renew(stage).await?;
        all_show(&cluster, |certificate| certificate == renewed).await?;
        ensure!(starts(&cluster) == before, "a member was restarted for a certificate");
        cluster.condition("TLSReady", "True", "").await?;
        cluster.steady(2).await
    });
}

/// S20, with certificates issued by the operator: a deleted Secret is recreated, with clients connected and
/// without a restart. In the long run the authorities are lost too: new ones are rotated in, one member after
/// the other.
#[test]
fn s20_certificates_of_the_operators_are_made_again_under_clients() {
    scenario("S20 auto", async |stage| {
        let _operator = stage.operator()?;
        let names: Vec<String> = addresses(stage).iter().map(ToString::to_string).collect();
        let cluster =
            secured(stage, spec(2), json!({ "auto": { "serverNames": names } }), "c-client-tls").await?;
        let object = cluster.object().await?;
        ensure!(object["status"]["tls"]["clientSecret"] == "c-client-tls", "{}", object["status"]);
        let clients = Clients::start(&cluster, 3, 21);
        let before = starts(&cluster);
        let old = shown(&cluster, cluster.names().await?.first().context("a member")?).await?;
        for secret in ["c-server-tls", "c-peer-tls"] {
            stage.delete("Secret", "ns", secret).await?;
        }
        all_show(&cluster, |certificate| certificate != old).await?;
        ensure!(starts(&cluster) == before, "a member was restarted for a certificate");
        cluster.spec(json!({ "size": 3 })).await?;
        cluster.steady(3).await?;
        if long() {
            handed_over(&cluster).await?;
        }
        judge(&cluster, clients, Guarantee::of(3).unreported().outage(15)).await.map(drop)
    });
}

/// The operator's controllers of clusters, backups and restores each issue and renew missing certificates. At
/// the same moment one of them writes, and the others use its result: no error is reported.
#[test]
fn controllers_that_renew_certificates_at_once_agree() {
    scenario("certificates renewed at once", async |stage| {
        let mut wanted = spec(2);
        wanted["paused"] = true.into();
        wanted["TLS"] = json!({ "auto": {} });
        let cluster = stage.create("c", wanted).await?;
        for name in ["a.example.com", "b.example.com", "c.example.com"] {
            cluster.spec(json!({ "TLS": { "auto": { "serverNames": [name] } } })).await?;
            let object: EtcdCluster = serde_json::from_value(cluster.object().await?)?;
            let valid = validate(&object)?;
            // Each of them starts now, without a cache.
            let keepers: [SecretCache; 6] = Default::default();
            try_join_all(keepers.iter().map(|keeper| keeper.secure(&stage.client, &valid)))
                .await
                .with_context(|| format!("certificates for {name}"))?;
        }
        Ok(())
    });
}

/// Five minutes after its creation every kubelet has updated the next authority in its pods; then three
/// members are replaced.
const HANDED_OVER: Duration = Duration::from_secs(900);

/// Deletes the keys of the authorities, and waits until new ones sign and every member has been replaced for
/// it.
async fn handed_over(cluster: &Handle<'_>) -> Result<()> {
    let (stage, before) = (cluster.stage, cluster.names().await?);
    let old = shown(cluster, before.first().context("a member")?).await?;
    stage.delete("Secret", "ns", "c-tls-authorities").await?;
    stage
        .within(HANDED_OVER, "the members to be others, with certificates of another authority", async || {
            let now: BTreeSet<String> = cluster.names().await?;
            ensure!(now.is_disjoint(&before), "{before:?} became {now:?}");
            for member in &now {
                ensure!(shown(cluster, member).await? != old, "{member} shows the old certificate");
            }
            Ok(())
        })
        .await?;
    stage.within(HANDED_OVER, "all to be well", async || cluster.steady(3).await).await
}
