//! The manifests as an administrator reads them.

mod pods;

use olm_engine::site::{CONSOLE, MANAGER, NAMESPACE, PULL_SECRETS_ROLE};

use super::*;

fn kinds(objects: &[Value]) -> Vec<String> {
    objects
        .iter()
        .map(|o| {
            format!(
                "{}/{}",
                o["kind"].as_str().unwrap_or_default(),
                o["metadata"]["name"].as_str().unwrap_or_default()
            )
        })
        .collect()
}

#[test]
fn objects_come_in_an_order_that_can_be_applied() {
    // when
    let objects = kinds(&manifests(&ManifestOptions::default()));

    // then dependencies come first
    let at = |name: &str| objects.iter().position(|o| o == name).expect(name);
    assert_eq!(at("Namespace/olm"), 0);
    assert!(
        at("CustomResourceDefinition/catalogsources.operators.coreos.com") < at("CatalogSource/community")
    );
    assert!(at("ServiceAccount/olm-manager") < at("Deployment/olm-manager"));
    assert!(at("ClusterRole/olm-manager") < at("ClusterRoleBinding/olm-manager"));
    assert!(at("ServiceAccount/olm-console") < at("Deployment/olm-console"));
}

#[test]
fn secrets_are_read_in_the_managers_namespace_alone() {
    // given every role with access to Secrets
    let objects = manifests(&ManifestOptions::default());
    let reads = |object: &&Value| {
        object["rules"].as_array().into_iter().flatten().any(|rule| {
            let has = |field: &str, wanted: &[&str]| {
                rule[field]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .any(|v| v.as_str().is_some_and(|v| wanted.contains(&v)))
            };
            has("resources", &["secrets"]) && has("verbs", &["get", "list", "watch"])
        })
    };
    let roles: Vec<&Value> = objects.iter().filter(reads).collect();
    // then it is one ClusterRole, to get Secrets by name
    assert_eq!(roles.len(), 1, "{roles:?}");
    assert_eq!(roles[0]["metadata"]["name"], PULL_SECRETS_ROLE);
    assert_eq!(roles[0]["rules"], json!([{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] }]));
    // and it is bound in the manager's namespace alone
    let bindings: Vec<&Value> =
        objects.iter().filter(|o| o["roleRef"]["name"] == PULL_SECRETS_ROLE).collect();
    assert_eq!(bindings.len(), 1);
    assert_eq!(bindings[0]["kind"], "RoleBinding");
    assert_eq!(bindings[0]["metadata"]["namespace"], NAMESPACE);
}

