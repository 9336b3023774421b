use super::*;

const CORE: &str = "/api/v1/namespaces/default";

async fn limit(server: &ApiServer, hard: Value) {
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
    let (code, body) = post(server, &format!("{CORE}/resourcequotas"), quota).await;
    assert_eq!(code, 201, "{body}");
}

#[tokio::test]
async fn a_namespace_holds_no_more_than_its_quota() {
    let (server, _client) = server();
    service_account(&server, "default", "default").await;
    limit(&server, json!({"configmaps": "2", "requests.cpu": "1", "count/deployments.apps": "0"})).await;
    let maps = format!("{CORE}/configmaps");
    for name in ["a", "b"] {
        assert_eq!(post(&server, &maps, config_map(name)).await.0, 201);
    }
    let (code, body) = post(&server, &maps, config_map("c")).await;
    assert_eq!(
        (code, body["message"].as_str()),
        (
            403,
            Some(
                "configmaps \"c\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: configmaps=2"
            )
        )
    );
    // changes use no quota
    let (code, _) =
        patch(&server, "merge-patch+json", &format!("{maps}/a"), json!({"data": {"x": "y"}})).await;
    assert_eq!(code, 200);
    // a deletion releases quota
    delete(&server, &format!("{maps}/a")).await;
    assert_eq!(post(&server, &maps, config_map("c")).await.0, 201);
    // pods must set their requests
    let pods = format!("{CORE}/pods");
    let (code, body) = post(&server, &pods, pod("p")).await;
    assert_eq!(
        (code, body["message"].as_str()),
        (403, Some("pods \"p\" is forbidden: failed quota: q: must specify requests.cpu for: c"))
    );
    let mut sized = pod("p");
    sized["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "600m"}});
    assert_eq!(post(&server, &pods, sized.clone()).await.0, 201);
    sized["metadata"]["name"] = "q".into();
    let (_, body) = post(&server, &pods, sized).await;
    assert_eq!(
        body["message"],
        "pods \"q\" is forbidden: exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, limited: requests.cpu=1"
    );
    let (code, _) = post(&server, "/apis/apps/v1/namespaces/default/deployments", deployment("d")).await;
    assert_eq!(code, 403);
}

#[tokio::test]
async fn concurrent_creates_respect_the_quota() {
    let (server, _client) = server();
    limit(&server, json!({"count/configmaps": "3"})).await;
    let maps = format!("{CORE}/configmaps");
    let all = (0..20).map(|index| {
        let (server, maps) = (server.clone(), maps.clone());
        async move { post(&server, &maps, config_map(&format!("m{index}"))).await.0 }
    });
    let codes = futures::future::join_all(all).await;
    assert_eq!(codes.iter().filter(|code| **code == 201).count(), 3, "{codes:?}");
}

#[tokio::test]
async fn a_limit_range_fills_in_and_refuses() {
    let (server, _client) = server();
    service_account(&server, "default", "default").await;
    let range = json!({"metadata": {"name": "l"}, "spec": {"limits": [
        {"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "1"}},
    ]}});
    assert_eq!(post(&server, &format!("{CORE}/limitranges"), range).await.0, 201);
    let pods = format!("{CORE}/pods");
    let (code, body) = post(&server, &pods, pod("p")).await;
    assert_eq!(code, 201, "{body}");
    assert_eq!(
        body["spec"]["containers"][0]["resources"],
        json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}})
    );
    let mut large = pod("large");
    large["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "2"}});
    let (code, body) = post(&server, &pods, large).await;
    assert_eq!(
        (code, body["message"].as_str()),
        (403, Some("pods \"large\" is forbidden: maximum cpu usage per Container is 1, but limit is 2"))
    );
}
