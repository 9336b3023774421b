//! The methods of `api.Registry`.

use std::sync::Arc;

use olm_catalog::{BundleEntry, Catalog, Channel, ChannelEntry as Entry, Package};
use olm_registry_api::{
    Bundle, Channel as ChannelMessage, ChannelEntry, Deprecation, GetAllProvidersRequest,
    GetAllReplacementsRequest, GetBundleInChannelRequest, GetBundleRequest, GetDefaultProviderRequest,
    GetLatestProvidersRequest, GetPackageRequest, GetReplacementRequest, ListBundlesRequest,
    ListPackageRequest, Package as PackageMessage, PackageName, registry_server::Registry,
};
use tonic::{Request, Response, Status};

use super::bundle::{Purpose, message};
use super::entries::{self, Api};
use super::packages::{ResponseStream, each, read};
use crate::current::Current;

pub(super) struct Service {
    catalog: Current,
}

impl Service {
    pub fn new(catalog: Current) -> Self {
        Self { catalog }
    }

    async fn package(&self, name: &str) -> Result<Arc<Package>, Status> {
        let package = read(&self.catalog.get(), name).await?;
        package.ok_or_else(|| Status::not_found(format!("package {name:?} not found")))
    }
}

fn names(catalog: &Catalog) -> Vec<String> {
    catalog.summaries().map(|summary| summary.name.clone()).collect()
}

/// Candidate packages for an API: at least one of their bundles provides it.
fn providers(catalog: &Catalog, api: &Api) -> Vec<String> {
    let provides = catalog.summaries().filter(|summary| summary.provides.iter().any(|gvk| api.is(gvk)));
    provides.map(|summary| summary.name.clone()).collect()
}

fn channel<'a>(package: &'a Package, name: &str) -> Result<&'a Channel, Status> {
    let channel = package.channels.get(name);
    channel
        .ok_or_else(|| Status::not_found(format!("package {:?}, channel {name:?} not found", package.name)))
}

/// An entry as the answer to a request for one bundle.
fn answer(package: &Package, channel: &Channel, entry: &Entry) -> Result<Response<Bundle>, Status> {
    let bundle = bundle(package, channel, &entry.name)?;
    Ok(Response::new(message(package, channel, entry, bundle, Purpose::Single)))
}

fn bundle<'a>(package: &'a Package, channel: &Channel, name: &str) -> Result<&'a BundleEntry, Status> {
    package.bundles.get(name).ok_or_else(|| {
        let (package, channel) = (&package.name, &channel.name);
        Status::not_found(format!("package {package:?}, channel {channel:?}, bundle {name:?} not found"))
    })
}

/// Every bundle of a package, once for each channel, created lazily.
fn listed(package: Arc<Package>) -> super::packages::Messages<Bundle> {
    let mut places = Vec::new();
    for (name, channel) in &package.channels {
        places.extend((0..channel.entries.len()).map(|entry| (name.clone(), entry)));
    }
    Box::new(places.into_iter().filter_map(move |(channel, entry)| {
        let channel = package.channels.get(&channel)?;
        let entry = channel.entries.get(entry)?;
        let bundle = package.bundles.get(&entry.name)?;
        Some(message(&package, channel, entry, bundle, Purpose::List))
    }))
}

#[tonic::async_trait]
impl Registry for Service {
    type ListPackagesStream = ResponseStream<PackageName>;
    type GetChannelEntriesThatReplaceStream = ResponseStream<ChannelEntry>;
    type GetChannelEntriesThatProvideStream = ResponseStream<ChannelEntry>;
    type GetLatestChannelEntriesThatProvideStream = ResponseStream<ChannelEntry>;
    type ListBundlesStream = ResponseStream<Bundle>;

    async fn list_packages(
        &self,
        _request: Request<ListPackageRequest>,
    ) -> Result<Response<ResponseStream<PackageName>>, Status> {
        let names: Vec<_> =
            names(&self.catalog.get()).into_iter().map(|name| Ok(PackageName { name })).collect();
        Ok(Response::new(Box::pin(futures::stream::iter(names))))
    }

    async fn get_package(
        &self,
        request: Request<GetPackageRequest>,
    ) -> Result<Response<PackageMessage>, Status> {
        let package = self.package(&request.get_ref().name).await?;
        let deprecation = |message: &Option<String>| message.clone().map(|message| Deprecation { message });
        // Clients request the head of each channel next: a channel without one cannot be installed from.
        let heads = package.channels.values().filter_map(|channel| Some((channel, channel.head()?)));
        let channels = heads.map(|(channel, head)| ChannelMessage {
            name: channel.name.clone(),
            csv_name: head.name.clone(),
            deprecation: deprecation(&channel.deprecated),
        });
        Ok(Response::new(PackageMessage {
            name: package.name.clone(),
            channels: channels.collect(),
            default_channel_name: package.default_channel.clone(),
            deprecation: deprecation(&package.deprecated),
        }))
    }

