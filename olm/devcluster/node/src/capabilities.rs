//! The capabilities of a container, with containerd's defaults.

use k8s_openapi::api::core::v1::Capabilities;

/// By number.
const NAMES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// Default set of a container.
const DEFAULT: [&str; 14] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FSETID",
    "FOWNER",
    "MKNOD",
    "NET_RAW",
    "SETGID",
    "SETUID",
    "SETFCAP",
    "SETPCAP",
    "NET_BIND_SERVICE",
    "SYS_CHROOT",
    "KILL",
    "AUDIT_WRITE",
];

const ALL: &str = "ALL";

/// A set of capabilities: bit N is capability N.
pub(crate) type Set = u64;

/// as in /proc/self/status of a container under containerd
pub(crate) fn of(wanted: Option<&Capabilities>) -> Result<Set, String> {
    let list = |names: Option<&Option<Vec<String>>>| names.cloned().flatten().unwrap_or_default();
    let add = list(wanted.map(|w| &w.add));
    let drop = list(wanted.map(|w| &w.drop));
    let is_all = |names: &[String]| names.iter().any(|name| name == ALL);
    let mut set = DEFAULT.iter().filter_map(|name| bit(name)).fold(0, |set, bit| set | bit);
    if is_all(&add) {
        set = (1 << NAMES.len()) - 1;
    }
    if is_all(&drop) {
        set = 0;
    }
    let named = |names: Vec<String>| -> Result<Vec<Set>, String> {
        let one = |name: String| bit(&name).ok_or_else(|| format!("unknown capability {name:?}"));
        names.into_iter().filter(|name| name != ALL).map(one).collect()
    };
    for bit in named(add)? {
        set |= bit;
    }
    for bit in named(drop)? {
        set &= !bit;
    }
    Ok(set)
}

fn bit(name: &str) -> Option<Set> {
    NAMES.iter().position(|known| *known == name).map(|number| 1 << number)
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn t17_a_container_has_the_default_minus_dropped_plus_added() {
        let of =
            |wanted: serde_json::Value| of(Some(&from_value(wanted).unwrap())).map(|set| format!("{set:x}"));
        // as /proc/self/status shows it in a container of containerd
        assert_eq!(of(json!({})).unwrap(), "a80425fb");
        assert_eq!(of(json!({"drop": ["ALL"]})).unwrap(), "0");
        assert_eq!(of(json!({"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]})).unwrap(), "400");
        assert_eq!(of(json!({"drop": ["NET_RAW"]})).unwrap(), "a80405fb");
        assert_eq!(of(json!({"add": ["SYS_PTRACE"]})).unwrap(), "a80c25fb");
        assert_eq!(of(json!({"add": ["ALL"], "drop": ["CHOWN"]})).unwrap(), "1fffffffffe");
        assert!(of(json!({"add": ["EVERYTHING"]})).unwrap_err().contains("EVERYTHING"));
    }
}
