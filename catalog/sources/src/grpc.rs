//! Catalogs from a running server of `api.Registry`, converted to a file-based catalog.

mod convert;

use std::{
    fs::File,
    future::Future,
    io::{BufWriter, Write as _},
    path::PathBuf,
};

use hyper_util::rt::TokioIo;

use olm_registry_api::{
    GetPackageRequest, ListBundlesRequest, ListPackageRequest, registry_client::RegistryClient,
};
use prost::Message as _;
use serde_json::Value;
use tonic::{
    Code, Status, Streaming,
    transport::{Channel, Endpoint},
};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use self::convert::Converter;
use crate::{
    digest::{Digest, Hasher},
    egress::Refused,
    error::{Exceeded, SourceError, chain},
    net::{self, TransferRate},
    options::Options,
    retry::{Attempts, Failure},
    stage::Stage,
};

/// One bundle with all of its manifests; the largest real one has 6.8 MB.
const LARGEST_MESSAGE: usize = 64 << 20;
/// The service name of health checks on upstream's servers.
const SERVICE: &str = "";

/// Fills the stage, and returns a digest of the content that does not depend on the order of messages.
pub(crate) async fn read(address: &str, options: &Options, stage: &Stage) -> Result<Digest, SourceError> {
    // gRPC libraries write the resolver before the address.
    let host = ["dns:///", "passthrough:///", "http://"]
        .iter()
        .find_map(|scheme| address.strip_prefix(scheme))
        .unwrap_or(address);
    if host.contains('@') {
        return Err(SourceError::Credentials { what: "the address of the catalog server".to_owned() });
    }
    let bad = |reason: String| SourceError::Reference { reference: address.to_owned(), reason };
    if host.contains("://") || !host.contains(':') {
        return Err(bad("expected host:port; catalog servers have no TLS".to_owned()));
    }
    let timeouts = &options.timeouts;
    let endpoint = Endpoint::from_shared(format!("http://{host}"))
        .map_err(|e| bad(chain(&e)))?
        .connect_timeout(timeouts.connect_timeout);
    let (name, port) = host
        .rsplit_once(':')
        .and_then(|(name, port)| Some((name, port.parse::<u16>().ok()?)))
        .ok_or_else(|| bad("expected host:port".to_owned()))?;
    let what = format!("the catalog at {address}");
    let mut attempts = Attempts::new(timeouts, &what);
    loop {
        stage.clear()?;
        let session = Session { what: &what, server: (name, port), options };
        match session.read(&endpoint, stage).await {
            Ok(digest) => return Ok(digest),
            Err(failure) => attempts.after(failure).await?,
        }
    }
}

struct Session<'a> {
    what: &'a str,
    server: (&'a str, u16),
    options: &'a Options,
}

