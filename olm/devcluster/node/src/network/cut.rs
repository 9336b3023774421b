//! Network faults of a pod: from all peers by its link, from other pods by rules in its network namespace.

use std::{
    fs::File,
    io::Write as _,
    net::Ipv4Addr,
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
};

use nix::sched::{CloneFlags, setns};
use rtnetlink::{Handle, LinkUnspec};

use super::{NODE_IP, NetworkError, POD_PREFIX, SERVICE_RANGE, link, system};

/// The table of the rules. A pod's network namespace has no other rules unless the pod creates some itself.
const TABLE: &str = "olm-fault";

/// The addresses that a pod is cut off from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cut {
    Everything,
    /// All but the node, and these addresses of the service range, which the node itself serves.
    Pods {
        except: Vec<Ipv4Addr>,
    },
    Addresses(Vec<Ipv4Addr>),
}

/// Sets the link of a pod's interface up or down.
pub(super) async fn set_link(links: &Handle, ip: Ipv4Addr, up: bool) -> Result<(), NetworkError> {
    let port = link::index_of(links, &link::outside_name(ip)).await?;
    let message = LinkUnspec::new_with_index(port);
    let message = if up { message.up() } else { message.down() };
    let changed = links.link().set(message.build()).execute().await;
    changed.map_err(link::netlink("change the link of a pod"))
}

/// The nft script for the rules of a pod; it replaces the rules of an earlier cut atomically.
pub(super) fn script(own: Ipv4Addr, cut: Option<&Cut>) -> String {
    // `delete table` fails for a missing table.
    let mut script = format!("table ip {TABLE} {{}}\ndelete table ip {TABLE}\n");
    let (before, from) = match cut {
        None | Some(Cut::Everything) => return script,
        Some(Cut::Pods { except }) => {
            let except: Vec<Ipv4Addr> = except.iter().copied().chain([NODE_IP, own]).collect();
            let pods = Ipv4Addr::from(u32::from(NODE_IP) & !(u32::MAX >> POD_PREFIX));
            let (services, prefix) = SERVICE_RANGE;
            (set("PEER", &except, "accept"), format!("{{ {pods}/{POD_PREFIX}, {services}/{prefix} }}"))
        }
        Some(Cut::Addresses(addresses)) => (String::new(), elements(addresses)),
    };
    script.push_str(&format!("table ip {TABLE} {{\n"));
    for (hook, peer) in [("input", "saddr"), ("output", "daddr")] {
        let before = before.replace("PEER", peer);
        script.push_str(&format!(
            "chain {hook} {{ type filter hook {hook} priority 0; policy accept;\n{before}ip {peer} {from} drop\n}}\n"
        ));
    }
    script.push_str("}\n");
    script
}

fn elements(addresses: &[Ipv4Addr]) -> String {
    let all: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    format!("{{ {} }}", all.join(", "))
}

fn set(peer: &str, addresses: &[Ipv4Addr], verdict: &str) -> String {
    format!("ip {peer} {} {verdict}\n", elements(addresses))
}

/// Starts `nft` in a pod's network namespace. Runs on the network's thread.
pub(super) fn start_nft(namespace: &OwnedFd) -> Result<Child, NetworkError> {
    // No await in here: the thread must return before another task of the runtime runs.
    let node = File::open("/proc/thread-self/ns/net").map_err(system("open the node's network namespace"))?;
    setns(namespace, CloneFlags::CLONE_NEWNET)
        .map_err(|error| system("enter a pod's network namespace")(error.into()))?;
    let child = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    setns(&node, CloneFlags::CLONE_NEWNET)
        .map_err(|error| system("return to the node's network namespace")(error.into()))?;
    child.map_err(|source| {
        let message = match source.kind() {
            std::io::ErrorKind::NotFound => {
                "program nft not found (Debian: apt install nftables); a cut from everything does not \
                 require it"
                    .to_owned()
            }
            _ => format!("failed to start nft: {source}"),
        };
        NetworkError::Nft(message)
    })
}

/// Sends `nft` its script and waits for its exit. Blocks.
pub(super) fn finish_nft(mut child: Child, script: &str) -> Result<(), NetworkError> {
    let written = match child.stdin.take() {
        Some(mut stdin) => stdin.write_all(script.as_bytes()),
        None => Ok(()),
    };
    let output = child.wait_with_output().map_err(system("wait for nft"))?;
    if output.status.success() && written.is_ok() {
        return Ok(());
    }
    let rejection = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(NetworkError::Nft(format!("nft rejected the rules: {rejection}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_cover_both_directions() {
        let own = Ipv4Addr::new(10, 244, 0, 7);
        let none = "table ip olm-fault {}\ndelete table ip olm-fault\n";
        assert_eq!(script(own, None), none);
        let dns = Ipv4Addr::new(10, 96, 0, 10);
        let pods = script(own, Some(&Cut::Pods { except: vec![dns] }));
        assert!(pods.starts_with(none));
        for line in [
            "ip saddr { 10.96.0.10, 10.244.0.1, 10.244.0.7 } accept\nip saddr { 10.244.0.0/24, 10.96.0.0/16 } drop\n",
            "ip daddr { 10.96.0.10, 10.244.0.1, 10.244.0.7 } accept\nip daddr { 10.244.0.0/24, 10.96.0.0/16 } drop\n",
        ] {
            assert!(pods.contains(line), "{pods}");
        }
        let two = [Ipv4Addr::new(10, 244, 0, 8), Ipv4Addr::new(10, 244, 0, 9)];
        let named = script(own, Some(&Cut::Addresses(two.to_vec())));
        assert!(named.contains("ip saddr { 10.244.0.8, 10.244.0.9 } drop\n"), "{named}");
    }
}
