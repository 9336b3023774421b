use olm_engine::site::{CONSOLE, HTTP_PORT, MANAGER, NAMESPACE_VARIABLE, REGISTRIES};
use serde_json::{Value, json};

use super::{
    ManifestOptions, SECURE_PORT, SECURE_PORT_NAME, VERSION, VERSION_LABEL, installation::OPTIONS_ANNOTATION,
};

/// A numeric user, because `runAsNonRoot` can only be checked against a number.
pub const USER: u32 = 65532;
/// The manager's cache of catalogs. It survives the container and not the pod: all of it can be fetched
/// again.
const CACHE: &str = "/var/cache/olm";
/// A large catalog takes 200 MB; during its fetch, the largest layer of its image is stored as well.
const CACHE_SIZE: &str = "4Gi";
const REGISTRIES_PATH: &str = "/etc/olm/registries";
/// Flags of `olm manager`.
const SHIPPED_IMAGE: &str = "--shipped-image";
const SHIPPED_PULL_SECRET: &str = "--shipped-pull-secret";

/// Variables that the Deployments set themselves.
pub const OWN_VARIABLES: [&str; 4] = ["POD_NAME", "POD_NAMESPACE", NAMESPACE_VARIABLE, "OLM_CATALOG_URL"];
/// `NO_PROXY` of an installation behind a proxy: Services of the cluster are reached directly.
pub const NO_PROXY: &str = ".svc,.cluster.local";

pub(super) fn manager(options: &ManifestOptions) -> Vec<Value> {
    let mut args = vec![
        "manager".into(),
        format!("--listen=[::]:{HTTP_PORT}"),
        format!("--secure-listen=[::]:{SECURE_PORT}"),
        format!("--cache-dir={CACHE}"),
        format!("--registries={REGISTRIES_PATH}/registries.yaml"),
        format!("--pull-cas-dir={REGISTRIES_PATH}"),
    ];
    args.extend(options.shipped_images.iter().map(|(from, to)| format!("{SHIPPED_IMAGE}={from}={to}")));
    args.extend(options.pull_secrets.iter().map(|name| format!("{SHIPPED_PULL_SECRET}={name}")));
    let pod = Pod {
        name: MANAGER,
        image: &options.image,
        args,
        scheme: "HTTP",
        env: Vec::new(),
        volumes: vec![
            json!({ "name": "cache", "emptyDir": { "sizeLimit": CACHE_SIZE } }),
            // Mounted rather than watched: that needs no right, and a change needs no restart.
            json!({ "name": "registries", "configMap": { "name": REGISTRIES, "optional": true } }),
        ],
        mounts: vec![
            json!({ "name": "cache", "mountPath": CACHE }),
            json!({ "name": "registries", "mountPath": REGISTRIES_PATH, "readOnly": true }),
        ],
    };
    pod.manager(options)
}

/// Where Secret `olm-console` is mounted: the client secret for an OIDC provider, certificates.
const CONSOLE_PATH: &str = "/etc/olm/console";
const CONSOLE_TLS: &str = "olm-console-tls";
const CONSOLE_TLS_PATH: &str = "/etc/olm/console-tls";

pub(super) fn console(options: &ManifestOptions, image: &str) -> Vec<Value> {
    let mut args = vec!["console".into(), format!("--listen=[::]:{HTTP_PORT}")];
    // Mounted rather than watched: that needs no right, and the Secret is optional.
    let mut volumes = vec![json!({ "name": "files", "secret": { "secretName": CONSOLE, "optional": true } })];
    let mut mounts = vec![json!({ "name": "files", "mountPath": CONSOLE_PATH, "readOnly": true })];
    if options.console_tls {
        args.push(format!("--tls-cert-file={CONSOLE_TLS_PATH}/tls.crt"));
        args.push(format!("--tls-private-key-file={CONSOLE_TLS_PATH}/tls.key"));
        volumes.push(json!({ "name": "tls", "secret": { "secretName": CONSOLE_TLS } }));
        mounts.push(json!({ "name": "tls", "mountPath": CONSOLE_TLS_PATH, "readOnly": true }));
    }
    args.extend(options.console_args.iter().cloned());
    let pod = Pod {
        name: CONSOLE,
        image,
        args,
        scheme: if options.console_tls { "HTTPS" } else { "HTTP" },
        env: vec![json!({
            "name": "OLM_CATALOG_URL",
            "value": format!("https://{MANAGER}.{}.svc:{HTTP_PORT}", options.namespace),
        })],
        volumes,
        mounts,
    };
    pod.objects(options)
}

struct Pod<'a> {
    name: &'static str,
    image: &'a str,
    args: Vec<String>,
    /// For the kubelet's probes.
    scheme: &'static str,
    env: Vec<Value>,
    volumes: Vec<Value>,
    mounts: Vec<Value>,
}

