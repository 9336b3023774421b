//! The suites that are run on demand.

use serde_json::{Value, json};

use super::good;
use crate::{Bundle, Options, Suite, SuiteError};

#[test]
fn suites_are_chosen_by_upstreams_names() {
    assert_eq!(
        Suite::select("name=operatorhubv2, capabilities").unwrap(),
        [Suite::OperatorHubV2, Suite::Capabilities].into()
    );
    assert_eq!(Suite::select("suite=operatorframework").unwrap().len(), 7);
    assert_eq!(Suite::select("").unwrap(), [].into());
    assert_eq!(Suite::select("multiarch").unwrap_err(), SuiteError::Multiarch);
    let error = Suite::select("good-practice").unwrap_err().to_string();
    assert!(error.contains("did you mean good-practices?"), "{error}");
    let mut options = Options::default();
    options.set("k8s-version=v1.25").unwrap();
    assert_eq!(options.kubernetes, Some(olm_version::Version::new(1, 25, 0)));
    assert!(options.set("k8s-version=x").is_err());
    assert!(options.set("index-path=x").is_err());
}

fn of_suite(suite: Suite, change: impl FnOnce(&mut Value, &mut Vec<Value>, &mut Options)) -> Vec<String> {
    let (mut csv, mut objects) = good();
    csv["spec"]["provider"] = json!({"name": "P"});
    let mut options = Options { suites: [suite].into(), ..Options::default() };
    change(&mut csv, &mut objects, &mut options);
    objects.push(csv);
    let bundle = Bundle::from_objects(objects).unwrap();
    let known: Vec<&str> = bundle.validate().iter().map(|finding| finding.code).collect();
    let findings = bundle.validate_with(&options);
    let new = findings.into_iter().filter(|finding| !known.contains(&finding.code));
    new.map(|finding| format!("{} {}", finding.severity, finding.code)).collect()
}

#[test]
fn each_suite_has_its_codes() {
    let none = Vec::<String>::new();
    // operatorhubv2
    assert_eq!(of_suite(Suite::OperatorHubV2, |_, _, _| ()), none);
    assert_eq!(
        of_suite(Suite::OperatorHubV2, |csv, _, _| csv["spec"]["provider"] = json!({})),
        ["error hub-provider"]
    );
    assert_eq!(
        of_suite(Suite::OperatorHubV2, |csv, _, _| csv["spec"]["maintainers"] =
            json!([{"name": "a", "email": "b"}])),
        ["error hub-maintainer"]
    );
    assert_eq!(
        of_suite(Suite::OperatorHubV2, |csv, _, _| csv["spec"]["links"] =
            json!([{"name": "a", "url": "b"}, {"url": "https://a"}])),
        ["error hub-link", "error hub-link"]
    );
    assert_eq!(
        of_suite(Suite::OperatorHubV2, |csv, _, _| {
            let icon = csv["spec"]["icon"][0].clone();
            csv["spec"]["icon"] = json!([icon, icon]);
        }),
        ["error hub-icon"]
    );
    // capabilities, categories, and both under the old name
    assert_eq!(
        of_suite(Suite::Capabilities, |csv, _, _| csv["metadata"]["annotations"]["capabilities"] =
            "Autopilot".into()),
        ["error capability-unknown"]
    );
    assert_eq!(
        of_suite(Suite::Categories, |csv, _, _| csv["metadata"]["annotations"]["categories"] =
            "Database, Monitoring".into()),
        none
    );
    assert_eq!(
        of_suite(Suite::Categories, |csv, _, _| csv["metadata"]["annotations"]["categories"] =
            "Databases".into()),
        ["error category-unknown"]
    );
    assert_eq!(
        of_suite(Suite::OperatorHub, |csv, _, options| {
            csv["metadata"]["annotations"]["categories"] = "Database".into();
            options.categories = vec!["Mine".into()];
        }),
        ["error category-unknown"]
    );
    // good-practices
    let practices = of_suite(Suite::GoodPractices, |_, _, _| ());
    assert_eq!(practices, ["warning practice-resource-requests", "warning practice-crd-description"]);
    assert!(
        of_suite(Suite::GoodPractices, |csv, _, _| csv["metadata"]["name"] = "p-1".into())
            .contains(&"warning practice-name".to_owned())
    );
    assert!(
        of_suite(Suite::GoodPractices, |csv, _, _| {
            csv["spec"]["install"]["spec"]["clusterPermissions"] = json!([{"serviceAccountName": "a", "rules": [
                {"apiGroups": ["apiextensions.k8s.io"], "resources": ["*"], "verbs": ["create"]},
            ]}]);
        })
        .contains(&"warning practice-crd-rights".to_owned())
    );
    // alpha-deprecated-apis
    let budget =
        json!({"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "x"}});
    assert_eq!(
        of_suite(Suite::AlphaDeprecatedApis, |_, objects, _| objects.push(budget.clone())),
        ["warning api-removed"]
    );
    assert_eq!(
        of_suite(Suite::AlphaDeprecatedApis, |_, objects, options| {
            objects.push(budget.clone());
            options.set("k8s-version=1.25").unwrap();
        }),
        ["error api-removed"]
    );
    assert_eq!(
        of_suite(Suite::AlphaDeprecatedApis, |csv, objects, _| {
            objects.push(budget.clone());
            csv["spec"]["minKubeVersion"] = "1.26.0".into();
        }),
        ["error api-removed"]
    );
    // objects
    let object = |object: Value| of_suite(Suite::Objects, |_, objects, _| objects.push(object));
    assert_eq!(
        object(
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "x"}, "spec": {"maxUnavailable": 0}})
        ),
        ["error disruption-budget"]
    );
    assert_eq!(
        object(
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "x"}, "spec": {"minAvailable": "100%"}})
        ),
        ["error disruption-budget"]
    );
    assert_eq!(
        object(
            json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "x"}, "value": 1, "globalDefault": true})
        ),
        ["error priority-global-default"]
    );
    // operator-group
    assert_eq!(
        of_suite(Suite::OperatorGroup, |_, objects, _| {
            objects.push(json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "x", "annotations": {"olm.providedapis": "x"}}}));
        }),
        ["error csv-annotation-case"]
    );
    // community
    let old = |csv: &mut Value, objects: &mut Vec<Value>, most: &str| {
        objects[0]["apiVersion"] = "apiextensions.k8s.io/v1beta1".into();
        csv["metadata"]["annotations"]["olm.properties"] =
            format!("[{{\"type\": \"olm.maxOpenShiftVersion\", \"value\": \"{most}\"}}]").into();
    };
    assert_eq!(
        of_suite(Suite::Community, |csv, objects, _| old(csv, objects, "4.8")),
        ["warning community-openshift-versions"]
    );
    assert_eq!(
        of_suite(Suite::Community, |csv, objects, _| old(csv, objects, "4.9")),
        ["error community-max-openshift", "warning community-openshift-versions"]
    );
}