    async fn get_bundle(&self, request: Request<GetBundleRequest>) -> Result<Response<Bundle>, Status> {
        let request = request.get_ref();
        let package = self.package(&request.pkg_name).await?;
        let channel = channel(&package, &request.channel_name)?;
        let Some(entry) = channel.entry(&request.csv_name) else {
            return Err(Status::not_found(format!(
                "package {:?}, channel {:?}, bundle {:?} not found",
                package.name, channel.name, request.csv_name
            )));
        };
        answer(&package, channel, entry)
    }

    async fn get_bundle_for_channel(
        &self,
        request: Request<GetBundleInChannelRequest>,
    ) -> Result<Response<Bundle>, Status> {
        let request = request.get_ref();
        let package = self.package(&request.pkg_name).await?;
        let channel = channel(&package, &request.channel_name)?;
        let Some(head) = channel.head() else {
            return Err(Status::failed_precondition(format!(
                "package {:?}, channel {:?} has no single head; run `olm catalog validate` for details",
                package.name, channel.name
            )));
        };
        answer(&package, channel, head)
    }

    async fn get_channel_entries_that_replace(
        &self,
        request: Request<GetAllReplacementsRequest>,
    ) -> Result<Response<ResponseStream<ChannelEntry>>, Status> {
        let name = request.into_inner().csv_name;
        let none = Status::not_found(format!("no channel entries found that replace {name}"));
        let catalog = self.catalog.get();
        let packages: Vec<String> = catalog.replacing(&name).map(str::to_owned).collect();
        let messages = move |package: Arc<Package>| entries::that_replace(&package, &name);
        Ok(Response::new(each(catalog, packages, messages, Some(none))))
    }

    async fn get_bundle_that_replaces(
        &self,
        request: Request<GetReplacementRequest>,
    ) -> Result<Response<Bundle>, Status> {
        let request = request.get_ref();
        let package = self.package(&request.pkg_name).await?;
        let channel = channel(&package, &request.channel_name)?;
        let Some(entry) = entries::newest_that_replaces(&package, channel, &request.csv_name) else {
            let message =
                format!("no entry found for package {:?}, channel {:?}", package.name, channel.name);
            return Err(Status::not_found(message));
        };
        answer(&package, channel, entry)
    }

    async fn get_channel_entries_that_provide(
        &self,
        request: Request<GetAllProvidersRequest>,
    ) -> Result<Response<ResponseStream<ChannelEntry>>, Status> {
        let GetAllProvidersRequest { group, version, kind, .. } = request.into_inner();
        let api = Api { group, version, kind };
        let catalog = self.catalog.get();
        let (providers, none) = (providers(&catalog, &api), api.not_provided());
        let messages = move |package: Arc<Package>| entries::that_provide(&package, &api);
        Ok(Response::new(each(catalog, providers, messages, Some(none))))
    }

    async fn get_latest_channel_entries_that_provide(
        &self,
        request: Request<GetLatestProvidersRequest>,
    ) -> Result<Response<ResponseStream<ChannelEntry>>, Status> {
        let GetLatestProvidersRequest { group, version, kind, .. } = request.into_inner();
        let api = Api { group, version, kind };
        let catalog = self.catalog.get();
        let (providers, none) = (providers(&catalog, &api), api.not_provided());
        let messages = move |package: Arc<Package>| entries::latest_that_provide(&package, &api);
        Ok(Response::new(each(catalog, providers, messages, Some(none))))
    }

    async fn get_default_bundle_that_provides(
        &self,
        request: Request<GetDefaultProviderRequest>,
    ) -> Result<Response<Bundle>, Status> {
        let GetDefaultProviderRequest { group, version, kind, .. } = request.into_inner();
        let api = Api { group, version, kind };
        let catalog = self.catalog.get();
        let mut in_other_channels = false;
        // By name: of several packages the first one is the answer.
        for name in providers(&catalog, &api) {
            let Some(package) = read(&catalog, &name).await? else { continue };
            if let Some((channel, head)) = entries::default_that_provides(&package, &api) {
                return answer(&package, channel, head);
            }
            in_other_channels |= entries::latest_that_provide(&package, &api).next().is_some();
        }
        Err(if in_other_channels { api.not_provided_by_default() } else { api.not_provided() })
    }

    async fn list_bundles(
        &self,
        _request: Request<ListBundlesRequest>,
    ) -> Result<Response<ResponseStream<Bundle>>, Status> {
        let catalog = self.catalog.get();
        let names = names(&catalog);
        Ok(Response::new(each(catalog, names, listed, None)))
    }
}
