//! Address and image of this operator, for the first member's pod to download its snapshot.

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use tokio::sync::OnceCell;

use crate::apply::why;

/// Container names of the operator in the bundles of this project and of upstream.
const CONTAINERS: [&str; 2] = ["etcd-restore-operator", "etcd-operator"];

/// Settings from the start of the process.
#[derive(Debug, Default)]
pub struct Place {
    /// Host and port of this operator for pods; default: the address of its own pod.
    pub advertise: Option<String>,
    pub port: u16,
    /// The image of the operator; default: that of its own pod.
    pub image: Option<String>,
    pub pod: Option<(String, String)>,
    found: OnceCell<Found>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) url: String,
    pub(crate) image: String,
}

impl Place {
    #[must_use]
    pub fn new(
        advertise: Option<String>,
        port: u16,
        image: Option<String>,
        pod: Option<(String, String)>,
    ) -> Self {
        Self { advertise, port, image, pod, found: OnceCell::new() }
    }

    pub(crate) async fn find(&self, client: &Client) -> Result<Found, String> {
        self.found.get_or_try_init(|| self.read(client)).await.cloned()
    }

    async fn read(&self, client: &Client) -> Result<Found, String> {
        let url = |address: &str| format!("http://{address}");
        if let (Some(address), Some(image)) = (&self.advertise, &self.image) {
            return Ok(Found { url: url(address), image: image.clone() });
        }
        let Some((namespace, name)) = &self.pod else {
            return Err(
                "environment variable MY_POD_NAME is missing, so the operator's pod is unknown; set \
             --advertise-address and --operator-image"
                    .into(),
            );
        };
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let pod = api
            .get(name)
            .await
            .map_err(|error| format!("failed to read the operator's pod {name}: {}", why(&error)))?;
        let address = match (&self.advertise, pod.status.as_ref().and_then(|status| status.pod_ip.clone())) {
            (Some(address), _) => address.clone(),
            (None, Some(ip)) if ip.contains(':') => format!("[{ip}]:{}", self.port),
            (None, Some(ip)) => format!("{ip}:{}", self.port),
            (None, None) => return Err(format!("the operator's pod {name} has no address yet")),
        };
        let containers = pod.spec.map(|spec| spec.containers).unwrap_or_default();
        let ours = CONTAINERS.iter().find_map(|name| containers.iter().find(|c| c.name == *name));
        let image = self.image.clone().or_else(|| ours.or(containers.first())?.image.clone());
        let image =
            image.ok_or_else(|| format!("the operator's pod {name} has no image; set --operator-image"))?;
        Ok(Found { url: url(&address), image })
    }
}
