//! Faults of invalid Secrets.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::auto::{self, Kind, Settings};
use super::check::Checked;
use super::material::Data;
use super::{CertificateRole, ClientGoal, Fault, Names, TlsGoal, check};

fn now() -> Timestamp {
    "2026-06-01T00:00:00Z".parse().unwrap()
}

fn names() -> Names {
    Names { cluster: "orders".into(), namespace: "shop".into(), domain: String::new() }
}

fn settings() -> Settings {
    Settings { days: 30, names: Vec::new() }
}

fn goal() -> TlsGoal {
    let client = ClientGoal { server: "server".into(), operator: "operator".into() };
    TlsGoal { peer: Some("peer".into()), client_facing: Some(client), auto: None }
}

/// Secrets of one authority per kind, issued at that time for that cluster.
fn made(names: &Names, at: Timestamp) -> BTreeMap<String, Data> {
    let mut secrets = BTreeMap::new();
    for kind in Kind::ALL {
        let authority = auto::authority("orders", kind, &settings(), at).unwrap();
        for role in kind.roles() {
            let pair = auto::certificate(*role, names, &settings(), &authority, at).unwrap();
            let [certificate, key, authorities] = role.keys();
            let data = Data::from([
                (certificate.to_owned(), pair.certificate.clone()),
                (key.to_owned(), pair.key.clone()),
                (authorities.to_owned(), authority.pem().to_vec()),
            ]);
            secrets.insert(goal().secret(*role).unwrap().to_owned(), data);
        }
    }
    secrets
}

fn judge(secrets: &BTreeMap<String, Data>) -> Result<Checked, Vec<Fault>> {
    check(&goal(), &names(), |name| secrets.get(name), now())
}

/// The only fault, as Secret, key and reason.
fn fault(secrets: &BTreeMap<String, Data>) -> (String, Option<&'static str>, &'static str) {
    let faults = judge(secrets).unwrap_err();
    assert_eq!(faults.len(), 1, "{faults:?}");
    (faults[0].secret.clone(), faults[0].key, faults[0].reason)
}

fn of(secret: &str, key: &'static str, reason: &'static str) -> (String, Option<&'static str>, &'static str) {
    (secret.into(), Some(key), reason)
}

#[test]
fn secrets_that_fit_together_are_good_for_the_service() {
    let checked = judge(&made(&names(), now())).unwrap();
    assert_eq!(checked.access.scheme(), "https");
    assert!(checked.notes.is_empty(), "{:?}", checked.notes);
    let end = now() + SignedDuration::from_hours(30 * 24);
    assert_eq!(checked.expires, Some(end.as_second()));
    assert!(!format!("{:?}", checked.access).contains("KEY"), "keys are never printed");
}

#[test]
fn what_is_missing_is_named() {
    let mut secrets = made(&names(), now());
    secrets.remove("peer");
    let faults = judge(&secrets).unwrap_err();
    assert_eq!(
        faults[0].to_string(),
        "Secret peer: does not exist; create it with the keys peer.crt, peer.key, peer-ca.crt"
    );
    let mut secrets = made(&names(), now());
    secrets.get_mut("server").unwrap().remove("server-ca.crt");
    assert_eq!(fault(&secrets), of("server", "server-ca.crt", "KeyMissing"));
}

#[test]
fn a_key_of_another_certificate_is_distinguished_from_no_key() {
    let mut secrets = made(&names(), now());
    let other = made(&names(), now())["server"]["server.key"].clone();
    secrets.get_mut("server").unwrap().insert("server.key".into(), other);
    assert_eq!(fault(&secrets), of("server", "server.key", "KeyDoesNotMatch"));
    secrets.get_mut("server").unwrap().insert("server.key".into(), b"no key".to_vec());
    assert_eq!(fault(&secrets), of("server", "server.key", "NotAKey"));
}

#[test]
fn an_expired_certificate_reports_its_expiry() {
    let mut secrets = made(&names(), now());
    let old = made(&names(), now() - SignedDuration::from_hours(31 * 24));
    secrets.insert("peer".into(), old["peer"].clone());
    assert_eq!(fault(&secrets), of("peer", "peer.crt", "Expired"));
    let text = judge(&secrets).unwrap_err()[0].text.clone();
    assert!(text.starts_with("expired at 2026-05-31T00:00:00Z"), "{text}");
    // A certificate that expires soon is not a fault yet.
    let soon = made(&names(), now() - SignedDuration::from_hours(29 * 24));
    assert!(judge(&soon).unwrap().notes[0].contains("expires at"));
}

#[test]
fn a_certificate_of_another_cluster_names_the_missing_name() {
    let other = Names { cluster: "bills".into(), ..names() };
    let mut secrets = made(&names(), now());
    secrets.insert("peer".into(), made(&other, now())["peer"].clone());
    assert_eq!(fault(&secrets), of("peer", "peer.crt", "WrongName"));
    assert!(judge(&secrets).unwrap_err()[0].text.contains("*.orders.shop.svc"));
}

