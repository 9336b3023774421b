use serde_json::json;

use super::*;

pub(super) fn bundle(change: impl FnOnce(&mut Value, &mut Vec<Value>)) -> Bundle {
    let mut csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": "p.v1.0.0", "annotations": {"capabilities": "Basic Install", "olm.operatorGroup": "forged"}},
        "spec": {
            "version": "1.0.0",
            "installModes": [
                {"type": "OwnNamespace", "supported": true},
                {"type": "SingleNamespace", "supported": true},
                {"type": "MultiNamespace", "supported": true},
                {"type": "AllNamespaces", "supported": true},
            ],
            "install": {"strategy": "deployment", "spec": {
                "permissions": [{"serviceAccountName": "op", "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}]}],
                "clusterPermissions": [{"serviceAccountName": "op", "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]}],
                "deployments": [{"name": "op", "label": {"app": "op"}, "spec": {"template": {
                    "metadata": {"annotations": {"own": "kept", "capabilities": "overwritten"}},
                    "spec": {"serviceAccountName": "op", "containers": [{"name": "c", "env": [{"name": "OPERATOR_CONDITION_NAME", "value": "x"}]}]},
                }}}],
            }},
        },
    });
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "elsewhere"}}),
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"}, "status": {}}),
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}),
    ];
    change(&mut csv, &mut objects);
    objects.push(csv);
    Bundle::from_objects(objects).unwrap()
}

pub(super) fn options(targets: &[&str]) -> RenderOptions {
    RenderOptions {
        install_namespace: "ns".into(),
        target_namespaces: targets.iter().map(ToString::to_string).collect(),
        operator_group: Some("og".into()),
        subscription_config: None,
    }
}

fn rendered(targets: &[&str]) -> Rendered {
    render(&bundle(|_, _| ()), &options(targets)).unwrap()
}

fn summary(rendered: &Rendered) -> Vec<String> {
    rendered
        .objects()
        .map(|(phase, object)| {
            format!("{phase:?} {} {}", kind(object), object["metadata"]["namespace"].as_str().unwrap_or("-"))
        })
        .collect()
}

#[test]
fn own_namespace_gives_roles_in_phase_order() {
    assert_eq!(
        summary(&rendered(&["ns"])),
        [
            "Prerequisites PriorityClass -",
            "Crds CustomResourceDefinition -",
            "Rbac ServiceAccount ns",
            "Rbac ClusterRole -",
            "Rbac Role ns",
            "Rbac ClusterRoleBinding -",
            "Rbac RoleBinding ns",
            "Config Service ns",
            "Workloads Deployment ns",
        ]
    );
}

#[test]
fn several_namespaces_get_a_role_each() {
    let rendered = rendered(&["b", "a", "b"]);
    let roles: Vec<String> = summary(&rendered).into_iter().filter(|line| line.contains(" Role ")).collect();
    assert_eq!(roles, ["Rbac Role a", "Rbac Role b"]);
    let binding = rendered.objects().find(|(_, object)| kind(object) == "RoleBinding").unwrap().1;
    assert_eq!(binding["subjects"], json!([{"kind": "ServiceAccount", "name": "op", "namespace": "ns"}]));
}

