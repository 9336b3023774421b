//! Arguments of the console, on a user's machine and in its pod.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args as ClapArgs;

const EXAMPLES: &str = "\
Examples:
  olm console
  olm console --context production --port 0";

/// Heading of the options that require `--listen`.
const SERVER: &str = "Server options (in a pod)";

/// `olm console`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct ConsoleArgs {
    /// Port on 127.0.0.1; 0 for a free one. Default: 8080, or a free one if 8080 is in use.
    #[arg(long, conflicts_with = "listen")]
    pub port: Option<u16>,
    /// Open the link in the default browser; other users of this machine may see it in the list of processes.
    #[arg(long, conflicts_with = "listen")]
    pub open: bool,
    /// Serve the console on this address to users who sign in with their own tokens.
    #[arg(long, value_name = "ADDRESS", help_heading = SERVER)]
    pub listen: Option<SocketAddr>,
    /// URL of the manager's catalog server.
    #[arg(long, value_name = "URL", env = "OLM_CATALOG_URL", default_value = "https://olm-manager.olm:8080", help_heading = SERVER)]
    pub catalogs: String,
    /// Additional accepted Host header; may be repeated.
    #[arg(long = "allowed-host", value_name = "HOST", help_heading = SERVER)]
    pub allowed_hosts: Vec<String>,
    /// The console is behind an ingress that terminates TLS.
    #[arg(long, help_heading = SERVER)]
    pub tls: bool,
    /// Trust X-Forwarded-For and X-Forwarded-Proto of a proxy.
    #[arg(long, help_heading = SERVER)]
    pub trust_proxy: bool,
    /// Serve the components of the pages on /dev/components; set by `olm up`.
    #[arg(long, hide = true, help_heading = SERVER)]
    pub components_page: bool,
    /// Certificate of the console (PEM file), reloaded when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file", value_hint = clap::ValueHint::FilePath, help_heading = SERVER)]
    pub tls_cert_file: Option<PathBuf>,
    /// Private key of the certificate (PEM file).
    #[arg(long, value_name = "FILE", requires = "tls_cert_file", value_hint = clap::ValueHint::FilePath, help_heading = SERVER)]
    pub tls_private_key_file: Option<PathBuf>,
    #[command(flatten)]
    pub oidc: OidcArgs,
}

impl ConsoleArgs {
    /// A given option that requires `--listen`.
    pub fn server_option(&self) -> Option<&'static str> {
        let given = [
            ("--allowed-host", !self.allowed_hosts.is_empty()),
            ("--tls", self.tls),
            ("--trust-proxy", self.trust_proxy),
            ("--components-page", self.components_page),
            ("--tls-cert-file", self.tls_cert_file.is_some()),
            ("--oidc-issuer", self.oidc.issuer.is_some()),
        ];
        given.iter().find_map(|(option, given)| given.then_some(*option))
    }
}

/// Signing in with OpenID Connect, of the console and of the dev cluster. Flags that kube-apiserver has, too, have its name and take its value.
#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "OpenID Connect")]
pub struct OidcArgs {
    /// URL of the provider, equal to claim `iss` of its tokens; the API server must accept the same issuer.
    #[arg(
        long = "oidc-issuer",
        visible_alias = "oidc-issuer-url",
        value_name = "URL",
        requires = "client_id"
    )]
    pub issuer: Option<String>,
    /// Client id of the console; the API server must accept it as audience.
    #[arg(long = "oidc-client-id", value_name = "ID", requires = "issuer")]
    pub client_id: Option<String>,
    /// File with the client secret; omitted for a public client.
    #[arg(long = "oidc-client-secret-file", value_name = "FILE", requires = "issuer", value_hint = clap::ValueHint::FilePath)]
    pub client_secret_file: Option<PathBuf>,
    /// Additional scopes to `openid`; most providers require offline_access for refresh tokens.
    #[arg(
        long = "oidc-scopes",
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "profile,email",
        requires = "issuer"
    )]
    pub scopes: Vec<String>,
    /// Claim that the API server uses as user name.
    #[arg(long = "oidc-username-claim", value_name = "CLAIM", default_value = "sub", requires = "issuer")]
    pub username_claim: String,
    /// Prefix that the API server adds to user names; `-` for none.
    #[arg(long = "oidc-username-prefix", value_name = "PREFIX", requires = "issuer")]
    pub username_prefix: Option<String>,
    /// Claim that the API server uses as groups.
    #[arg(long = "oidc-groups-claim", value_name = "CLAIM", requires = "issuer")]
    pub groups_claim: Option<String>,
    /// Prefix that the API server adds to groups.
    #[arg(long = "oidc-groups-prefix", value_name = "PREFIX", requires = "issuer")]
    pub groups_prefix: Option<String>,
    /// Certificate authorities of the provider (PEM file); the system's when absent.
    #[arg(id = "oidc_ca_file", long = "oidc-ca-file", value_name = "FILE", requires = "issuer", value_hint = clap::ValueHint::FilePath)]
    pub ca_file: Option<PathBuf>,
    /// Redirect URI, https://HOST/oidc/callback; derived from the request's Host header when absent.
    #[arg(long = "oidc-callback-url", value_name = "URL", requires = "issuer")]
    pub callback_url: Option<String>,
}