#[test]
fn mismatched_authorities_are_reported_where_they_are_trusted() {
    let (mut secrets, others) = (made(&names(), now()), made(&names(), now()));
    let foreign = others["operator"]["etcd-client-ca.crt"].clone();
    secrets.get_mut("operator").unwrap().insert("etcd-client-ca.crt".into(), foreign.clone());
    assert_eq!(fault(&secrets), of("operator", "etcd-client-ca.crt", "UnknownAuthority"));
    let mut secrets = made(&names(), now());
    secrets.get_mut("server").unwrap().insert("server-ca.crt".into(), foreign);
    assert_eq!(fault(&secrets), of("server", "server-ca.crt", "UnknownAuthority"));
    let text = judge(&secrets).unwrap_err()[0].text.clone();
    assert_eq!(text, "does not contain the authority that signed key etcd-client.crt of Secret operator");
}

#[test]
fn a_server_certificate_of_another_authority_is_a_fault_of_the_server_secret() {
    // The whole Secret is of another authority, or only its certificate.
    let (secrets, others) = (made(&names(), now()), made(&names(), now()));
    let mut whole = secrets.clone();
    whole.insert("server".into(), others["server"].clone());
    let mut certificate = secrets;
    for key in ["server.crt", "server.key"] {
        certificate.get_mut("server").unwrap().insert(key.into(), others["server"][key].clone());
    }
    for secrets in [whole, certificate] {
        assert_eq!(fault(&secrets), of("server", "server.crt", "UnknownAuthority"));
        let text = judge(&secrets).unwrap_err()[0].text.clone();
        assert_eq!(text, "is not signed by an authority in key etcd-client-ca.crt of Secret operator");
    }
}

#[test]
fn a_certificate_for_another_use_is_refused() {
    let mut secrets = made(&names(), now());
    // Members are clients of each other: a certificate for clients only is not sufficient.
    let client = secrets["operator"].clone();
    let data = Data::from([
        ("server.crt".to_owned(), client["etcd-client.crt"].clone()),
        ("server.key".to_owned(), client["etcd-client.key"].clone()),
        ("server-ca.crt".to_owned(), client["etcd-client-ca.crt"].clone()),
    ]);
    secrets.insert("server".into(), data);
    let (secret, key, reason) = fault(&secrets);
    assert_eq!((secret.as_str(), key), ("server", Some("server.crt")));
    assert!(["WrongUsage", "WrongName"].contains(&reason), "{reason}");
}

#[test]
fn all_faults_are_reported_at_once() {
    assert_eq!(judge(&BTreeMap::new()).unwrap_err().len(), 3);
}

#[test]
fn half_of_tls_is_refused_and_both_kinds_exclude_each_other() {
    let read = |policy: serde_json::Value| {
        let mut errors = Vec::new();
        let goal = super::goal("orders", Some(&serde_json::from_value(policy).unwrap()), &mut errors);
        (goal, errors)
    };
    let json = serde_json::json!({ "static": { "operatorSecret": "o" } });
    assert!(read(json).1[0].starts_with("spec.TLS.static.member.serverSecret"));
    let json = serde_json::json!({ "static": { "member": { "serverSecret": "s" } } });
    assert!(read(json).1[0].starts_with("spec.TLS.static.operatorSecret"));
    let json = serde_json::json!({ "static": { "member": { "peerSecret": "p" } } });
    let (goal, errors) = read(json);
    assert!(errors.is_empty() && goal.peer_scheme() == "https" && goal.client_scheme() == "http");
    let json = serde_json::json!({ "static": {}, "auto": {} });
    assert!(read(json).1[0].contains("mutually exclusive"));
    let json = serde_json::json!({ "auto": { "certificateDays": 0, "serverNames": ["a b"] } });
    assert_eq!(read(json).1.len(), 2);
    let (goal, _) = read(serde_json::json!({ "auto": {} }));
    assert_eq!(goal.secret(CertificateRole::Operator), Some("orders-client-tls"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// Any content of the Secrets gives a result, never a panic.
    #[test]
    fn corrupted_secrets_do_not_panic(
        which in 0usize..3, key in 0usize..3, cut in 0usize..2000, bytes in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut secrets = made(&names(), now());
        let role = CertificateRole::ALL[which];
        let data = secrets.get_mut(goal().secret(role).unwrap()).unwrap();
        let value = data.get_mut(role.keys()[key]).unwrap();
        let at = cut.min(value.len());
        value.splice(at..(at + bytes.len()).min(value.len()), bytes);
        let _ = judge(&secrets);
    }
}