#[test]
fn the_manager_can_write_to_its_cache_alone() {
    let objects = manifests(&ManifestOptions::default());
    let manager = objects.iter().find(|o| o["kind"] == "Deployment" && o["metadata"]["name"] == MANAGER);
    let pod = &manager.expect("a Deployment")["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    let mounts = container["volumeMounts"].as_array().expect("mounts");
    let writable: Vec<&Value> =
        mounts.iter().filter(|m| m["readOnly"] != true).map(|m| &m["mountPath"]).collect();
    assert_eq!(writable, ["/var/cache/olm"]);
    let cache =
        pod["volumes"].as_array().expect("volumes").iter().find(|v| v["name"] == "cache").expect("cache");
    assert!(cache["emptyDir"]["sizeLimit"].is_string(), "{cache}");
}

#[test]
fn the_manager_has_no_wildcard_right() {
    for object in manifests(&ManifestOptions::default()) {
        for rule in object["rules"].as_array().into_iter().flatten() {
            for field in ["apiGroups", "resources", "verbs"] {
                let stars = rule[field].as_array().into_iter().flatten().filter(|v| v.as_str() == Some("*"));
                assert_eq!(stars.count(), 0, "{rule}");
            }
        }
    }
}

#[test]
fn the_console_has_no_rights_of_its_own() {
    for object in manifests(&ManifestOptions::default()) {
        for subject in object["subjects"].as_array().into_iter().flatten() {
            assert_ne!(subject["name"], CONSOLE, "{object}");
        }
    }
}

#[test]
fn several_managers_are_kept_apart_and_one_of_them_is_always_left() {
    let options = ManifestOptions { replicas: 3, ..ManifestOptions::default() };
    let objects = manifests(&options);
    let manager =
        objects.iter().find(|o| o["kind"] == "Deployment" && o["metadata"]["name"] == MANAGER).unwrap();
    assert_eq!(manager["spec"]["replicas"], 3);
    assert_eq!(manager["spec"]["strategy"]["type"], "RollingUpdate");
    let spread = &manager["spec"]["template"]["spec"]["topologySpreadConstraints"][0];
    assert_eq!(spread["topologyKey"], "kubernetes.io/hostname");
    let budget = objects.iter().find(|o| o["kind"] == "PodDisruptionBudget").unwrap();
    assert_eq!(budget["spec"]["minAvailable"], 1);
    // a single replica is replaced, and may be evicted
    assert!(!manifests(&ManifestOptions::default()).iter().any(|o| o["kind"] == "PodDisruptionBudget"));
}

#[test]
fn network_policies_let_in_the_ports_that_are_served_and_let_the_console_out_to_what_it_needs() {
    let objects = manifests(&ManifestOptions::default());
    let policies: Vec<&Value> = objects.iter().filter(|o| o["kind"] == "NetworkPolicy").collect();
    assert_eq!(policies.len(), 2);
    for policy in &policies {
        assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
        let port = |name: &str| json!({ "protocol": "TCP", "port": name });
        let mut ports = vec![port("http")];
        // The API server calls the manager at the second port.
        ports.extend((policy["metadata"]["name"] == MANAGER).then(|| port("secure")));
        assert_eq!(policy["spec"]["ingress"], json!([{ "ports": ports }]));
    }
    let console = policies.iter().find(|p| p["metadata"]["name"] == CONSOLE).unwrap();
    let open = |rule: &Value| rule.as_object().is_some_and(serde_json::Map::is_empty);
    assert!(!console["spec"]["egress"].as_array().unwrap().iter().any(open), "{console}");
    let off = ManifestOptions { network_policy: false, ..ManifestOptions::default() };
    assert!(!manifests(&off).iter().any(|o| o["kind"] == "NetworkPolicy"));
}

/// Prometheus selects the Service by its labels, and the port by its name.
#[test]
fn a_service_monitor_selects_the_managers_service_alone() {
    // given other Services in another namespace
    let options = ManifestOptions {
        namespace: "elsewhere".into(),
        service_monitor: true,
        package_manifests: true,
        ..ManifestOptions::default()
    };
    let objects = manifests(&options);
    let monitor = objects.iter().find(|o| o["kind"] == "ServiceMonitor").expect("a ServiceMonitor");
    let spec = &monitor["spec"];
    // then it is in the namespace of the Service, the only one that it selects from
    assert_eq!(monitor["metadata"]["namespace"], "elsewhere");
    assert!(spec["namespaceSelector"].is_null(), "{spec}");
    // and its labels match that Service alone
    assert_eq!(spec["selector"].as_object().expect("a selector").len(), 1, "{spec}");
    let labels = spec["selector"]["matchLabels"].as_object().expect("labels");
    let selected: Vec<&Value> = objects
        .iter()
        .filter(|o| o["kind"] == "Service")
        .filter(|o| labels.iter().all(|(name, value)| o["metadata"]["labels"][name] == *value))
        .collect();
    assert_eq!(selected.len(), 1, "{selected:?}");
    assert_eq!(selected[0]["metadata"]["name"], MANAGER);
    assert_eq!(selected[0]["metadata"]["namespace"], "elsewhere");
    // and it scrapes a port of this Service
    let ports: Vec<&Value> =
        selected[0]["spec"]["ports"].as_array().expect("ports").iter().map(|port| &port["name"]).collect();
    let endpoints = spec["endpoints"].as_array().expect("endpoints");
    assert_eq!(endpoints.len(), 1, "{spec}");
    assert!(ports.contains(&&endpoints[0]["port"]), "{spec} of {ports:?}");
    assert_eq!(endpoints[0]["path"], "/metrics");
    // with the token of Prometheus, which is never sent without TLS
    assert_eq!(endpoints[0]["scheme"], "https");
    assert!(endpoints[0]["bearerTokenFile"].is_string());
}

#[test]
fn t11_only_the_catalogs_of_the_products_namespace_are_public_and_can_be_closed() {
    let public = |objects: &[Value]| {
        // Every user may reach the port, which checks a right for each catalog.
        let everyone = |object: &&Value| {
            object["metadata"]["name"] != PORT_ROLE
                && object["subjects"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .any(|s| s["name"] == "system:authenticated")
        };
        objects.iter().filter(everyone).cloned().collect::<Vec<_>>()
    };
    let open = public(&manifests(&ManifestOptions::default()));
    assert_eq!(open.len(), 1, "{open:?}");
    assert_eq!(
        (&open[0]["kind"], &open[0]["metadata"]["namespace"]),
        (&json!("RoleBinding"), &json!(NAMESPACE))
    );
    assert_eq!(open[0]["roleRef"]["name"], CATALOG_READER_ROLE);
    let closed = ManifestOptions { public_catalogs: false, ..ManifestOptions::default() };
    assert_eq!(public(&manifests(&closed)), [] as [Value; 0]);
}

#[test]
fn everything_is_in_the_namespace_that_was_chosen() {
    let options = ManifestOptions {
        namespace: "elsewhere".into(),
        replicas: 2,
        service_monitor: true,
        ..ManifestOptions::default()
    };
    for object in manifests(&options) {
        let namespace = &object["metadata"]["namespace"];
        assert!(namespace.is_null() || namespace == "elsewhere", "{object}");
        for subject in object["subjects"].as_array().into_iter().flatten() {
            assert!(subject["kind"] == "Group" || subject["namespace"] == "elsewhere", "{object}");
        }
        if object["kind"] != "CustomResourceDefinition" {
            assert!(
                !object.to_string().contains("\"olm\"") || object["metadata"]["labels"][PART_OF.0] == "olm",
                "{object}"
            );
        }
    }
}

#[test]
fn what_an_installation_chose_can_be_read_back() {
    let options = ManifestOptions {
        replicas: 2,
        console_image: None,
        env: vec![("A".into(), "b".into())],
        ..ManifestOptions::default()
    };
    let objects = manifests(&options);
    let manager = objects.iter().find(|o| o["kind"] == "Deployment").unwrap();
    let text = manager["metadata"]["annotations"][installation::OPTIONS_ANNOTATION].as_str().unwrap();
    assert_eq!(serde_json::from_str::<ManifestOptions>(text).unwrap(), options);
}

/// The documentation's table is generated from the one in the code.
#[test]
fn the_documentation_has_every_right_and_why() {
    let rows = calls::CALLS.iter().map(|call| {
        let list = |words: &[&str]| words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(" ");
        let group = if call.group.is_empty() { "core" } else { call.group };
        format!("| {group} | {} | {} | {} |\n", list(call.resources), list(call.verbs), call.why)
    });
    let table = format!(
        "| group | resources | verbs | why |\n| --- | --- | --- | --- |\n{}",
        rows.collect::<String>()
    );
    olm_testing::documented("running.md", "rights", &table);
}

#[test]
fn the_image_has_the_user_and_the_program_that_the_pods_want() {
    for (binary, builds) in [(containerfile::Binary::Built, true), (containerfile::Binary::Copied, false)] {
        let text = containerfile::containerfile(binary);
        assert_eq!(
            text.contains("cargo build --profile dist --locked --package olm --no-default-features"),
            builds,
            "{text}"
        );
        assert!(text.contains("\nUSER 65532:65532\nENTRYPOINT [\"/usr/local/bin/olm\"]\n"), "{text}");
        let pod =
            &manifests(&ManifestOptions::default()).into_iter().find(|o| o["kind"] == "Deployment").unwrap()
                ["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsUser"], 65532);
        assert_eq!(pod["containers"][0]["args"][0], "manager");
    }
}

/// Renders the chart's templates as Helm does, for the constructs used here: values, `if`, `range` over
/// ports, `toYaml`.
fn rendered(values: &Value) -> Vec<Value> {
    let mut out = Vec::new();
    let pick = |path: &str| {
        values.pointer(&path.trim_start_matches(".Values").replace('.', "/")).cloned().unwrap_or_default()
    };
    let truth = |condition: &str| -> bool {
        let words: Vec<&str> = condition.split_whitespace().collect();
        match words.as_slice() {
            ["gt", "(int", value, one] => pick(value.trim_end_matches(')')).as_u64() > one.parse().ok(),
            ["and", both @ ..] => both.iter().all(|value| pick(value) == true),
            // The newest API server serves every kind.
            [".Capabilities.APIVersions.Has", _] => true,
            ["not", "(.Capabilities.APIVersions.Has", _] => false,
            [value] => pick(value) == true || pick(value).as_array().is_some_and(|list| !list.is_empty()),
            other => panic!("unknown condition {other:?}"),
        }
    };
    for (name, text) in helm::chart().unwrap() {
        if name.starts_with("crds/") {
            out.push(serde_yaml::from_str(&text).unwrap());
        }
        if !name.starts_with("templates/") || !name.ends_with(".yaml") {
            continue;
        }
        // The list of extra catalogs is empty here.
        let text = text.split("{{- range .Values.catalogs.extra }}").next().unwrap();
        let mut yaml = String::new();
        let mut on = vec![true];
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let word = line.trim();
            if let Some(condition) = word.strip_prefix("{{- if ") {
                on.push(truth(condition.trim_end_matches(" }}")));
            } else if word == "{{- else }}" {
                let top = on.pop().unwrap();
                on.push(!top);
            } else if word == "{{- end }}" {
                on.pop().unwrap();
            } else if word == "{{- range .Values.networkPolicy.apiServerPorts }}" {
                let body: Vec<&str> = lines.by_ref().take_while(|l| l.trim() != "{{- end }}").collect();
                let ports = pick(".Values.networkPolicy.apiServerPorts");
                for port in ports.as_array().into_iter().flatten().filter(|_| on.iter().all(|on| *on)) {
                    yaml.push_str(&format!("{}\n", body.join("\n").replace("{{ . }}", &port.to_string())));
                }
            } else if word == "{{- range .Values.console.args }}" {
                let body: Vec<&str> = lines.by_ref().take_while(|l| l.trim() != "{{- end }}").collect();
                let arguments = pick(".Values.console.args");
                for argument in arguments.as_array().into_iter().flatten().filter(|_| on.iter().all(|on| *on))
                {
                    let text = body.join("\n").replace("{{ . | quote }}", &argument.to_string());
                    yaml.push_str(&format!("{text}\n"));
                }
            } else if word == "{{- range .Values.imagePullSecrets }}" {
                let body: Vec<&str> = lines.by_ref().take_while(|l| l.trim() != "{{- end }}").collect();
                let secrets = pick(".Values.imagePullSecrets");
                for secret in secrets.as_array().into_iter().flatten().filter(|_| on.iter().all(|on| *on)) {
                    let name = secret["name"].as_str().unwrap();
                    let text = body.join("\n").replace("{{ .name | quote }}", name).replace(
                        "{{ printf \"--shipped-pull-secret=%s\" .name | quote }}",
                        &format!("--shipped-pull-secret={name}"),
                    );
                    yaml.push_str(&format!("{text}\n"));
                }
            } else if word == "{{- range .Values.env }}" {
                let body: Vec<&str> = lines.by_ref().take_while(|l| l.trim() != "{{- end }}").collect();
                let variables = pick(".Values.env");
                for variable in variables.as_array().into_iter().flatten().filter(|_| on.iter().all(|on| *on))
                {
                    let text = body
                        .join("\n")
                        .replace("{{ .name | quote }}", &variable["name"].to_string())
                        .replace("{{ .value | quote }}", &variable["value"].to_string());
                    yaml.push_str(&format!("{text}\n"));
                }
            } else if word == "{{- range $from, $to := .Values.catalogs.images }}" {
                let body: Vec<&str> = lines.by_ref().take_while(|l| l.trim() != "{{- end }}").collect();
                let images = pick(".Values.catalogs.images");
                for (from, to) in images.as_object().into_iter().flatten().filter(|_| on.iter().all(|on| *on))
                {
                    let flag = format!("--shipped-image={from}={}", to.as_str().unwrap());
                    let text = body
                        .join("\n")
                        .replace("{{ printf \"--shipped-image=%s=%s\" $from $to | quote }}", &flag);
                    yaml.push_str(&format!("{text}\n"));
                }
            } else if on.iter().all(|on| *on) {
                let scheme = if pick(".Values.console.tls") == true { "HTTPS" } else { "HTTP" };
                let mut line = line
                    .replace("{{ .Values.console.tls | ternary \"HTTPS\" \"HTTP\" }}", scheme)
                    .replace("{{ include \"olm.namespace\" . }}", "olm")
                    .replace("{{ .Values.image | quote }}", &pick(".Values.image").to_string())
                    .replace(
                        "{{ .Values.console.image | default .Values.image | quote }}",
                        &pick(".Values.image").to_string(),
                    )
                    .replace(
                        "{{ .Values.imagePullPolicy }}",
                        pick(".Values.imagePullPolicy").as_str().unwrap(),
                    )
                    .replace("{{ .Values.replicas }}", &pick(".Values.replicas").to_string());
                if let Some(at) = line.find("{{- toYaml .Values.resources | nindent ") {
                    let indent: usize =
                        line[at..].trim_end_matches(" }}").rsplit(' ').next().unwrap().parse().unwrap();
                    let block = serde_yaml::to_string(&pick(".Values.resources")).unwrap();
                    let block: String =
                        block.lines().map(|l| format!("\n{}{l}", " ".repeat(indent))).collect();
                    line = format!("{}{block}", line[..at].trim_end());
                }
                assert!(!line.contains("{{"), "{name}: {line}");
                yaml.push_str(&line);
                yaml.push('\n');
            }
        }
        use serde::Deserialize as _;
        for document in serde_yaml::Deserializer::from_str(&yaml) {
            let object =
                Value::deserialize(document).unwrap_or_else(|error| panic!("{name}: {error}\n{yaml}"));
            out.extend((!object.is_null()).then_some(object));
        }
    }
    out
}