impl Session<'_> {
    async fn read(&self, endpoint: &Endpoint, stage: &Stage) -> Result<Digest, Failure> {
        let (host, port) = (self.server.0.to_owned(), self.server.1);
        let egress = self.options.egress.clone();
        let connector = tower::service_fn(move |_: http::Uri| {
            let (host, egress) = (host.clone(), egress.clone());
            async move { egress.connect(&host, port).await.map(TokioIo::new) }
        });
        let connected = self.timed("the connection", endpoint.connect_with_connector(connector)).await?;
        let channel = connected.map_err(|error| match net::cause::<Refused>(&error) {
            Some(refused) => Failure::Fatal(refused.reading(self.what)),
            None => Failure::transient(chain(&error)),
        })?;
        self.check_health(channel.clone()).await?;
        let mut client = RegistryClient::new(channel).max_decoding_message_size(LARGEST_MESSAGE);
        let mut documents = Documents::create(self, stage)?;
        let mut converter = Converter::default();
        let mut pace = TransferRate::new(&self.options.timeouts);

        let mut names = self.call("ListPackages", client.list_packages(ListPackageRequest {})).await?;
        while let Some(name) = self.next("ListPackages", &mut names).await? {
            documents.count()?;
            pace.received(name.encoded_len())?;
            let request = client.get_package(GetPackageRequest { name: name.name });
            let package = self.call("GetPackage", request).await?;
            pace.received(package.encoded_len())?;
            converter.package(&package);
        }
        let mut bundles = self.call("ListBundles", client.list_bundles(ListBundlesRequest {})).await?;
        while let Some(bundle) = self.next("ListBundles", &mut bundles).await? {
            documents.count()?;
            pace.received(bundle.encoded_len())?;
            if let Some(document) = converter.bundle(bundle) {
                documents.write(&document)?;
            }
        }
        for document in converter.finish() {
            documents.write(&document)?;
        }
        Ok(documents.finish()?)
    }

    /// A server that is still loading answers with a partial or empty catalog.
    async fn check_health(&self, channel: Channel) -> Result<(), Failure> {
        let mut client = HealthClient::new(channel);
        let request = HealthCheckRequest { service: SERVICE.to_owned() };
        match self.timed("Health.Check", client.check(request)).await? {
            Ok(answer) if answer.get_ref().status() == ServingStatus::Serving => Ok(()),
            Ok(answer) => Err(Failure::transient(format!(
                "the server reports health status {}",
                answer.get_ref().status().as_str_name()
            ))),
            // Not every server has this service.
            Err(status) if matches!(status.code(), Code::Unimplemented | Code::NotFound) => Ok(()),
            Err(status) => Err(self.failure("Health.Check", &status)),
        }
    }

    async fn call<T>(
        &self,
        name: &str,
        call: impl Future<Output = Result<tonic::Response<T>, Status>>,
    ) -> Result<T, Failure> {
        match self.timed(name, call).await? {
            Ok(response) => Ok(response.into_inner()),
            Err(status) => Err(self.failure(name, &status)),
        }
    }

    async fn next<T>(&self, name: &str, stream: &mut Streaming<T>) -> Result<Option<T>, Failure> {
        self.timed(name, stream.message()).await?.map_err(|status| self.failure(name, &status))
    }

    async fn timed<T>(&self, name: &str, call: impl Future<Output = T>) -> Result<T, Failure> {
        let deadline = self.options.timeouts.read_timeout;
        tokio::time::timeout(deadline, call)
            .await
            .map_err(|_| Failure::transient(format!("{name} timed out after {} s", deadline.as_secs_f32())))
    }

    fn failure(&self, call: &str, status: &Status) -> Failure {
        // The message is the server's, unless the connection failed.
        let cause = std::error::Error::source(status).map(|cause| format!(": {}", chain(cause)));
        let detail = format!("{call} failed with {:?}{}", status.code(), cause.unwrap_or_default());
        match status.code() {
            Code::Unimplemented => Failure::Fatal(SourceError::unsupported(
                self.what,
                format!("{detail}; not a catalog server, or one older than 2020"),
            )),
            Code::Unauthenticated | Code::PermissionDenied => Failure::Fatal(SourceError::Denied {
                what: self.what.to_owned(),
                status: if status.code() == Code::Unauthenticated { 401 } else { 403 },
                detail: format!(": {detail}"),
                tried: "connections to catalog servers use no credentials".to_owned(),
            }),
            // Includes messages that are too large.
            Code::InvalidArgument | Code::OutOfRange | Code::DataLoss => {
                Failure::Fatal(SourceError::malformed(self.what, detail))
            }
            _ => Failure::transient(detail),
        }
    }
}

/// The output file, one document a line.
struct Documents<'s> {
    session: &'s Session<'s>,
    path: PathBuf,
    file: BufWriter<File>,
    digests: std::collections::BTreeSet<Digest>,
    count: u64,
    bytes: u64,
}

impl<'s> Documents<'s> {
    fn create(session: &'s Session<'s>, stage: &Stage) -> Result<Self, SourceError> {
        let path = stage.files().join("catalog.json");
        let file = File::create_new(&path).map_err(SourceError::io("create", &path))?;
        let digests = std::collections::BTreeSet::new();
        Ok(Self { session, path, file: BufWriter::new(file), digests, count: 0, bytes: 0 })
    }

    /// Counts a message.
    fn count(&mut self) -> Result<(), SourceError> {
        let most = self.session.options.limits.entries;
        self.count += 1;
        if self.count > most {
            return Err(
                Exceeded::new("the number of its entries", "entries", most).reading(self.session.what)
            );
        }
        Ok(())
    }

    fn write(&mut self, document: &Value) -> Result<(), SourceError> {
        let line = document.to_string();
        let most = self.session.options.limits.unpacked_bytes;
        self.bytes += line.len() as u64 + 1;
        if self.bytes > most {
            return Err(Exceeded::new("its content", "unpacked_bytes", most).reading(self.session.what));
        }
        self.digests.insert(Digest::of(line.as_bytes()));
        writeln!(self.file, "{line}").map_err(SourceError::io("write", &self.path))
    }

    fn finish(mut self) -> Result<Digest, SourceError> {
        self.file.flush().map_err(SourceError::io("write", &self.path))?;
        let mut hasher = Hasher::sha256();
        for digest in &self.digests {
            hasher.update(digest.hex().as_bytes());
        }
        Ok(hasher.finish())
    }
}
