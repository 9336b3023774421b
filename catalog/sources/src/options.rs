//! How sources are read: credentials, certificates, mirrors, proxies, limits, patience.

use std::time::Duration;

use crate::{credentials::Credentials, egress::Egress};

/// How to read sources. The default reads public registries through the proxy of the environment.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Log-ins for registries; none unless they are added, also those of this user's own.
    pub credentials: Credentials,
    /// Certificates to trust beside the system's authorities, as PEM bundles: those of authorities, and those of servers
    /// themselves.
    pub ca_certificates: Vec<Vec<u8>>,
    /// Hosts (`host` or `host:port`) that are spoken to without TLS.
    pub plain_http: Vec<String>,
    /// Hosts (`host` or `host:port`) whose certificate is not checked.
    pub skip_tls_verify: Vec<String>,
    /// Hosts that registries of other sites may name as their token service, which log-ins are sent to.
    pub token_hosts: Vec<String>,
    /// Other places to find images in.
    pub mirrors: Vec<Mirror>,
    /// Which servers may be asked at all.
    pub egress: Egress,
    /// How to get out.
    pub proxy: Proxy,
    /// What is too much.
    pub limits: Limits,
    /// When to try again, and when to give up.
    pub patience: Patience,
}

/// Other places for the images of a registry, a folder of it, or one repository. The entry with the longest
/// matching source counts; its mirrors are asked in order, then the origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// What is mirrored, such as `quay.io` or `quay.io/org`.
    pub source: String,
    /// What takes the place of `source` in a name, such as `mirror.example.com:5000/quay`.
    pub mirrors: Vec<String>,
}

/// How to get out to servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Proxy {
    /// As `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` say.
    #[default]
    Environment,
    /// Directly.
    Direct,
    Through {
        /// Such as `http://proxy.example.com:3128`.
        url: String,
        /// Hosts, domains and networks to reach directly, separated by commas, as in `NO_PROXY`.
        except: String,
    },
}

/// When to try again, and when to give up. Whoever needs a deadline for all of it puts one around the call:
/// a cancelled fetch leaves nothing behind.
#[derive(Clone, Debug)]
pub struct Patience {
    /// How often each request is tried.
    pub attempts: u32,
    /// The wait after the first failure; it doubles with each further one and is jittered.
    pub first_wait: Duration,
    /// No wait is longer, whatever the server's `Retry-After` asks for.
    pub longest_wait: Duration,
    /// For a connection to be made.
    pub connect_timeout: Duration,
    /// Between two pieces of an answer: how long a server may hang.
    pub read_timeout: Duration,
    /// Bytes per second that a transfer must average.
    pub slowest: u64,
    /// The period of that average.
    pub slow_for: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            // Waits of 0.5, 1 and 2 seconds ride out a restarting registry; a longer outage is for the next
            // poll to find over, with the last good copy serving meanwhile.
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

/// What is too much. Sources are written by strangers, and a few bytes can unpack to terabytes.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a manifest or of an image's configuration, which are held in memory.
    pub manifest_bytes: u64,
    /// Bytes that are downloaded for one source, and bytes of a local archive.
    pub download_bytes: u64,
    /// Bytes of all files that are kept.
    pub unpacked_bytes: u64,
    /// How many times its compressed size an archive may unpack to, beyond [`RATIO_FREE_BYTES`].
    pub compression_ratio: u64,
    /// Entries of all archives of one source, kept or not; messages of a gRPC server.
    pub entries: u64,
    /// Files and folders that are kept, each of which takes memory here and an inode there.
    pub files: u64,
    pub path_bytes: u64,
    /// Folders in one path.
    pub path_depth: u64,
}

/// Registries must take manifests of 4 MiB; real ones have a few KiB.
const MANIFEST_BYTES: u64 = 4 << 20;
/// The largest catalog images in use have 1 to 2 GiB, most of it layers that are not kept.
const DOWNLOAD_BYTES: u64 = 8 << 30;
/// The largest catalogs in use have 100 MB of JSON; a copy each in a few formats still fits.
const UNPACKED_BYTES: u64 = 2 << 30;
/// Catalogs compress 10 to 40 times. A gzip bomb reaches 1,000, a zstd bomb 30,000.
const COMPRESSION_RATIO: u64 = 200;
/// Archives up to this size are harmless whatever their ratio: templates and padding compress extremely well.
pub const RATIO_FREE_BYTES: u64 = 64 << 20;
/// A whole operating system under a catalog has about 100,000 files.
const ENTRIES: u64 = 1_000_000;
/// A Git checkout with every bundle there is has 60,000 files.
const FILES: u64 = 100_000;
/// A quarter of what Linux allows; the longest path in real catalogs has 200.
const PATH_BYTES: u64 = 1024;
/// Catalogs are three folders deep.
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