/// Options, and the equivalent values of the chart.
fn choices() -> [(ManifestOptions, &'static str); 3] {
    let all = ManifestOptions {
        replicas: 2,
        service_monitor: true,
        package_manifests: true,
        image: "registry.example/olm:2".into(),
        console_image: Some("registry.example/olm:2".into()), // Helm adds maps up.
        console_args: vec!["--oidc-issuer=https://id.example".into(), "--oidc-client-id=a".into()],
        console_tls: true,
        shipped_images: [
            ("localhost/olm/a:1".into(), "registry.example/a@sha256:01".into()),
            ("localhost/olm/b:1".into(), "registry.example/b@sha256:02".into()),
        ]
        .into(),
        pull_secrets: vec!["first".into(), "second".into()],
        env: vec![("HTTPS_PROXY".into(), "http://proxy.example:3128".into())],
        resources: json!({ "requests": { "cpu": "10m", "memory": "32Mi" }, "limits": { "memory": "1Gi" } }),
        ..ManifestOptions::default()
    };
    let least = ManifestOptions {
        console_image: None,
        network_policy: false,
        public_catalogs: false,
        shipped_catalog: false,
        ..ManifestOptions::default()
    };
    [
        (ManifestOptions::default(), "{}"),
        (
            all,
            "{replicas: 2, env: [{name: HTTPS_PROXY, value: 'http://proxy.example:3128'}], imagePullSecrets: [{name: first}, {name: second}], catalogs: {images: {'localhost/olm/a:1': 'registry.example/a@sha256:01', 'localhost/olm/b:1': 'registry.example/b@sha256:02'}}, serviceMonitor: {enabled: true}, packageManifests: {enabled: true}, image: 'registry.example/olm:2', console: {args: ['--oidc-issuer=https://id.example', '--oidc-client-id=a'], tls: true}, resources: {limits: {memory: 1Gi}}}",
        ),
        (
            least,
            "{console: {enabled: false}, networkPolicy: {enabled: false}, catalogs: {public: false, shipped: false}}",
        ),
    ]
}

/// Fails where the chart's objects differ from those of the options.
fn assert_same(options: &ManifestOptions, text: &str, chart: Vec<Value>) {
    let sorted = |objects: Vec<Value>| {
        let mut objects: Vec<(String, Value)> = objects
            .into_iter()
            // Helm makes the namespace, and stores the options in the release.
            .filter(|o| o["kind"] != "Namespace")
            .map(|mut o| {
                if o["kind"] == "Deployment"
                    && let Some(metadata) = o["metadata"].as_object_mut()
                {
                    metadata.remove("annotations");
                }
                (format!("{} {}", o["kind"], o["metadata"]["name"]), o)
            })
            .collect();
        objects.sort_by(|a, b| a.0.cmp(&b.0));
        objects
    };
    let newest = |o: &Value| served(o).contains(&36);
    let (ours, charts) = (sorted(manifests(options).into_iter().filter(newest).collect()), sorted(chart));
    let names =
        |objects: &[(String, Value)]| objects.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&charts), names(&ours), "{text}");
    for ((name, chart), (_, own)) in charts.iter().zip(&ours) {
        assert_eq!(chart, own, "{text}: {name}");
    }
}

