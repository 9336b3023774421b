use super::*;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

fn unprivileged() -> Identity {
    Identity::user("nobody", [])
}

async fn allow(server: &ApiServer, user: &str, rules: Value) {
    let role = json!({"metadata": {"name": format!("{user}-role")}, "rules": rules});
    assert_eq!(post(server, &format!("{RBAC}/clusterroles"), role).await.0, 201);
    let binding = json!({"metadata": {"name": format!("{user}-binding")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": format!("{user}-role")},
        "subjects": [{"kind": "User", "name": user}]});
    assert_eq!(post(server, &format!("{RBAC}/clusterrolebindings"), binding).await.0, 201);
}

#[tokio::test]
async fn refusals_read_as_in_kubernetes() {
    let (server, _client) = server();
    let cases = [
        (
            "/api/v1/namespaces/y/pods",
            "pods is forbidden: User \"nobody\" cannot list resource \"pods\" in API group \"\" in the namespace \"y\"",
        ),
        (
            "/apis/apps/v1/deployments",
            "deployments.apps is forbidden: User \"nobody\" cannot list resource \"deployments\" in API group \"apps\" at the cluster scope",
        ),
        (
            "/api/v1/namespaces/y/pods/x/log",
            "pods \"x\" is forbidden: User \"nobody\" cannot get resource \"pods/log\" in API group \"\" in the namespace \"y\"",
        ),
        ("/metrics", "forbidden: User \"nobody\" cannot get path \"/metrics\""),
    ];
    for (path, message) in cases {
        let (code, body) = send(&server, unprivileged(), "GET", path, &[], Value::Null).await;
        assert_eq!((code, &body["message"], &body["reason"]), (403, &json!(message), &json!("Forbidden")));
    }
    assert_eq!(send(&server, unprivileged(), "GET", "/apis", &[], Value::Null).await.0, 200);
    assert_eq!(send(&server, Identity::anonymous(), "GET", "/healthz", &[], Value::Null).await.0, 200);
    assert_eq!(send(&server, Identity::anonymous(), "GET", "/apis", &[], Value::Null).await.0, 403);
    let (code, _) =
        send(&server, unprivileged(), "GET", "/apis", &[("authorization", "Bearer x.y.z")], Value::Null)
            .await;
    assert_eq!(code, 401);
}

#[tokio::test]
async fn users_cannot_grant_permissions_that_they_lack() {
    let (server, _client) = server();
    let rbac = json!({"verbs": ["create", "update", "patch", "get"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"]});
    allow(&server, "eve", json!([rbac, {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}])).await;
    let eve = || Identity::user("eve", []);
    let roles = format!("{RBAC}/namespaces/default/roles");
    let role = |verb: &str| json!({"metadata": {"name": verb}, "rules": [{"verbs": [verb], "apiGroups": [""], "resources": ["pods"]}]});
    assert_eq!(send(&server, eve(), "POST", &roles, &[], role("get")).await.0, 201);
    let (code, body) = send(&server, eve(), "POST", &roles, &[], role("delete")).await;
    assert_eq!(code, 403);
    assert_eq!(
        body["message"],
        "roles.rbac.authorization.k8s.io \"delete\" is forbidden: user \"eve\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\"]}"
    );
    let binding = json!({"metadata": {"name": "b"}, "subjects": [{"kind": "User", "name": "eve"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}});
    let (code, body) =
        send(&server, eve(), "POST", &format!("{RBAC}/clusterrolebindings"), &[], binding).await;
    assert_eq!(code, 403, "{body}");
}

#[tokio::test]
async fn held_permissions_and_those_with_bind_or_escalate_can_be_granted() {
    let (server, _client) = server();
    let eve = || Identity::user("eve", []);
    let write = json!({"verbs": ["create", "update", "patch", "get"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"]});
    allow(&server, "eve", json!([write])).await;
    let roles = format!("{RBAC}/clusterroles");
    let secrets = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]);
    let role = |name: &str| json!({"metadata": {"name": name}, "rules": secrets});
    let binding = |name: &str| {
        json!({"metadata": {"name": name}, "subjects": [{"kind": "User", "name": "eve"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}})
    };
    // given a role of another user
    assert_eq!(post(&server, &roles, role("reader")).await.0, 201);
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    assert_eq!(send(&server, eve(), "POST", &bindings, &[], binding("reader")).await.0, 403);
    assert_eq!(send(&server, eve(), "POST", &bindings, &[], binding("gone")).await.0, 404);
    // a change of any field other than those of the garbage collector needs the permissions of the role
    let media = [("content-type", "application/merge-patch+json")];
    let one = format!("{roles}/reader");
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(send(&server, eve(), "PATCH", &one, &media, label.clone()).await.0, 403);
    let finalizer = json!({"metadata": {"finalizers": ["example.com/x"]}});
    assert_eq!(send(&server, eve(), "PATCH", &one, &media, finalizer).await.0, 200);
    // when the verbs bind and escalate are granted
    allow(&server, "eve-too", json!([])).await;
    let may = json!([write, {"verbs": ["bind", "escalate"], "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["clusterroles"], "resourceNames": ["reader"]}]);
    assert_eq!(
        patch(&server, "merge-patch+json", &format!("{roles}/eve-role"), json!({"rules": may})).await.0,
        200
    );
    // then they are sufficient, for that role only
    assert_eq!(send(&server, eve(), "POST", &bindings, &[], binding("reader")).await.0, 201);
    assert_eq!(send(&server, eve(), "PATCH", &one, &media, label).await.0, 200);
    // a user who may read secrets in the namespace cannot grant that for the whole cluster
    assert_eq!(send(&server, eve(), "POST", &roles, &[], role("other")).await.0, 403);
    let namespaced = format!("{RBAC}/namespaces/default/roles");
    assert_eq!(send(&server, eve(), "POST", &namespaced, &[], role("other")).await.0, 201);
}

#[tokio::test]
async fn aggregation_requires_all_permissions() {
    let (server, _client) = server();
    let write = json!({"verbs": ["*"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterrolebindings"]});
    let roles = json!({"verbs": ["create", "patch"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"]});
    allow(&server, "eve", json!([write, roles])).await;
    let eve = || Identity::user("eve", []);
    let role = json!({"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}});
    let path = format!("{RBAC}/clusterroles");
    let (code, body) = send(&server, eve(), "POST", &path, &[], role.clone()).await;
    assert_eq!(
        (code, body["message"].as_str()),
        (
            403,
            Some(
                "clusterroles.rbac.authorization.k8s.io \"all\" is forbidden: must have cluster-admin privileges to use the aggregationRule"
            )
        )
    );
    allow(&server, "root", json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, {"verbs": ["*"], "nonResourceURLs": ["*"]}])).await;
    assert_eq!(send(&server, Identity::user("root", []), "POST", &path, &[], role).await.0, 201);
}

#[tokio::test]
async fn cluster_roles_aggregate() {
    let (server, _client) = server();
    let role = json!({"metadata": {"name": "cron-view", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"verbs": ["get"], "apiGroups": ["stable.example.com"], "resources": ["crontabs"]}]});
    post(&server, &format!("{RBAC}/clusterroles"), role).await;
    for name in ["view", "edit", "admin"] {
        let (_, body) = get(&server, &format!("{RBAC}/clusterroles/{name}")).await;
        let rules = body["rules"].as_array().expect("rules");
        assert!(rules.iter().any(|r| r["resources"] == json!(["crontabs"])), "{name}");
    }
}

#[tokio::test]
async fn service_account_tokens() {
    let (server, _client) = server();
    service_account(&server, "default", "robot").await;
    let path = "/api/v1/namespaces/default/serviceaccounts/robot";
    let (code, body) =
        post(&server, &format!("{path}/token"), json!({"spec": {"expirationSeconds": 600}})).await;
    assert_eq!(code, 201, "{body}");
    let bearer = format!("Bearer {}", body["status"]["token"].as_str().expect("a token"));
    let ask = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let caller = |bearer: String, ask: Value| {
        let server = server.clone();
        async move {
            let headers = [("authorization", bearer.as_str())];
            send(
                &server,
                unprivileged(),
                "POST",
                "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                &headers,
                ask,
            )
            .await
        }
    };
    let (code, review) = caller(bearer.clone(), ask.clone()).await;
    assert_eq!(
        (code, &review["status"]["userInfo"]["username"]),
        (201, &json!("system:serviceaccount:default:robot"))
    );
    let token = body["status"]["token"].clone();
    let (_, review) =
        post(&server, "/apis/authentication.k8s.io/v1/tokenreviews", json!({"spec": {"token": token}})).await;
    assert_eq!(review["status"]["authenticated"], true);
    let mut forged = bearer.clone();
    forged.replace_range(forged.len() - 4.., "AAAA");
    assert_eq!(caller(forged, ask.clone()).await.0, 401);
    delete(&server, path).await;
    assert_eq!(caller(bearer, ask).await.0, 401, "a token ends with its account");
    let (code, _) = post(&server, &format!("{path}/token"), json!({"spec": {}})).await;
    assert_eq!(code, 404);
}

#[tokio::test]
async fn reviews_and_impersonation() {
    let (server, _client) = server();
    allow(&server, "bob", json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}])).await;
    let ask = |verb: &str| json!({"spec": {"resourceAttributes": {"verb": verb, "resource": "pods", "namespace": "default"}}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let headers = [("impersonate-user", "bob")];
    let (code, body) = send(&server, Identity::admin(), "POST", path, &headers, ask("list")).await;
    assert_eq!((code, &body["status"]["allowed"]), (201, &json!(true)));
    let (_, body) = send(&server, Identity::admin(), "POST", path, &headers, ask("delete")).await;
    assert_eq!(body["status"]["allowed"], false);
    let (code, body) = send(&server, unprivileged(), "POST", path, &headers, ask("list")).await;
    assert_eq!(code, 403);
    assert_eq!(
        body["message"],
        "users \"bob\" is forbidden: User \"nobody\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
    );
    let headers = [
        ("impersonate-user", "bob"),
        ("impersonate-uid", "1"),
        ("impersonate-extra-a%2fb", "c"),
        ("impersonate-group", "g"),
    ];
    let whoami = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (_, body) = send(&server, Identity::admin(), "POST", whoami, &headers, json!({})).await;
    assert_eq!(
        body["status"]["userInfo"],
        json!({"username": "bob", "uid": "1", "groups": ["g", "system:authenticated"], "extra": {"a/b": ["c"]}})
    );
    let (code, body) = send(&server, Identity::admin(), "POST", whoami, &headers[1..], json!({})).await;
    assert_eq!(code, 400, "{body}");
    let rules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let (code, body) = send(
        &server,
        Identity::user("bob", []),
        "POST",
        rules,
        &[],
        json!({"spec": {"namespace": "default"}}),
    )
    .await;
    assert_eq!(code, 201);
    assert!(
        body["status"]["resourceRules"]
            .as_array()
            .is_some_and(|r| r.iter().any(|r| r["resources"] == json!(["pods"])))
    );
}
