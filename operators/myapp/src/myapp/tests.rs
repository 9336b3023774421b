//! The plan on values, and the kind as users see it.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use kube::CustomResourceExt as _;
use operator_kit::Observed;
use serde_json::{Value, json};

use super::{MyApp, MyAppSpec, plan};

fn app(replicas: i32) -> MyApp {
    MyApp::new("shop", MyAppSpec { replicas, image: "shop:1".to_owned(), port: 8080 })
}

/// The Deployment of an application, with this many ready pods.
fn deployed(app: &MyApp, ready: i32, observed_generation: i64) -> Deployment {
    let mut deployment = plan(app, &Observed::default()).objects::<Deployment>().remove(0);
    deployment.metadata.generation = Some(2);
    deployment.status = Some(DeploymentStatus {
        replicas: Some(ready),
        ready_replicas: Some(ready),
        updated_replicas: Some(ready),
        observed_generation: Some(observed_generation),
        ..DeploymentStatus::default()
    });
    deployment
}

#[test]
fn one_deployment_that_restricted_pod_security_admits() {
    let plan = plan(&app(3), &Observed::default());
    let deployments = plan.objects::<Deployment>();
    assert_eq!(deployments.len(), 1);
    let deployment: Value = serde_json::to_value(&deployments[0]).expect("JSON");
    let spec = &deployment["spec"];
    assert_eq!(spec["replicas"], 3);
    assert_eq!(spec["selector"]["matchLabels"]["app.kubernetes.io/instance"], "shop");
    assert_eq!(spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"]);
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    let container = &pod["containers"][0];
    assert_eq!(container["image"], "shop:1");
    assert_eq!(container["ports"][0]["containerPort"], 8080);
    assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false);
    assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
    assert!(!plan.is_ready(), "the Deployment does not exist yet");
}

#[test]
fn it_is_ready_when_all_pods_are() {
    let app = app(3);
    let ready = |pods, generation| {
        let observed = Observed::default().with(&deployed(&app, pods, generation));
        plan(&app, &observed)
    };
    assert!(!ready(2, 2).is_ready());
    assert!(ready(3, 2).is_ready());
    assert!(!ready(3, 1).is_ready(), "the Deployment's controller has not seen the last change");
    let status = ready(3, 2).reported().cloned().expect("a status");
    assert_eq!((status.replicas, status.ready_replicas), (3, 3));
    let selector = "app.kubernetes.io/instance=shop,app.kubernetes.io/name=myapp";
    assert_eq!(status.selector.as_deref(), Some(selector));
    assert!(plan(&self::app(0), &Observed::default().with(&deployed(&self::app(0), 0, 2))).is_ready());
}

#[test]
fn the_definition_has_columns_defaults_limits_and_rules() {
    let definition = serde_json::to_value(MyApp::crd()).expect("JSON");
    let version = &definition["spec"]["versions"][0];
    let columns = version["additionalPrinterColumns"].as_array().expect("columns");
    let names: Vec<&Value> = columns.iter().map(|column| &column["name"]).collect();
    assert_eq!(names, ["Age", "Replicas", "Image"]);
    assert_eq!(version["subresources"]["scale"]["labelSelectorPath"], ".status.selector");
    let schema = &version["schema"]["openAPIV3Schema"];
    let spec = &schema["properties"]["spec"]["properties"];
    assert_eq!(spec["replicas"]["default"], 1);
    assert_eq!(spec["replicas"]["maximum"].as_f64(), Some(100.0));
    assert_eq!(spec["image"]["minLength"], 1);
    assert_eq!(spec["port"]["default"], 8080);
    assert_eq!(spec["port"]["x-kubernetes-validations"][0]["rule"], "self == oldSelf");
    assert_eq!(schema["x-kubernetes-validations"][0]["rule"], "size(self.metadata.name) <= 63");
    let status = &schema["properties"]["status"]["properties"];
    for field in ["conditions", "observedGeneration", "replicas", "readyReplicas", "selector"] {
        assert!(status[field].is_object(), "status.{field} is missing");
    }
}

#[test]
fn the_example_is_one_of_the_kind() {
    let example = include_str!("../../examples/myapp.yaml");
    let app: MyApp = serde_yaml::from_str(example).expect("a MyApp");
    assert_eq!((app.spec.replicas, app.spec.image.as_str(), app.spec.port), (3, "myapp:latest", 8080));
}

#[test]
fn the_program_describes_its_rights() {
    let described = crate::operator().describe();
    assert_eq!(described["name"], "myapp-operator");
    let rights: Vec<&Value> =
        described["rights"].as_array().expect("rights").iter().map(|right| &right["resource"]).collect();
    for resource in ["deployments", "events", "leases", "myapps", "myapps/status"] {
        assert!(rights.iter().any(|right| **right == resource), "{resource} is missing in {rights:?}");
    }
}
