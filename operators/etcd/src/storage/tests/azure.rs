//! Azurite, Microsoft's emulator of Azure Blob Storage, where it is installed. It verifies signatures like
//! Azure.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;

/// Azurite's predefined account and key, from its documentation.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/// A key of no account.
pub(super) const WRONG_KEY: &str = "bm90IHRoZSBrZXk=";

pub(super) struct Azurite {
    process: Child,
    url: String,
    _dir: tempfile::TempDir,
}

impl Drop for Azurite {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Azurite {
    /// Starts it, with the container `bucket`; none where it is not installed.
    pub(super) async fn start(test: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let command = Command::new("azurite-blob")
            .args([
                "--blobPort",
                "0",
                "--disableTelemetry",
                "--silent",
                "--skipApiVersionCheck",
                "--location",
            ])
            .arg(dir.path())
            // Node makes its pipes non-blocking for all holders: none of them is inherited.
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut process) = command else {
            println!("skipped: {test} on Azure: azurite-blob is not there; npm install --global azurite");
            return None;
        };
        // The last word of "Azurite Blob service is successfully listens on <URL>".
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let line = lines.find_map(|line| line.ok().filter(|line| line.contains("listens on")));
        let line = line.expect("Azurite ended");
        // It keeps logging, and ends when its output is closed.
        std::thread::spawn(move || lines.for_each(drop));
        let host = line.rsplit(' ').next().unwrap().trim();
        let azurite = Self { process, url: format!("{host}/{ACCOUNT}"), _dir: dir };
        azurite.make("bucket").await;
        Some(azurite)
    }

    /// Creates a container, which no library in use supports.
    async fn make(&self, container: &str) {
        let date = jiff::Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let head = format!("x-ms-date:{date}\nx-ms-version:2021-08-06");
        let what = format!("/{ACCOUNT}/{ACCOUNT}/{container}\nrestype:container");
        let text = format!("PUT{}{head}\n{what}", "\n".repeat(12));
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &STANDARD.decode(KEY).unwrap());
        let signature = STANDARD.encode(ring::hmac::sign(&key, text.as_bytes()));
        let url: hyper::Uri = format!("{}/{container}?restype=container", self.url).parse().unwrap();
        let socket = tokio::net::TcpStream::connect(url.authority().unwrap().as_str()).await.unwrap();
        let (mut client, connection) =
            hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(socket)).await.unwrap();
        tokio::spawn(connection);
        let request = hyper::Request::put(url.path_and_query().unwrap().as_str())
            .header("host", url.authority().unwrap().as_str())
            .header("x-ms-date", date)
            .header("x-ms-version", "2021-08-06")
            .header("authorization", format!("SharedKey {ACCOUNT}:{signature}"))
            .body(http_body_util::Empty::<Bytes>::new())
            .unwrap();
        let answer = client.send_request(request).await.unwrap();
        assert_eq!(answer.status(), 201, "{answer:?}");
    }

    pub(super) fn open(&self, path: &str) -> Store {
        self.open_with(path, KEY)
    }

    pub(super) fn open_with(&self, path: &str, key: &str) -> Store {
        let stores = serde_json::json!({ "abs": { "path": path, "absSecret": "az", "endpoint": self.url } });
        let target = Target::read("storageType", "ABS", &serde_json::from_value(stores).unwrap()).unwrap();
        let secret = [("storage-account", ACCOUNT), ("storage-key", key)];
        let secret =
            secret.into_iter().map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())).collect();
        Store::open(&target, Some(&secret), None).unwrap()
    }
}
