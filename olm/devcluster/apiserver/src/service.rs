//! Allocates addresses of Services.

use std::{collections::HashSet, net::Ipv4Addr};

use olm_devcluster_machinery::field_error::FieldError;
use serde_json::{Value, json};

use super::{
    meta::{self, list, text},
    status::{ApiError, ApiResult},
    store::Store,
};

/// 10.96.0.0/16.
const NETWORK: u32 = (10 << 24) | (96 << 16);
const SIZE: u32 = 1 << 16;
/// The first addresses are for Services with a fixed one: kubernetes (.1), DNS (.10).
const FIRST_FREE: u32 = 32;
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

/// Allocates a Service's cluster IP and node ports, or validates the requested ones.
pub(crate) fn allocate(store: &Store, object: &mut Value, live: Option<&Value>) -> ApiResult<()> {
    let name = meta::name(object).to_owned();
    let me = (meta::namespace(object).to_owned(), name.clone());
    let others: Vec<_> = store
        .list("/services", "")
        .items
        .into_iter()
        .filter(|s| (meta::namespace(s), meta::name(s)) != (&me.0, &me.1))
        .collect();
    let refuse = |error| Err(ApiError::invalid("", "Service", &name, &[error]));
    let type_ = text(object, "/spec/type").to_owned();
    let wanted = text(object, "/spec/clusterIP").to_owned();
    if type_ == "ExternalName" {
        let spec = meta::child(object, "spec");
        spec.shift_remove("clusterIP");
        spec.shift_remove("clusterIPs");
        return Ok(());
    }
    let used: HashSet<&str> = others.iter().map(|s| text(s, "/spec/clusterIP")).collect();
    let address = match wanted.as_str() {
        "None" => wanted,
        "" => match free_address(&used) {
            Some(address) => address,
            None => return Err(ApiError::internal("failed to allocate a serviceIP: range is full")),
        },
        _ => {
            let inside = wanted.parse::<Ipv4Addr>().is_ok_and(|ip| {
                let ip = u32::from(ip);
                ip > NETWORK && ip < NETWORK + SIZE - 1
            });
            if !inside {
                let detail = "failed to allocate IP: the provided IP is not in the valid range. The range of valid IPs is 10.96.0.0/16";
                return refuse(FieldError::invalid("spec.clusterIPs", json!([wanted]), detail));
            }
            if used.contains(wanted.as_str()) {
                let detail = format!("failed to allocate IP {wanted}: provided IP is already allocated");
                return refuse(FieldError::invalid("spec.clusterIPs", json!([wanted]), detail));
            }
            wanted
        }
    };
    let spec = meta::child(object, "spec");
    spec.insert("clusterIP".to_owned(), address.as_str().into());
    spec.insert("clusterIPs".to_owned(), json!([address]));

    let mut taken: HashSet<u16> = others
        .iter()
        .flat_map(|s| list(s, "/spec/ports"))
        .filter_map(|p| u16::try_from(p["nodePort"].as_u64()?).ok())
        .collect();
    let needs_ports = matches!(type_.as_str(), "NodePort" | "LoadBalancer");
    let old: Vec<Value> = live.map(|l| list(l, "/spec/ports").to_vec()).unwrap_or_default();
    let Some(spec) = object.get_mut("spec") else { return Ok(()) };
    for (index, port) in meta::items_mut(spec, "ports").enumerate() {
        let Some(map) = port.as_object_mut() else { continue };
        if !needs_ports {
            map.shift_remove("nodePort");
            continue;
        }
        let requested = map.get("nodePort").and_then(Value::as_u64).filter(|p| *p > 0);
        // A port that a client omits on update keeps its number.
        let kept = || old.iter().find(|o| o["port"] == map["port"])?["nodePort"].as_u64();
        let number = match requested.or_else(kept) {
            Some(number) => match u16::try_from(number).ok().filter(|n| NODE_PORTS.contains(n)) {
                Some(number) if taken.insert(number) => number,
                Some(number) => {
                    let path = format!("spec.ports[{index}].nodePort");
                    return refuse(FieldError::invalid(path, number, "provided port is already allocated"));
                }
                None => {
                    let path = format!("spec.ports[{index}].nodePort");
                    let detail =
                        "provided port is not in the valid range. The range of valid ports is 30000-32767";
                    return refuse(FieldError::invalid(path, number, detail));
                }
            },
            None => match NODE_PORTS.into_iter().find(|p| taken.insert(*p)) {
                Some(number) => number,
                None => return Err(ApiError::internal("failed to allocate a nodePort: range is full")),
            },
        };
        map.insert("nodePort".to_owned(), number.into());
    }
    Ok(())
}

/// A random free address, so that addresses of deleted Services are not reused at once.
fn free_address(used: &HashSet<&str>) -> Option<String> {
    let count = SIZE - FIRST_FREE - 1;
    let start: u32 = rand::random_range(0..count);
    (0..count)
        .map(|step| Ipv4Addr::from(NETWORK + FIRST_FREE + (start + step) % count).to_string())
        .find(|address| !used.contains(address.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lie_in_the_range() {
        for _ in 0..100 {
            let address = free_address(&HashSet::new()).expect("free");
            assert!(address.starts_with("10.96.") && address != "10.96.0.1" && address != "10.96.255.255");
        }
    }

    #[test]
    fn a_service_gets_an_address_and_a_node_port() {
        let store = Store::open(None).expect("memory");
        let mut service =
            json!({"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
        allocate(&store, &mut service, None).expect("free");
        assert!(service["spec"]["clusterIP"].is_string());
        assert_eq!(service["spec"]["ports"][0]["nodePort"], 30_000);
        let mut headless =
            json!({"metadata": {"name": "b"}, "spec": {"type": "ClusterIP", "clusterIP": "None"}});
        allocate(&store, &mut headless, None).expect("nothing to allocate");
        assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
        let mut outside =
            json!({"metadata": {"name": "c"}, "spec": {"type": "ClusterIP", "clusterIP": "1.2.3.4"}});
        assert_eq!(allocate(&store, &mut outside, None).unwrap_err().code(), 422);
    }
}
