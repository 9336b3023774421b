//! The console's certificate, reloaded when its files change.

use std::{
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// Interval of comparing the files with the certificate in use. A kubelet takes longer to update a mounted
/// Secret.
const INTERVAL: Duration = Duration::from_secs(10);

/// Certificate and private key, in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate chain without the root.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

type Pem = (Vec<u8>, Vec<u8>);

/// The certificate in use.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// Reads the files now and whenever they change. An invalid pair leaves the previous one in use.
pub(crate) fn acceptor(files: TlsFiles, shutdown: CancellationToken) -> Result<TlsAcceptor, String> {
    let pem = read(&files)?;
    let current = Arc::new(Current(RwLock::new(Arc::new(certified(&files, &pem)?))));
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_cert_resolver(Arc::clone(&current) as _);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    tokio::spawn(follow(files, pem, current, shutdown));
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn follow(files: TlsFiles, mut last: Pem, current: Arc<Current>, shutdown: CancellationToken) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = shutdown.cancelled() => return,
        }
        reload(&files, &mut last, &current);
    }
}

fn reload(files: &TlsFiles, last: &mut Pem, current: &Current) {
    let pem = match read(files) {
        Ok(pem) if pem == *last => return,
        Ok(pem) => pem,
        Err(why) => {
            tracing::warn!(why, "failed to reload the TLS certificate; keeping the current one");
            return;
        }
    };
    match certified(files, &pem) {
        Ok(key) => {
            *current.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
            tracing::info!("reloaded the TLS certificate");
        }
        Err(why) => tracing::warn!(why, "failed to reload the TLS certificate; keeping the current one"),
    }
    // An invalid pair is reported once.
    *last = pem;
}

fn read(files: &TlsFiles) -> Result<Pem, String> {
    let read = |path: &PathBuf| {
        std::fs::read(path).map_err(|error| format!("failed to read {}: {error}", path.display()))
    };
    Ok((read(&files.certificate)?, read(&files.key)?))
}

fn certified(files: &TlsFiles, (certificate, key): &Pem) -> Result<CertifiedKey, String> {
    let chain = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("failed to parse {} as PEM: {error}", files.certificate.display()))?;
    if chain.is_empty() {
        return Err(format!("{} contains no certificate", files.certificate.display()));
    }
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|error| format!("{} contains no private key: {error}", files.key.display()))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| {
        format!(
            "private key {} does not match certificate {}: {error}",
            files.key.display(),
            files.certificate.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn write(files: &TlsFiles, name: &str) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap();
        std::fs::write(&files.certificate, certificate.pem()).unwrap();
        std::fs::write(&files.key, key.serialize_pem()).unwrap();
    }

    #[test]
    fn a_new_pair_is_taken_and_a_wrong_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let files =
            TlsFiles { certificate: directory.path().join("tls.crt"), key: directory.path().join("tls.key") };
        assert!(read(&files).unwrap_err().contains("tls.crt"), "the file that is missing is named");
        write(&files, "a.example");
        let mut last = read(&files).unwrap();
        let current = Current(RwLock::new(Arc::new(certified(&files, &last).unwrap())));
        let in_use = || current.0.read().unwrap().cert[0].clone();
        let first = in_use();
        // when only the certificate changes, as between two writes, then the old pair stays in use
        let key = std::fs::read(&files.key).unwrap();
        write(&files, "b.example");
        let second_key = std::fs::read(&files.key).unwrap();
        std::fs::write(&files.key, key).unwrap();
        reload(&files, &mut last, &current);
        assert_eq!(in_use(), first);
        // and when the key follows, then the new pair is in use
        std::fs::write(&files.key, second_key).unwrap();
        reload(&files, &mut last, &current);
        let second = in_use();
        assert_ne!(second, first);
        for (path, text) in [(&files.certificate, "no PEM"), (&files.key, "")] {
            std::fs::write(path, text).unwrap();
            reload(&files, &mut last, &current);
            assert_eq!(in_use(), second);
        }
    }
}
