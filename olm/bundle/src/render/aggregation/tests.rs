use super::*;
use crate::render::render;
use crate::render::tests::{bundle, options};

fn names(objects: &[Value]) -> Vec<&str> {
    objects.iter().map(name).collect()
}

#[test]
fn the_hash_of_a_kind_is_upstreams() {
    // recorded on a cluster with OLM v0
    let gvk = Gvk::new("etcd.database.coreos.com", "v1beta2", "EtcdBackup");
    assert_eq!(gvk_hash(&gvk), "2c1e6f7e17c07035");
}

#[test]
fn every_kind_has_roles_that_outlive_the_operator() {
    let bundle = bundle(|csv, _| {
        csv["spec"]["customresourcedefinitions"] =
            json!({"owned": [{"name": "things.example.com", "version": "v1", "kind": "Thing"}]});
    });
    let rendered = render(&bundle, &options(&[])).unwrap();
    let roles: Vec<Value> = rendered
        .objects()
        .filter(|(_, object)| crd_of_role(object).is_some())
        .map(|(_, object)| object.clone())
        .collect();
    assert_eq!(
        names(&roles),
        [
            "things.example.com-v1-admin",
            "things.example.com-v1-edit",
            "things.example.com-v1-view",
            "things.example.com-v1-crdview",
        ]
    );
    assert!(roles.iter().all(|role| crd_of_role(role).as_deref() == Some("things.example.com")));
    let hash = gvk_hash(&Gvk::new("example.com", "v1", "Thing"));
    assert_eq!(
        roles[2]["metadata"]["labels"],
        json!({
            "olm.managed": "true",
            format!("olm.opgroup.permissions/aggregate-to-{hash}-view"): "true",
            "rbac.authorization.k8s.io/aggregate-to-view": "true",
            "operators.coreos.com/aggregate-to-olm-manager": "true",
        })
    );
    assert_eq!(
        roles[0]["rules"],
        json!([{"verbs": ["*"], "apiGroups": ["example.com"], "resources": ["things"]}])
    );
    assert_eq!(roles[3]["rules"][0]["resourceNames"], json!(["things.example.com"]));
    // a bundle's own roles are not among them
    let own =
        rendered.objects().find(|(phase, o)| *phase == crate::Phase::Rbac && o["kind"] == "ClusterRole");
    assert_eq!(crd_of_role(own.unwrap().1), None);
}

#[test]
fn a_group_has_three_roles_over_what_its_members_provide() {
    let gvk = Gvk::new("example.com", "v1", "Thing");
    let roles = group_roles("og", "ns", &[gvk.clone(), gvk.clone()]);
    let hash = gvk_hash(&gvk);
    assert_eq!(
        roles[1]["aggregationRule"],
        json!({"clusterRoleSelectors": [
            {"matchLabels": {format!("olm.opgroup.permissions/aggregate-to-{hash}-edit"): "true"}}
        ]})
    );
    assert!(name(&roles[1]).starts_with("olm.og.og.edit-"), "{}", name(&roles[1]));
    assert_ne!(names(&roles), names(&group_roles("og", "other", &[])));
    assert!(name(&group_roles(&"x".repeat(253), "ns", &[])[0]).len() <= LONGEST_NAME);
    // without members they grant nothing; the API server rejects an empty aggregation
    let [empty, ..] = group_roles("og", "ns", &[]);
    assert_eq!((&empty["aggregationRule"], &empty["rules"]), (&Value::Null, &json!([])));
}
