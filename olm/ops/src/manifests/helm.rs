//! The objects of [`manifests`] as a Helm chart: each field that a value decides is a mark in the object, and
//! the marks become template expressions.

use std::fmt::Write as _;

use olm_engine::site::{CONSOLE, MANAGER};
use serde_json::{Value, json};

use super::{
    CATALOG_READER_ROLE, ManifestOptions, OLDEST_KUBERNETES, POD_SECURITY, VERSION,
    installation::OPTIONS_ANNOTATION,
    manifests,
    packages::{PACKAGES, PACKAGES_API},
    stands_in,
};

/// Marks of the fields that a value decides, and the expression that replaces each. YAML leaves the marks
/// unquoted, so that an expression decides the type.
const MARKS: [(&str, &str); 8] = [
    ("markNamespace", "{{ include \"olm.namespace\" . }}"),
    ("markManagerImage", "{{ .Values.image | quote }}"),
    ("markConsoleImage", "{{ .Values.console.image | default .Values.image | quote }}"),
    ("markPullPolicy", "{{ .Values.imagePullPolicy }}"),
    ("markReplicas", "{{ .Values.replicas }}"),
    ("markScheme", "{{ .Values.console.tls | ternary \"HTTPS\" \"HTTP\" }}"),
    ("markResources", "{{- toYaml .Values.resources | nindent INDENT }}"),
    ("markPorts", "{{- range .Values.networkPolicy.apiServerPorts }}"),
];

/// Prefix of the marks of list items that are present only where the console serves TLS; a number follows.
const ITEM: &str = "markItem";
const CONSOLE_TLS: &str = ".Values.console.tls";
/// The console's extra arguments.
const ARGUMENTS: &str = "markArguments";

/// A pull secret, a name of a shipped image, and a variable.
const PULL_SECRET: &str = "markPullSecret";
const SHIPPED: &str = "markShipped";
const VARIABLE: &str = "markVariable";

/// A file of the chart: its path below the chart's folder, and its text.
pub type File = (String, String);

/// The chart. Its objects are those of [`manifests`] with the same options.
///
/// # Errors
/// When an object fails to serialise as YAML; objects that come from JSON do not.
pub fn chart() -> Result<Vec<File>, serde_yaml::Error> {
    let mut files = vec![
        ("Chart.yaml".to_owned(), head()),
        ("values.yaml".to_owned(), values()?),
        ("templates/_helpers.tpl".to_owned(), HELPERS.to_owned()),
        ("templates/NOTES.txt".to_owned(), notes()),
    ];
    for object in super::crds() {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        files.push((format!("crds/{name}.yaml"), serde_yaml::to_string(&object)?));
    }
    for part in parts() {
        files.push((format!("templates/{}.yaml", part.file), part.text()?));
    }
    Ok(files)
}

/// Objects that one value enables.
struct Part {
    file: &'static str,
    condition: Option<&'static str>,
    objects: Vec<Value>,
}

fn parts() -> Vec<Part> {
    let marked = marked();
    let of = |file, condition, wanted: fn(&Value) -> bool| Part {
        file,
        condition,
        objects: manifests(&marked).into_iter().filter(wanted).map(unchosen).collect(),
    };
    let mut spread = of("manager", None, |o| is(o, &["Deployment", "Service"], MANAGER));
    // What only several replicas have is in the template.
    for object in &mut spread.objects {
        if let Some(spec) = object["spec"].as_object_mut() {
            spec.remove("strategy");
        }
    }
    vec![
        of("rbac", None, |o| {
            o["metadata"]["name"] != CONSOLE
                && !is_of_packages(o)
                && !is(o, &["RoleBinding"], CATALOG_READER_ROLE)
                && ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]
                    .iter()
                    .any(|kind| o["kind"] == *kind)
        }),
        spread,
        of("console", Some(".Values.console.enabled"), |o| {
            is(o, &["ServiceAccount", "Deployment", "Service"], CONSOLE)
        }),
        of("networkpolicy", Some(".Values.networkPolicy.enabled"), |o| is(o, &["NetworkPolicy"], MANAGER)),
        of("networkpolicy-console", Some("and .Values.networkPolicy.enabled .Values.console.enabled"), |o| {
            is(o, &["NetworkPolicy"], CONSOLE)
        }),
        of("approvals", Some(VALIDATES), |o| {
            o["kind"].as_str().is_some_and(|kind| kind.starts_with("ValidatingAdmissionPolicy"))
        }),
        of("requests", Some(MUTATES), |o| {
            o["kind"].as_str().is_some_and(|kind| kind.starts_with("MutatingAdmissionPolicy"))
        }),
        of("requests-webhook", Some(DOES_NOT_MUTATE), stands_in),
        of("packages", Some(".Values.packageManifests.enabled"), is_of_packages),
        of("poddisruptionbudget", Some("gt (int .Values.replicas) 1"), |o| {
            o["kind"] == "PodDisruptionBudget"
        }),
        of("servicemonitor", Some(".Values.serviceMonitor.enabled"), |o| o["kind"] == "ServiceMonitor"),
        of("public-catalogs", Some(".Values.catalogs.public"), |o| {
            is(o, &["RoleBinding"], CATALOG_READER_ROLE)
        }),
        of("catalogs", Some(".Values.catalogs.shipped"), |o| o["kind"] == "CatalogSource"),
    ]
}