#[test]
fn the_chart_makes_the_very_same_objects() {
    let values = |text: &str| -> Value {
        let files = helm::chart().unwrap();
        let (_, own) = files.iter().find(|(name, _)| name == "values.yaml").unwrap();
        let mut values: Value = serde_yaml::from_str(own).unwrap();
        let Value::Object(others) = serde_yaml::from_str::<Value>(text).unwrap() else { return values };
        for (key, value) in others {
            match (values.get_mut(&key).and_then(Value::as_object_mut), value) {
                (Some(old), Value::Object(new)) => old.extend(new),
                (_, value) => values[&key] = value,
            }
        }
        values
    };
    for (options, text) in choices() {
        assert_same(&options, text, rendered(&values(text)));
    }
}

#[test]
fn the_charts_notes_have_the_labels_of_the_namespace() {
    let files = helm::chart().unwrap();
    let (_, notes) = files.iter().find(|(name, _)| name == "templates/NOTES.txt").unwrap();
    let command = notes.lines().find(|line| line.contains("kubectl label namespace")).unwrap();
    let all = manifests(&ManifestOptions::default());
    let namespace = all.iter().find(|object| object["kind"] == "Namespace").unwrap();
    for (key, value) in namespace["metadata"]["labels"].as_object().unwrap() {
        let label = format!(" {key}={}", value.as_str().unwrap());
        assert_eq!(command.contains(&label), key.starts_with("pod-security"), "{command}: {label}");
    }
}

