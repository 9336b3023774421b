use serde_json::{Value, json};

use super::*;

fn quota(hard: Value) -> Value {
    json!({ "metadata": { "name": "q" }, "spec": { "hard": hard } })
}

fn pod(requests: Value) -> Value {
    json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "resources": { "requests": requests } }] } })
}

fn shown(amounts: &Amounts) -> Vec<String> {
    amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect()
}

#[test]
fn a_pod_uses_the_sum_of_its_containers_or_the_largest_init_container() {
    let resources = |cpu: &str| json!({ "requests": { "cpu": cpu }, "limits": { "memory": "1Gi" } });
    let pod = json!({ "spec": {
        "containers": [{ "resources": resources("100m") }, { "resources": resources("200m") }],
        "initContainers": [{ "resources": resources("500m") }, { "resources": resources("50m"), "restartPolicy": "Always" }],
        "overhead": { "cpu": "10m" },
    } });
    assert_eq!(
        shown(&usage("", "pods", &pod)),
        ["count/pods=1", "cpu=510m", "limits.memory=3Gi", "pods=1", "requests.cpu=510m"]
    );
    let mut ended = pod;
    ended["status"] = json!({ "phase": "Succeeded" });
    assert_eq!(shown(&usage("", "pods", &ended)), ["count/pods=1"]);
}

#[test]
fn usage_of_other_kinds() {
    for (group, plural, object, wanted) in [
        ("", "secrets", json!({}), vec!["count/secrets=1", "secrets=1"]),
        ("apps", "deployments", json!({}), vec!["count/deployments.apps=1"]),
        ("stable.example.com", "crontabs", json!({}), vec!["count/crontabs.stable.example.com=1"]),
        (
            "",
            "services",
            json!({ "spec": { "type": "LoadBalancer", "ports": [{}, {}] } }),
            vec!["count/services=1", "services=1", "services.loadbalancers=1", "services.nodeports=2"],
        ),
        (
            "",
            "persistentvolumeclaims",
            json!({ "spec": { "storageClassName": "fast", "resources": { "requests": { "storage": "1Gi" } } } }),
            vec![
                "count/persistentvolumeclaims=1",
                "fast.storageclass.storage.k8s.io/persistentvolumeclaims=1",
                "fast.storageclass.storage.k8s.io/requests.storage=1Gi",
                "persistentvolumeclaims=1",
                "requests.storage=1Gi",
            ],
        ),
    ] {
        let used = usage(group, plural, &object);
        assert_eq!(shown(&used), wanted);
        for name in used.keys() {
            assert_eq!(user_of(name), (group.to_owned(), plural.to_owned()), "{name}");
        }
    }
}

#[test]
fn refusals_read_as_in_kubernetes() {
    let used = |list: &[(&str, &str)]| -> Amounts {
        list.iter().map(|(name, amount)| ((*name).to_owned(), amount.parse().expect("a quantity"))).collect()
    };
    let check_pod = |hard: Value, pod: &Value, old: Option<&Value>, used: &Amounts| {
        check(&quota(hard), "", "pods", pod, old, used)
    };
    assert_eq!(
        check_pod(
            json!({ "pods": "1", "cpu": "1" }),
            &pod(json!({ "cpu": "500m" })),
            None,
            &used(&[("pods", "1"), ("cpu", "200m")])
        ),
        Err("exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1".to_owned())
    );
    assert_eq!(
        check_pod(
            json!({ "requests.cpu": "1", "requests.memory": "1Gi" }),
            &pod(json!({ "cpu": "2", "memory": "2Gi" })),
            None,
            &used(&[])
        ),
        Err("exceeded quota: q, requested: requests.cpu=2,requests.memory=2Gi, used: requests.cpu=0,requests.memory=0, limited: requests.cpu=1,requests.memory=1Gi".to_owned())
    );
    assert_eq!(
        check_pod(
            json!({ "limits.cpu": "1", "requests.memory": "1Gi", "pods": "5" }),
            &pod(json!({})),
            None,
            &used(&[])
        ),
        Err("failed quota: q: must specify limits.cpu for: c; requests.memory for: c".to_owned())
    );
    // an amount that does not increase is not refused, whatever the usage
    let old = pod(json!({ "cpu": "2" }));
    let full = used(&[("cpu", "9"), ("pods", "9")]);
    assert_eq!(
        check_pod(json!({ "cpu": "1", "pods": "1" }), &pod(json!({ "cpu": "1" })), Some(&old), &full),
        Ok(())
    );
    assert!(check_pod(json!({ "cpu": "1" }), &pod(json!({ "cpu": "3" })), Some(&old), &full).is_err());
    // a resource outside of the quota is not limited
    assert_eq!(
        check(&quota(json!({ "secrets": "0" })), "", "configmaps", &json!({}), None, &used(&[])),
        Ok(())
    );
    assert!(
        check(
            &quota(json!({ "count/x.example.com": "0" })),
            "example.com",
            "x",
            &json!({}),
            None,
            &used(&[])
        )
        .is_err()
    );
}

#[test]
fn scopes_choose_among_pods() {
    let of = |spec: Value| json!({ "spec": spec });
    let scoped = |scope: &str| of(json!({ "scopes": [scope] }));
    let (small, plain) = (pod(json!({ "cpu": "1" })), pod(json!({})));
    let mut ending = plain.clone();
    ending["spec"]["activeDeadlineSeconds"] = json!(5);
    let covers_pod = |quota: &Value, pod: &Value| covers(quota, "", "pods", pod);
    assert!(covers_pod(&scoped("BestEffort"), &plain) && !covers_pod(&scoped("BestEffort"), &small));
    assert!(covers_pod(&scoped("NotBestEffort"), &small) && !covers_pod(&scoped("NotBestEffort"), &plain));
    assert!(covers_pod(&scoped("Terminating"), &ending) && !covers_pod(&scoped("Terminating"), &plain));
    assert!(covers_pod(&scoped("NotTerminating"), &plain) && !covers_pod(&scoped("NotTerminating"), &ending));
    assert!(!covers(&scoped("BestEffort"), "", "secrets", &json!({})));
    let class = |operator: &str| {
        of(json!({ "scopeSelector": { "matchExpressions": [
            { "scopeName": "PriorityClass", "operator": operator, "values": ["high"] },
        ] } }))
    };
    let mut high = plain.clone();
    high["spec"]["priorityClassName"] = json!("high");
    assert!(covers_pod(&class("In"), &high) && !covers_pod(&class("In"), &plain));
    assert!(covers_pod(&class("NotIn"), &plain) && covers_pod(&class("Exists"), &high));
    assert!(covers_pod(&class("DoesNotExist"), &plain));
}