#[test]
fn all_namespaces_promote_permissions_and_may_read_namespaces() {
    for targets in [&[][..], &[""][..]] {
        let rendered = rendered(targets);
        assert!(!summary(&rendered).iter().any(|line| line.contains(" Role")), "{:?}", summary(&rendered));
        let roles: Vec<&Value> = rendered
            .objects()
            .map(|(_, object)| object)
            .filter(|object| kind(object) == "ClusterRole")
            .collect();
        assert_eq!(roles.len(), 2);
        assert_eq!(
            roles[1]["rules"][1],
            json!({"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["namespaces"]})
        );
        let deployment = rendered.objects().last().unwrap().1;
        assert_eq!(deployment["spec"]["template"]["metadata"]["annotations"]["olm.targetNamespaces"], "");
    }
}

#[test]
fn deployments_pass_the_location_to_the_operator() {
    let rendered = rendered(&["b", "a"]);
    let deployment = rendered.objects().last().unwrap().1;
    assert_eq!(
        deployment["spec"]["template"]["metadata"]["annotations"],
        json!({
            "own": "kept",
            "capabilities": "Basic Install",
            "olm.operatorGroup": "og",
            "olm.operatorNamespace": "ns",
            "olm.targetNamespaces": "a,b",
        })
    );
    assert_eq!(
        deployment["metadata"]["labels"],
        json!({
            "app": "op",
            "olm.managed": "true",
            "olm.owner": "p.v1.0.0",
            "olm.owner.kind": "ClusterServiceVersion",
            "olm.owner.namespace": "ns",
        })
    );
    assert_eq!(deployment["spec"]["revisionHistoryLimit"], 1);
    let env = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
    assert_eq!(env, &json!([{"name": "OPERATOR_CONDITION_NAME", "value": "p.v1.0.0"}]));
}

#[test]
fn crds_have_no_owner_and_the_bundles_own_account_is_not_made_twice() {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "op", "labels": {"own": "kept"}}});
    let rendered = render(&bundle(|_, objects| objects.push(account)), &options(&["ns"])).unwrap();
    let crd = rendered.objects().find(|(phase, _)| *phase == Phase::Crds).unwrap().1;
    assert_eq!(crd["metadata"], json!({"name": "things.example.com", "labels": {"olm.managed": "true"}}));
    assert_eq!(crd.get("status"), None);
    let accounts: Vec<_> =
        rendered.objects().filter(|(_, object)| kind(object) == "ServiceAccount").collect();
    assert_eq!(accounts.len(), 1);
    assert_eq!(accounts[0].1["metadata"]["labels"]["own"], "kept");
}

#[test]
fn refusals_name_the_remedy() {
    let cases: [(Bundle, &[&str], &str); 7] = [
        (
            bundle(|csv, _| {
                csv["spec"]["installModes"] = json!([{"type": "AllNamespaces", "supported": true}])
            }),
            &["ns"],
            "cannot watch its own namespace (ns): it supports AllNamespaces",
        ),
        (
            bundle(|csv, _| csv["spec"]["installModes"] = json!([])),
            &[],
            "cannot watch all namespaces: it supports no install mode",
        ),
        (
            bundle(|csv, _| csv["spec"]["version"] = "one.two".into()),
            &[],
            "spec.version: `one.two` is not a semantic version",
        ),
        (
            bundle(|_, objects| objects[0]["kind"] = "Pod".into()),
            &[],
            "Pod s: bundles do not support this kind",
        ),
        (
            bundle(|csv, _| {
                csv["spec"]["customresourcedefinitions"] =
                    json!({"owned": [{"name": "others.example.com", "version": "v1", "kind": "Other"}]})
            }),
            &[],
            "others.example.com is not in the bundle",
        ),
        (
            bundle(|_, objects| objects[1]["apiVersion"] = "apiextensions.k8s.io/v1beta1".into()),
            &[],
            "Kubernetes 1.22 removed",
        ),
        (
            bundle(|csv, _| csv["spec"]["install"]["spec"]["deployments"][0]["name"] = "".into()),
            &[],
            "deployments[0]: it has no name",
        ),
    ];
    for (bundle, targets, expected) in cases {
        let message = render(&bundle, &options(targets)).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
    let bad = RenderOptions { subscription_config: Some(json!({"env": "x"})), ..options(&[]) };
    let message = render(&bundle(|_, _| ()), &bad).unwrap_err().to_string();
    assert!(message.contains("Subscription spec.config.env: it is not a list of maps"), "{message}");
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let text = |rendered: &Rendered| format!("{:?}", rendered.phases);
    assert_eq!(text(&rendered(&["a", "b"])), text(&rendered(&["b", "a"])));
}

#[test]
fn a_copy_of_a_manifest_is_made_when_it_is_changed() {
    // given shared manifests
    let ours = rendered(&["a"]);
    let mut theirs = ours.clone();
    let place = |rendered: &Rendered, at: usize| -> *const Value { rendered.objects().nth(at).unwrap().1 };
    assert_eq!(place(&ours, 0), place(&theirs, 0));
    // when one owner changes one
    theirs.phases[0].1[0]["metadata"]["labels"]["a"] = json!("b");
    // then the other is unchanged
    assert_ne!(place(&ours, 0), place(&theirs, 0));
    assert_eq!(place(&ours, 1), place(&theirs, 1));
    assert!(ours.objects().next().unwrap().1["metadata"]["labels"].get("a").is_none());
}