impl Pod<'_> {
    fn objects(self, options: &ManifestOptions) -> Vec<Value> {
        vec![self.service(options), self.deployment(options)]
    }

    /// The manager's Deployment differs from the console's: replicas that wait for the Lease, and the options
    /// annotation.
    fn manager(self, options: &ManifestOptions) -> Vec<Value> {
        let service = self.service(options);
        let mut deployment = self.deployment(options);
        let spec = &mut deployment["spec"];
        spec["replicas"] = options.replicas.into();
        spec["template"]["spec"]["containers"][0]["resources"] = options.resources.clone();
        let ports = spec["template"]["spec"]["containers"][0]["ports"].as_array_mut();
        if let Some(ports) = ports {
            ports.push(json!({ "name": SECURE_PORT_NAME, "containerPort": SECURE_PORT, "protocol": "TCP" }));
        }
        if options.replicas > 1 {
            // The leader releases its Lease on termination; the new one has loaded the catalogs by then.
            spec["strategy"] = json!({
                "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1, "maxSurge": 1 }
            });
        }
        spec["template"]["spec"]["topologySpreadConstraints"] = json!([{
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            // Two on one node are better than one.
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": { "matchLabels": { "app.kubernetes.io/name": MANAGER } },
        }]);
        let chosen = serde_json::to_string(options).unwrap_or_default();
        deployment["metadata"]["annotations"] = json!({ OPTIONS_ANNOTATION: chosen });
        vec![service, deployment]
    }

    fn service(&self, options: &ManifestOptions) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": self.name,
                "namespace": options.namespace,
                "labels": { "app.kubernetes.io/name": self.name },
            },
            "spec": {
                "selector": { "app.kubernetes.io/name": self.name },
                "ports": [{ "name": "http", "port": HTTP_PORT, "targetPort": "http", "protocol": "TCP" }]
            }
        })
    }

    fn deployment(self, options: &ManifestOptions) -> Value {
        let labels = json!({ "app.kubernetes.io/name": self.name, "app.kubernetes.io/part-of": "olm" });
        let mut env = vec![
            json!({ "name": "POD_NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }),
            json!({ "name": "POD_NAMESPACE", "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } } }),
            json!({ "name": NAMESPACE_VARIABLE, "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } } }),
        ];
        env.extend(self.env.iter().cloned());
        env.extend(options.env.iter().map(|(name, value)| json!({ "name": name, "value": value })));
        let mut deployment = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": self.name,
                "namespace": options.namespace,
                "labels": {
                    "app.kubernetes.io/name": self.name,
                    VERSION_LABEL: VERSION,
                },
            },
            "spec": {
                "replicas": 1,
                "revisionHistoryLimit": 2,
                // A second one would only wait for the Lease.
                "strategy": { "type": "Recreate" },
                "selector": { "matchLabels": { "app.kubernetes.io/name": self.name } },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": {
                        "serviceAccountName": self.name,
                        "terminationGracePeriodSeconds": 10,
                        "securityContext": {
                            "runAsNonRoot": true,
                            "runAsUser": USER,
                            "runAsGroup": USER,
                            "seccompProfile": { "type": "RuntimeDefault" }
                        },
                        "containers": [{
                            "name": self.name,
                            "image": self.image,
                            "imagePullPolicy": options.image_pull_policy,
                            "args": self.args,
                            "env": env,
                            "ports": [{ "name": "http", "containerPort": HTTP_PORT, "protocol": "TCP" }],
                            "readinessProbe": {
                                "httpGet": { "path": "/readyz", "port": "http", "scheme": self.scheme },
                                "periodSeconds": 2
                            },
                            "livenessProbe": {
                                "httpGet": { "path": "/healthz", "port": "http", "scheme": self.scheme },
                                "initialDelaySeconds": 10,
                                "periodSeconds": 20
                            },
                            "resources": { "requests": { "cpu": "10m", "memory": "32Mi" } },
                            "terminationMessagePolicy": "FallbackToLogsOnError",
                            "securityContext": {
                                "allowPrivilegeEscalation": false,
                                "readOnlyRootFilesystem": true,
                                "capabilities": { "drop": ["ALL"] }
                            }
                        }]
                    }
                }
            }
        });
        if !options.pull_secrets.is_empty() {
            let secrets = options.pull_secrets.iter().map(|name| json!({ "name": name }));
            deployment["spec"]["template"]["spec"]["imagePullSecrets"] = secrets.collect();
        }
        if !self.volumes.is_empty() {
            let pod = &mut deployment["spec"]["template"]["spec"];
            pod["volumes"] = self.volumes.into();
            pod["containers"][0]["volumeMounts"] = self.mounts.into();
        }
        deployment
    }
}