#[cfg(feature = "devcluster")]
impl OidcArgs {
    /// The equivalent flags, for another process.
    pub fn to_flags(&self) -> Vec<String> {
        let (Some(issuer), Some(client_id)) = (&self.issuer, &self.client_id) else { return Vec::new() };
        let mut out = vec![
            format!("--oidc-issuer={issuer}"),
            format!("--oidc-client-id={client_id}"),
            format!("--oidc-scopes={}", self.scopes.join(",")),
            format!("--oidc-username-claim={}", self.username_claim),
        ];
        let texts = [
            ("--oidc-username-prefix", &self.username_prefix),
            ("--oidc-groups-claim", &self.groups_claim),
            ("--oidc-groups-prefix", &self.groups_prefix),
            ("--oidc-callback-url", &self.callback_url),
        ];
        let files =
            [("--oidc-client-secret-file", &self.client_secret_file), ("--oidc-ca-file", &self.ca_file)];
        out.extend(texts.iter().filter_map(|(flag, text)| Some(format!("{flag}={}", text.as_ref()?))));
        out.extend(
            files.iter().filter_map(|(flag, path)| Some(format!("{flag}={}", path.as_ref()?.display()))),
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::args::{Args, Command};

    #[cfg(feature = "devcluster")]
    #[test]
    fn the_dev_cluster_hands_its_options_to_the_console() {
        let flags = [
            "--oidc-issuer=https://id.example",
            "--oidc-client-id=c",
            "--oidc-scopes=a,b",
            "--oidc-username-claim=email",
            "--oidc-username-prefix=-",
            "--oidc-groups-claim=groups",
            "--oidc-groups-prefix=id:",
            "--oidc-callback-url=https://olm.example/oidc/callback",
            "--oidc-client-secret-file=/a b",
            "--oidc-ca-file=/c",
        ];
        let args = Args::try_parse_from([&["olm", "console"], &flags[..]].concat()).unwrap();
        let Command::Console(console) = args.command else { panic!("another command") };
        assert_eq!(console.oidc.to_flags(), flags);
    }

    #[test]
    fn the_console_is_a_server_only_with_listen() {
        let console = |line: &[&str]| {
            let args = Args::try_parse_from([&["olm", "console"], line].concat())?;
            let (is_server, stops) = (args.command.is_server(), args.command.stops_by_itself());
            assert!(stops, "it handles signals in both cases");
            let Command::Console(console) = args.command else { panic!("another command") };
            Ok::<_, clap::Error>((is_server, console.server_option()))
        };
        // the argument that the manifests of every version have
        assert_eq!(console(&["--listen=0.0.0.0:8080"]).unwrap(), (true, None));
        assert_eq!(console(&["--listen=0.0.0.0:8080", "--tls"]).unwrap(), (true, Some("--tls")));
        assert_eq!(console(&[]).unwrap(), (false, None));
        assert_eq!(console(&["--port=0", "--open"]).unwrap(), (false, None));
        assert_eq!(console(&["--allowed-host=a"]).unwrap(), (false, Some("--allowed-host")));
        for wrong in [&["--listen=0.0.0.0:8080", "--port=1"][..], &["--listen=[::]:1", "--open"]] {
            assert!(console(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn options_of_openid_connect_come_together() {
        let parses = |line: &[&str]| Args::try_parse_from([&["olm", "console"], line].concat()).is_ok();
        assert!(parses(&[]));
        assert!(parses(&["--oidc-issuer=https://id.example", "--oidc-client-id=console"]));
        assert!(parses(&["--oidc-issuer-url=https://id.example", "--oidc-client-id=c", "--oidc-scopes=a,b"]));
        assert!(parses(&["--tls-cert-file=a", "--tls-private-key-file=b"]));
        for bad in [
            &["--oidc-issuer=https://id.example"][..],
            &["--oidc-client-id=console"],
            &["--oidc-groups-claim=groups"],
            &["--tls-cert-file=a"],
            &["--tls-private-key-file=a"],
        ] {
            assert!(!parses(bad), "{bad:?}");
        }
    }
}