/// Whether an object is part of the API of PackageManifests alone.
fn is_of_packages(object: &Value) -> bool {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    name.starts_with(PACKAGES) || name == PACKAGES_API
}

fn is(object: &Value, kinds: &[&str], name: &str) -> bool {
    object["metadata"]["name"] == name && kinds.iter().any(|kind| object["kind"] == *kind)
}

/// Removes the options annotation: Helm stores the values of a release itself.
fn unchosen(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut()
        && metadata.get("annotations").is_some_and(|a| a.get(OPTIONS_ANNOTATION).is_some())
    {
        metadata.remove("annotations");
    }
    object
}

/// Options with a mark for every choice and everything enabled.
fn marked() -> ManifestOptions {
    ManifestOptions {
        namespace: "markNamespace".into(),
        image: "markManagerImage".into(),
        console_image: Some("markConsoleImage".into()),
        image_pull_policy: "markPullPolicy".into(),
        // Any number above one; the template uses the value's.
        replicas: 2,
        resources: "markResources".into(),
        console_args: vec![ARGUMENTS.into()],
        shipped_images: [(SHIPPED.into(), SHIPPED.into())].into(),
        pull_secrets: vec![PULL_SECRET.into()],
        env: vec![(VARIABLE.into(), VARIABLE.into())],
        console_tls: true,
        service_monitor: true,
        package_manifests: true,
        ..ManifestOptions::default()
    }
}

impl Part {
    fn text(&self) -> Result<String, serde_yaml::Error> {
        let mut out = String::new();
        if let Some(condition) = self.condition {
            let _ = writeln!(out, "{{{{- if {condition} }}}}");
        }
        for object in &self.objects {
            let mut object = object.clone();
            if object["kind"] == "Deployment" && object["metadata"]["name"] == MANAGER {
                object["spec"]["replicas"] = "markReplicas".into();
            }
            if object["kind"] == "Deployment" && object["metadata"]["name"] == CONSOLE {
                for probe in ["readinessProbe", "livenessProbe"] {
                    let path = format!("/spec/template/spec/containers/0/{probe}/httpGet/scheme");
                    if let Some(scheme) = object.pointer_mut(&path) {
                        *scheme = "markScheme".into();
                    }
                }
            }
            if let Some(rules) = object.pointer_mut("/spec/egress").and_then(Value::as_array_mut) {
                mark_ports(rules);
            }
            let mut items = Vec::new();
            set_apart(&mut object, &mut items);
            let items =
                items.iter().map(|item| serde_yaml::to_string(&[item])).collect::<Result<Vec<_>, _>>()?;
            let _ = write!(out, "---\n{}", templated(&serde_yaml::to_string(&object)?, &items));
        }
        if self.condition.is_some() {
            out.push_str("{{- end }}\n");
        }
        if self.file == "catalogs" {
            out.push_str(EXTRA_CATALOGS);
        }
        Ok(out)
    }
}

/// The rule that names only ports is the one for the API server, unless it is that for DNS.
fn mark_ports(rules: &mut [Value]) {
    for rule in rules {
        let only_ports = rule.as_object().is_some_and(|rule| rule.len() == 1 && rule.contains_key("ports"));
        if only_ports && rule["ports"].as_array().is_some_and(|ports| ports.iter().all(|p| p["port"] != 53)) {
            rule["ports"] = "markPorts".into();
        }
    }
}

/// Replaces the list items that are present only where the console serves TLS by marks.
fn set_apart(value: &mut Value, items: &mut Vec<Value>) {
    match value {
        Value::Array(list) => {
            for item in list {
                let argument = item.as_str().is_some_and(|text| text.starts_with("--tls-"));
                if argument || item["name"] == "tls" {
                    let mark = format!("{ITEM}{}", items.len());
                    items.push(std::mem::replace(item, mark.into()));
                } else {
                    set_apart(item, items);
                }
            }
        }
        Value::Object(fields) => fields.values_mut().for_each(|field| set_apart(field, items)),
        _ => {}
    }
}

