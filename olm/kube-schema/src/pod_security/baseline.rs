//! The level `baseline`: prevents known privilege escalations.

use serde_json::Value;

use super::{Pod, list, named, text};

const CAPABILITIES: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Namespaced kernel parameters, with the minor version that first allows them.
const SYSCTLS: &[(&str, u64)] = &[
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
];

/// SELinux types for containers, with the minor version that first allows them.
const SELINUX_TYPES: &[(&str, u64)] = &[
    ("", 0),
    ("container_t", 0),
    ("container_init_t", 0),
    ("container_kvm_t", 0),
    ("container_engine_t", 31),
];

const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

pub(super) fn violations(pod: &Pod<'_>) -> Vec<String> {
    let mut list = Vec::new();
    host_namespaces(pod, &mut list);
    list.extend(named("privileged", &pod.containers_that(|c| is_true(c, "/securityContext/privileged"))));
    list.extend(named("capabilities are added", &pod.containers_that(adds_capabilities)));
    list.extend(volumes(pod));
    list.extend(named("host ports", &pod.containers_that(has_host_port)));
    if pod.minor >= 34 {
        list.extend(named("probes or hooks that name a host", &pod.containers_that(probes_a_host)));
    }
    apparmor(pod, &mut list);
    selinux(pod, &mut list);
    if !pod.has_own_users() {
        let unmasked = |c: &Value| !matches!(text(c, "/securityContext/procMount"), "" | "Default");
        list.extend(named("procMount is not Default", &pod.containers_that(unmasked)));
    }
    for (who, profile) in pod.settings("/seccompProfile/type") {
        if !matches!(profile.as_str(), Some("RuntimeDefault" | "Localhost")) {
            list.push(format!("seccompProfile {} ({who})", profile.as_str().unwrap_or("of a wrong type")));
        }
    }
    sysctls(pod, &mut list);
    list
}

fn is_true(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer).and_then(Value::as_bool) == Some(true)
}

fn host_namespaces(pod: &Pod<'_>, out: &mut Vec<String>) {
    let used = ["hostNetwork", "hostPID", "hostIPC"];
    out.extend(used.iter().filter(|key| pod.spec[**key] == true).map(|key| format!("{key}: true")));
    for (who, value) in pod.settings("/windowsOptions/hostProcess") {
        if *value == true {
            out.push(format!("windowsOptions.hostProcess: true ({who})"));
        }
    }
}

fn adds_capabilities(container: &Value) -> bool {
    list(container, "/securityContext/capabilities/add")
        .iter()
        .any(|c| !c.as_str().is_some_and(|c| CAPABILITIES.contains(&c)))
}

fn volumes(pod: &Pod<'_>) -> Option<String> {
    let host = list(pod.spec, "/volumes").iter().filter(|v| v["hostPath"].is_object());
    let names: Vec<&str> = host.map(|v| text(v, "/name")).collect();
    (!names.is_empty()).then(|| format!("hostPath volumes {}", names.join(", ")))
}

fn has_host_port(container: &Value) -> bool {
    list(container, "/ports").iter().any(|p| p["hostPort"].as_u64().is_some_and(|port| port != 0))
}

fn probes_a_host(container: &Value) -> bool {
    ["/livenessProbe", "/readinessProbe", "/startupProbe", "/lifecycle/postStart", "/lifecycle/preStop"]
        .iter()
        .flat_map(|probe| ["httpGet", "tcpSocket"].map(|action| format!("{probe}/{action}/host")))
        .any(|pointer| !text(container, &pointer).is_empty())
}

fn apparmor(pod: &Pod<'_>, out: &mut Vec<String>) {
    for (who, profile) in pod.settings("/appArmorProfile/type") {
        if !matches!(profile.as_str(), Some("RuntimeDefault" | "Localhost")) {
            out.push(format!("appArmorProfile {} ({who})", profile.as_str().unwrap_or("of a wrong type")));
        }
    }
    for (key, value) in pod.annotations.and_then(Value::as_object).into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        let fits = matches!(value, "" | "runtime/default") || value.starts_with("localhost/");
        if let Some(container) = key.strip_prefix(APPARMOR).filter(|_| !fits) {
            out.push(format!("AppArmor profile {value} (container {container})"));
        }
    }
}

fn selinux(pod: &Pod<'_>, out: &mut Vec<String>) {
    for (who, options) in pod.settings("/seLinuxOptions") {
        let known = |name: &str| SELINUX_TYPES.iter().any(|(t, since)| *t == name && *since <= pod.minor);
        if !known(text(options, "/type")) {
            out.push(format!("seLinuxOptions.type {} ({who})", text(options, "/type")));
        }
        for key in ["user", "role"] {
            if options[key].as_str().is_some_and(|v| !v.is_empty()) {
                out.push(format!("seLinuxOptions.{key} ({who})"));
            }
        }
    }
}

fn sysctls(pod: &Pod<'_>, out: &mut Vec<String>) {
    let safe = |name: &str| SYSCTLS.iter().any(|(s, since)| *s == name && *since <= pod.minor);
    let set = list(pod.spec, "/securityContext/sysctls").iter().map(|s| text(s, "/name"));
    out.extend(set.filter(|name| !safe(name)).map(|name| format!("sysctl {name}")));
}
