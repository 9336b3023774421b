//! Which images the nodes of the cluster have.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, api::ListParams};
use olm_plan::{Fact, names_on_nodes};

use super::unknown;

/// Nodes per page. A node is some 30 KB, most of it images.
const PAGE: u32 = 50;
/// Maximum number of nodes that are read.
const MOST_NODES: usize = 500;

/// Whether any node reports these images in `status.images`, which has the largest 50 of a node by default.
pub(super) async fn on_nodes(client: &Client, images: &BTreeSet<String>) -> BTreeMap<String, Fact<bool>> {
    if images.is_empty() {
        return BTreeMap::new();
    }
    let mut wanted: BTreeMap<&String, Vec<String>> =
        images.iter().map(|image| (image, names_on_nodes(image))).collect();
    let absent = search(client, &mut wanted).await;
    let fact = |image: &String| {
        let fact = if wanted.contains_key(image) { absent.clone() } else { Fact::Known(true) };
        (image.clone(), fact)
    };
    images.iter().map(fact).collect()
}

/// Removes the images that nodes report; returns what holds for the others.
async fn search(client: &Client, wanted: &mut BTreeMap<&String, Vec<String>>) -> Fact<bool> {
    let api = Api::<Node>::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    let mut read = 0;
    loop {
        let page = match api.list(&params).await {
            Ok(page) => page,
            // A control plane without nodes runs no pods.
            Err(kube::Error::Api(status)) if status.is_not_found() => return Fact::NotRead,
            Err(error) => return unknown("list", "nodes", &error),
        };
        read += page.items.len();
        let reported: BTreeSet<&str> = page.items.iter().flat_map(names).collect();
        wanted.retain(|_, names| !names.iter().any(|name| reported.contains(name.as_str())));
        let next = page.metadata.continue_.filter(|token| !token.is_empty());
        match next {
            _ if wanted.is_empty() => return Fact::Known(false),
            None => return Fact::Known(false),
            Some(_) if read >= MOST_NODES => {
                return Fact::Unknown(format!("only {MOST_NODES} nodes are read"));
            }
            Some(token) => params = params.continue_token(&token),
        }
    }
}

/// The images that a node reports.
fn names(node: &Node) -> impl Iterator<Item = &str> {
    let images = node.status.iter().flat_map(|status| status.images.iter().flatten());
    images.flat_map(|image| image.names.iter().flatten().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{
        super::tests::{asked, forbidden, server},
        *,
    };

    fn nodes(next: &str, names: &[&str]) -> Value {
        json!({ "metadata": { "continue": next }, "items": [
            { "metadata": { "name": "fresh" } },
            { "metadata": { "name": "node" }, "status": { "images": [{ "names": names, "sizeBytes": 1 }] } } ] })
    }

    fn images(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn an_image_is_searched_for_on_all_nodes() {
        // given two pages of nodes
        let answers = vec![
            ("GET", "continue=more", 200, nodes("", &["docker.io/library/thing:1"])),
            ("GET", "/api/v1/nodes?", 200, nodes("more", &["localhost/thing:1"])),
        ];
        let wanted = images(&["localhost/thing:1", "localhost/thing:2", "thing:1"]);
        let (resources, log) = server(answers);
        // when
        let found = on_nodes(resources.client(), &wanted).await;
        // then
        let found: Vec<(&str, Fact<bool>)> =
            found.iter().map(|(name, fact)| (name.as_str(), fact.clone())).collect();
        assert_eq!(
            found,
            [
                ("localhost/thing:1", Fact::Known(true)),
                ("localhost/thing:2", Fact::Known(false)),
                ("thing:1", Fact::Known(true)),
            ]
        );
        assert_eq!(asked(&log).len(), 2);
        // and a plan whose images have a registry lists no node
        let (resources, log) = server(vec![]);
        assert_eq!(on_nodes(resources.client(), &BTreeSet::new()).await, BTreeMap::new());
        assert_eq!(asked(&log), Vec::<String>::new());
    }

    #[tokio::test]
    async fn nodes_that_may_not_be_listed_are_unknown() {
        let wanted = images(&["localhost/thing:1"]);
        let (resources, _) = server(vec![("GET", "/api/v1/nodes?", 403, forbidden())]);
        let found = on_nodes(resources.client(), &wanted).await;
        assert_eq!(found["localhost/thing:1"].why_unknown(), Some("no permission to list nodes"));
    }
}
