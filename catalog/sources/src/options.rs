//! Options for reading sources: credentials, certificates, mirrors, proxies, limits, retries.

use std::time::Duration;

use crate::{credentials::Credentials, egress::Egress, progress::Observer};

/// Options for reading sources. The default reads public registries through the proxy of the environment.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Registry credentials; empty by default, even this user's own are added explicitly.
    pub credentials: Credentials,
    /// Trusted certificates in addition to the system's authorities, as PEM bundles: authorities and server
    /// certificates.
    pub ca_certificates: Vec<Vec<u8>>,
    /// Hosts (`host` or `host:port`) that use plain HTTP.
    pub plain_http: Vec<String>,
    /// Hosts (`host` or `host:port`) whose certificate is not verified.
    pub skip_tls_verify: Vec<String>,
    /// Hosts that registries of other sites may name as their token service, which receives credentials.
    pub token_hosts: Vec<String>,
    pub mirrors: Vec<Mirror>,
    pub egress: Egress,
    pub proxy: Proxy,
    pub limits: Limits,
    pub timeouts: Timeouts,
    /// Receives the progress of transfers.
    pub observer: Observer,
}

/// Mirrors for the images of a registry, a path of it, or one repository. The entry with the longest matching
/// source counts; its mirrors are tried in order, then the origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// What is mirrored, such as `quay.io` or `quay.io/org`.
    pub source: String,
    /// Replacements of `source` in a reference, such as `mirror.example.com:5000/quay`.
    pub mirrors: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Proxy {
    /// From `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`.
    #[default]
    Environment,
    Direct,
    Through {
        /// Such as `http://proxy.example.com:3128`.
        url: String,
        /// Hosts, domains and networks to reach directly, separated by commas, as in `NO_PROXY`.
        except: String,
    },
}

/// Retries and time-outs. A caller that needs an overall deadline cancels the call: a cancelled fetch leaves
/// nothing behind.
#[derive(Clone, Debug)]
pub struct Timeouts {
    /// Attempts per request.
    pub attempts: u32,
    /// The delay after the first failure; it doubles with each further one and is jittered.
    pub first_wait: Duration,
    /// Maximum delay, whatever the server's `Retry-After` requests.
    pub longest_wait: Duration,
    pub connect_timeout: Duration,
    /// Maximum time between two pieces of an answer.
    pub read_timeout: Duration,
    /// Minimum average bytes per second of a transfer.
    pub slowest: u64,
    /// The period of that average.
    pub slow_for: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            // Delays of 0.5, 1 and 2 seconds cover a restarting registry; after a longer outage the next poll
            // succeeds, with the last good copy served meanwhile.
            attempts: 4,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(30),
            // A modem of 1990 has 1.8 KiB/s.
            slowest: 1024,
            slow_for: Duration::from_secs(60),
        }
    }
}

/// Limits. Sources are untrusted, and a few bytes can unpack to terabytes.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a manifest or of an image's configuration, which are held in memory.
    pub manifest_bytes: u64,
    /// Downloaded bytes of one source, and bytes of a local archive.
    pub download_bytes: u64,
    /// Bytes of all extracted files.
    pub unpacked_bytes: u64,
    /// Maximum ratio of unpacked to compressed size, beyond [`RATIO_FREE_BYTES`].
    pub compression_ratio: u64,
    /// Entries of all archives of one source, extracted or not; messages of a gRPC server.
    pub entries: u64,
    /// Extracted files and directories, each of which takes memory and an inode.
    pub files: u64,
    pub path_bytes: u64,
    /// Directories in one path.
    pub path_depth: u64,
}

/// Registries must accept manifests of 4 MiB; real ones have a few KiB.
const MANIFEST_BYTES: u64 = 4 << 20;
/// The largest catalog images in use have 1 to 2 GiB, most of it layers that are not extracted.
const DOWNLOAD_BYTES: u64 = 8 << 30;
/// The largest catalogs in use have 100 MB of JSON; a copy each in a few formats still fits.
const UNPACKED_BYTES: u64 = 2 << 30;
/// Catalogs compress 10 to 40 times. A gzip bomb reaches 1,000, a zstd bomb 30,000.
const COMPRESSION_RATIO: u64 = 200;
/// Archives up to this size are harmless whatever their ratio: templates and padding compress extremely well.
pub const RATIO_FREE_BYTES: u64 = 64 << 20;
/// A whole operating system under a catalog has about 100,000 files.
const ENTRIES: u64 = 1_000_000;
/// A Git checkout of all community bundles has 60,000 files.
const FILES: u64 = 100_000;
/// A quarter of what Linux allows; the longest path in real catalogs has 200.
const PATH_BYTES: u64 = 1024;
/// Catalogs are three directories deep.
const PATH_DEPTH: u64 = 64;

impl Default for Limits {
    fn default() -> Self {
        Self {
            manifest_bytes: MANIFEST_BYTES,
            download_bytes: DOWNLOAD_BYTES,
            unpacked_bytes: UNPACKED_BYTES,
            compression_ratio: COMPRESSION_RATIO,
            entries: ENTRIES,
            files: FILES,
            path_bytes: PATH_BYTES,
            path_depth: PATH_DEPTH,
        }
    }
}