/// Replaces each mark by its expression, and each item mark by its item.
fn templated(text: &str, items: &[String]) -> String {
    let mut out = String::with_capacity(text.len());
    // The template of the item has the value too.
    for line in text.lines().filter(|line| line.trim() != format!("value: {VARIABLE}")) {
        let indent = line.len() - line.trim_start().len();
        let key = line.trim_end_matches("markPorts").trim_end_matches("markResources").trim_end();
        // An item of a list begins with a dash, and its fields are indented behind it.
        let inner = indent + if line.trim_start().starts_with("- ") { 2 } else { 0 };
        let item = line.trim().strip_prefix("- ").and_then(|text| text.strip_prefix(ITEM));
        if let Some(item) = item.and_then(|number| items.get(number.parse::<usize>().ok()?)) {
            let pad = " ".repeat(indent);
            let _ = writeln!(out, "{pad}{{{{- if {CONSOLE_TLS} }}}}");
            for line in item.lines() {
                let _ = writeln!(out, "{pad}{line}");
            }
            let _ = writeln!(out, "{pad}{{{{- end }}}}");
        } else if line.trim() == format!("- {ARGUMENTS}") {
            let pad = " ".repeat(indent);
            let _ = writeln!(
                out,
                "{pad}{{{{- range .Values.console.args }}}}\n{pad}- {{{{ . | quote }}}}\n{pad}{{{{- end }}}}"
            );
        } else if line.trim() == "imagePullSecrets:" {
            let _ = writeln!(out, "{}{{{{- if .Values.imagePullSecrets }}}}\n{line}", " ".repeat(indent));
        } else if let Some(list) = lists(line.trim()) {
            list.lines().for_each(|line| {
                let _ = writeln!(out, "{}{line}", " ".repeat(indent));
            });
        } else if line.ends_with("markResources") {
            let _ = writeln!(out, "{key} {}", MARKS[6].1.replace("INDENT", &(inner + 2).to_string()));
        } else if line.ends_with("markPorts") {
            let pad = " ".repeat(inner);
            let _ = writeln!(
                out,
                "{key}\n{pad}{}\n{pad}- protocol: TCP\n{pad}  port: {{{{ . }}}}\n{pad}{{{{- end }}}}",
                MARKS[7].1
            );
        } else {
            let mut line = line.to_owned();
            for (mark, expression) in &MARKS[..6] {
                line = line.replace(mark, expression);
            }
            let _ = writeln!(out, "{line}");
            if line.trim() == "replicas: {{ .Values.replicas }}" {
                out.push_str(STRATEGY);
            }
        }
    }
    out
}

/// The template of a list item that stands for all items of a value.
fn lists(item: &str) -> Option<&'static str> {
    // The condition begins above, with the field: an empty list is no field.
    const SECRETS: &str =
        "{{- range .Values.imagePullSecrets }}\n- name: {{ .name | quote }}\n{{- end }}\n{{- end }}";
    const ARGUMENTS: &str = "{{- range .Values.imagePullSecrets }}\n- {{ printf \"--shipped-pull-secret=%s\" .name | quote }}\n{{- end }}";
    const IMAGES: &str = "{{- range $from, $to := .Values.catalogs.images }}\n\
         - {{ printf \"--shipped-image=%s=%s\" $from $to | quote }}\n{{- end }}";
    const VARIABLES: &str =
        "{{- range .Values.env }}\n- name: {{ .name | quote }}\n  value: {{ .value | quote }}\n{{- end }}";
    let item = item.replace('\'', "");
    if item == format!("- name: {PULL_SECRET}") {
        Some(SECRETS)
    } else if item == format!("- --shipped-pull-secret={PULL_SECRET}") {
        Some(ARGUMENTS)
    } else if item == format!("- --shipped-image={SHIPPED}={SHIPPED}") {
        Some(IMAGES)
    } else if item == format!("- name: {VARIABLE}") {
        Some(VARIABLES)
    } else {
        None
    }
}

fn head() -> String {
    format!(
        "apiVersion: v2\nname: olm\ndescription: Installs, upgrades, explains and removes operators from catalogs.\n\
         type: application\nversion: {VERSION}\nappVersion: \"{VERSION}\"\nkubeVersion: \">=1.{OLDEST_KUBERNETES}.0-0\"\n"
    )
}

