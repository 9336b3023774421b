//! Consistency of the three Secrets of a cluster, reported before members fail because of it.

use jiff::Timestamp;
use rustls::CertificateError;
use rustls::pki_types::CertificateDer;

use super::material::Data;
use super::{Access, CertificateRole, Fault, Files, Names, TlsGoal};

#[derive(Clone, Debug)]
pub(crate) struct Checked {
    /// Access of the operator; plain without client TLS.
    pub(crate) access: Access,
    /// Expiry of the first certificate to expire, in seconds since 1970.
    pub(crate) expires: Option<i64>,
    /// Warnings.
    pub(crate) notes: Vec<String>,
}

/// A certificate that expires sooner gets a warning.
const SOON: i64 = 14 * 86_400;

pub(crate) fn check<'a>(
    goal: &TlsGoal,
    names: &Names,
    secret: impl Fn(&str) -> Option<&'a Data>,
    now: Timestamp,
) -> Result<Checked, Vec<Fault>> {
    let mut faults = Vec::new();
    let mut notes = Vec::new();
    let mut read = |role: CertificateRole| {
        let name = goal.secret(role)?;
        match Files::read(name, role, secret(name), now) {
            Ok(files) => Some((name, files)),
            Err(found) => {
                faults.extend(found);
                None
            }
        }
    };
    let (peer, server, client) =
        (read(CertificateRole::Peer), read(CertificateRole::Server), read(CertificateRole::Operator));

    if let Some((secret, files)) = &peer {
        faults.extend(between_members(secret, files, names, now));
        let inside = |name: &str| files.pair.serves(&files.authorities, name, now).is_ok();
        // etcd resolves the address of a peer and requires one of the names in its certificate.
        if goal.auto.is_none()
            && names.members()[1..].iter().all(|name| !inside(&name.replace('*', "member")))
        {
            let wanted = &names.members()[1];
            notes.push(format!(
                "Secret {secret}, key peer.crt: missing a name such as {wanted}; etcd may reject peers \
                 after a reverse lookup"
            ));
        }
    }
    let mut access = Access::plain();
    if let (Some((server_secret, server)), Some((client_secret, client))) = (&server, &client) {
        match towards_clients((server_secret, server), (client_secret, client), names, now) {
            Ok(name) => access = Access::tls(client, name),
            Err(fault) => faults.push(fault),
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut expires = None;
    for (role, found) in [
        (CertificateRole::Peer, &peer),
        (CertificateRole::Server, &server),
        (CertificateRole::Operator, &client),
    ] {
        let Some((secret, files)) = found else { continue };
        let end = files.pair.not_after;
        expires = Some(expires.map_or(end, |earlier: i64| earlier.min(end)));
        if goal.auto.is_none() && end - now.as_second() < SOON {
            let at = super::material::date(end);
            notes.push(format!("Secret {secret}, key {}: expires at {at}", role.keys()[0]));
        }
    }
    Ok(Checked { access, expires, notes })
}

fn between_members(secret: &str, files: &Files, names: &Names, now: Timestamp) -> Vec<Fault> {
    let fault = |index: usize, reason, text| Fault {
        secret: secret.to_owned(),
        key: Some(CertificateRole::Peer.keys()[index]),
        reason,
        text,
    };
    let name = names.peer();
    let wildcard = name.replacen("member", "*", 1);
    let mut faults = Vec::new();
    match files.pair.serves(&files.authorities, &name, now) {
        Ok(()) => {
            // Every member is a client of the others, with the same certificate.
            if let Err(error) = files.pair.is_let_in(&files.authorities, now) {
                let (index, reason, text) = meaning(&error, "", "client");
                faults.push(fault(index, reason, text));
            }
        }
        Err(error) => {
            let (index, reason, text) = meaning(&error, &wildcard, "server");
            faults.push(fault(index, reason, text));
        }
    }
    faults
}

/// The server name of the members, or the fault with its Secret and key.
fn towards_clients(
    (server_secret, server): (&str, &Files),
    (client_secret, client): (&str, &Files),
    names: &Names,
    now: Timestamp,
) -> Result<String, Fault> {
    let ([server_crt, _, server_ca], [client_crt, _, client_ca]) =
        (CertificateRole::Server.keys(), CertificateRole::Operator.keys());
    let fault =
        |secret: &str, key, reason, text| Fault { secret: secret.into(), key: Some(key), reason, text };
    let wanted = names.server();
    let mut first = None;
    let served = wanted.iter().find(|name| match server.pair.serves(&client.authorities, name, now) {
        Ok(()) => true,
        Err(error) => {
            first.get_or_insert(error);
            false
        }
    });
    let Some(name) = served else {
        let error = first.unwrap_or(rustls::Error::General("no name".into()));
        let short = format!("{} or {}", names.members()[0], names.service()[0]);
        let (index, reason, text) = meaning(&error, &short, "server");
        return Err(match reason {
            // A client Secret with a certificate of another authority is the wrong one. If it is consistent,
            // the server's certificate does not match.
            "UnknownAuthority" if client.pair.is_let_in(&client.authorities, now).is_ok() => {
                let text =
                    format!("is not signed by an authority in key {client_ca} of Secret {client_secret}");
                fault(server_secret, server_crt, reason, text)
            }
            "UnknownAuthority" => {
                let text = format!(
                    "does not contain the authority that signed key {server_crt} of Secret {server_secret}"
                );
                fault(client_secret, client_ca, reason, text)
            }
            // The operator's own Secret has the authorities that it trusts.
            _ if index == 2 => fault(client_secret, client_ca, reason, text),
            _ => fault(server_secret, CertificateRole::Server.keys()[index], reason, text),
        });
    };
    if let Err(error) = client.pair.is_let_in(&server.authorities, now) {
        let (index, reason, text) = meaning(&error, "", "client");
        return Err(match reason {
            "UnknownAuthority" => {
                let text = format!(
                    "does not contain the authority that signed key {client_crt} of Secret {client_secret}"
                );
                fault(server_secret, server_ca, reason, text)
            }
            _ if index == 2 => fault(server_secret, server_ca, reason, text),
            _ => fault(client_secret, CertificateRole::Operator.keys()[index], reason, text),
        });
    }
    // etcd's gateway presents the server certificate to etcd itself.
    Ok(name.clone())
}

/// The faulty part (0 certificate, 1 key, 2 authorities), with a machine-readable reason and a message.
fn meaning(error: &rustls::Error, names: &str, usage: &str) -> (usize, &'static str, String) {
    match error {
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => (0, "WrongName", format!("is not valid for {names}; add it to the subject alternative names")),
        rustls::Error::InvalidCertificate(
            // Of two authorities with one name the other one signed it.
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => (2, "UnknownAuthority", "does not contain the authority that signed the certificate".into()),
        rustls::Error::InvalidCertificate(
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. },
        ) => (
            0,
            "WrongUsage",
            format!("is not valid for a {usage}; its extended key usage must contain {usage} authentication"),
        ),
        rustls::Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => (2, "Expired", "an authority in the chain has expired".into()),
        other => (0, "NotACertificate", format!("is invalid: {other}")),
    }
}

/// Whether a list has all the wanted authorities.
pub(crate) fn contains_all(list: &[CertificateDer<'static>], wanted: &[CertificateDer<'static>]) -> bool {
    wanted.iter().all(|authority| list.contains(authority))
}
