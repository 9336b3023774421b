//! Access to the registry of a test.

use olm_engine::catalogs::{Access, Registries};
use olm_testing::{Registry, client};

pub(crate) fn registries(registry: &Registry) -> Registries {
    Registries { file: Some(registry.settings()), authorities: None }
}

pub(crate) fn access(registry: &Registry) -> Access {
    Access::new(client(Vec::new()), registries(registry), "olm", &[])
}