fn values() -> Result<String, serde_yaml::Error> {
    let defaults = ManifestOptions::default();
    let resources = serde_yaml::to_string(&json!({ "resources": defaults.resources }))?;
    let ports: Vec<String> = defaults.api_server_ports.iter().map(u16::to_string).collect();
    Ok(format!(
        "# Image of the manager and the console; `olm self image` makes it.\n\
         image: {image}\n\
         imagePullPolicy: {policy}\n\
         # Secrets to pull it with: a list of name. Operators of the shipped catalog use those of the same names in their namespaces.\n\
         imagePullSecrets: []\n\
         # Managers: one leads, the others are warm and take over. Two or more bring a PodDisruptionBudget.\n\
         replicas: {replicas}\n\
         # Environment of the manager and the console, such as HTTPS_PROXY and NO_PROXY: a list of name and value.\n\
         env: []\n\
         # Where it all is; the release's namespace when empty.\n\
         namespace: \"\"\n\
         # Of the manager.\n\
         {resources}\
         console:\n  enabled: true\n  # The manager's when empty.\n  image: \"\"\n  \
         # Further arguments, such as --oidc-issuer=URL; `olm console --help` lists them.\n  args: []\n  \
         # Serve TLS, with the certificate of Secret olm-console-tls.\n  tls: false\n\
         networkPolicy:\n  enabled: {network}\n  # At which the console reaches the API server and an OpenID Connect provider.\n  \
         apiServerPorts: [{ports}]\n\
         # Needs the kinds of the Prometheus operator.\n\
         serviceMonitor:\n  enabled: false\n\
         # OLM v0's aggregated API (`kubectl get packagemanifests`), served by the managers.\n\
         packageManifests:\n  enabled: false\n\
         catalogs:\n  # Every authenticated user may read the catalogs of the namespace.\n  public: true\n  \
         # The catalog that is part of the image, as CatalogSource `community`.\n  shipped: true\n  \
         # Images that its operators run, by the names in the catalog. `olm self manifests --registry` looks them up.\n  images: {{}}\n  \
         # Further CatalogSources: a list of name and spec.\n  extra: []\n",
        image = defaults.image,
        policy = defaults.image_pull_policy,
        replicas = defaults.replicas,
        network = defaults.network_policy,
        ports = ports.join(", "),
    ))
}

/// The notes, with the labels of the namespace that Helm creates and that no template may contain: a release
/// with its own namespace fails to install where the namespace exists.
fn notes() -> String {
    let labels = POD_SECURITY.map(|(key, value)| format!("{key}={value}"));
    NOTES.replace("POD_SECURITY_LABELS", &labels.join(" "))
}

const VALIDATES: &str =
    ".Capabilities.APIVersions.Has \"admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy\"";
const MUTATES: &str =
    ".Capabilities.APIVersions.Has \"admissionregistration.k8s.io/v1/MutatingAdmissionPolicy\"";

const DOES_NOT_MUTATE: &str =
    "not (.Capabilities.APIVersions.Has \"admissionregistration.k8s.io/v1/MutatingAdmissionPolicy\")";

const HELPERS: &str = "\
{{- define \"olm.namespace\" -}}
{{ .Values.namespace | default .Release.Namespace }}
{{- end -}}
";

/// A single manager is stopped before its replacement starts; several are replaced one after the other.
const STRATEGY: &str = "\
  {{- if gt (int .Values.replicas) 1 }}
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxUnavailable: 1
      maxSurge: 1
  {{- else }}
  strategy:
    type: Recreate
  {{- end }}
";

const EXTRA_CATALOGS: &str = "\
{{- range .Values.catalogs.extra }}
---
apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata:
  name: {{ .name }}
  namespace: {{ include \"olm.namespace\" $ }}
spec:
  {{- toYaml .spec | nindent 2 }}
{{- end }}
";

const NOTES: &str = "\
The manager and the console are in namespace {{ include \"olm.namespace\" . }}.

  kubectl -n {{ include \"olm.namespace\" . }} rollout status deployment/olm-manager
  olm list

Helm does not label the namespace. To enforce the Pod Security level that both pods satisfy:

  kubectl label namespace {{ include \"olm.namespace\" . }} POD_SECURITY_LABELS

Helm installs the CustomResourceDefinitions once and never changes them. Before `helm upgrade`:

  kubectl apply --server-side -f crds/
{{- if ne (include \"olm.namespace\" .) \"olm\" }}

Commands find it by OLM_NAMESPACE={{ include \"olm.namespace\" . }}.
{{- end }}
";