/// The renderer of these tests may accept what Helm rejects.
#[test]
fn helm_makes_the_very_same_objects() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(program) = std::env::split_paths(&path).map(|dir| dir.join("helm")).find(|path| path.is_file())
    else {
        println!("skipped: helm_makes_the_very_same_objects: helm is not installed");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let chart = dir.path().join("olm");
    for (name, text) in helm::chart().unwrap() {
        let path = chart.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    for (options, text) in choices() {
        let values = dir.path().join("values.yaml");
        std::fs::write(&values, text).unwrap();
        let mut command = std::process::Command::new(&program);
        command.args(["template", "olm"]).arg(&chart).arg("--values").arg(&values);
        command.args(["--namespace", NAMESPACE, "--include-crds", "--kube-version", "1.36.0"]);
        // `helm template` has no cluster to query.
        for kind in ["ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"] {
            command.arg("--api-versions").arg(format!("admissionregistration.k8s.io/v1/{kind}"));
        }
        // No file of the user is read or written.
        let out = command.env("HOME", dir.path()).env_remove("KUBECONFIG").output().unwrap();
        assert!(out.status.success(), "{text}: {}", String::from_utf8_lossy(&out.stderr));
        use serde::Deserialize as _;
        let objects = serde_yaml::Deserializer::from_slice(&out.stdout)
            .map(|document| Value::deserialize(document).unwrap())
            .filter(|object| !object.is_null());
        assert_same(&options, text, objects.collect());
    }
}

/// No operator may adopt an object of the installation, whatever the options.
#[test]
fn t07_every_object_of_an_installation_is_reserved() {
    let options = ManifestOptions {
        replicas: 2,
        service_monitor: true,
        package_manifests: true,
        ..ManifestOptions::default()
    };
    let installed = olm_plan::Installed { namespace: "db", targets: &[], crds: &[], groups: &[] };
    for mut object in manifests(&options) {
        // The name alone is enough: the label may have been removed.
        object["metadata"]["labels"] = json!({});
        let users = ["Namespace", "CatalogSource"].contains(&object["kind"].as_str().unwrap_or_default());
        assert!(users || olm_plan::reserved(&object, None, &installed).is_some(), "{}", object["metadata"]);
    }
}
