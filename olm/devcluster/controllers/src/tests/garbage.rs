//! Garbage collection of objects without owners.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_of_custom_resources_is_collected() {
    let cluster = Cluster::start().await;
    let tabs = crontabs(&cluster, "default").await;
    let maps = config_maps(&cluster, "default");
    let post = PostParams::default();
    let gone = |api: Api<DynamicObject>, name: &'static str| async move {
        eventually(&format!("{name} to go"), || async {
            api.get_opt(name).await.unwrap().is_none().then_some(())
        })
        .await;
    };

    // Background: a chain of two.
    let a = tabs.create(&post, &object(CRONTAB, "a", None, false)).await.unwrap();
    let b = tabs.create(&post, &object(CRONTAB, "b", Some(&a), false)).await.unwrap();
    maps.create(&post, &object(CONFIG_MAP, "c", Some(&b), false)).await.unwrap();
    // The watch reports ConfigMaps in order: when one of a missing owner is deleted, "c" was handled before it.
    let mut missing = a.clone();
    missing.metadata.name = Some("missing".to_owned());
    missing.metadata.uid = Some("00000000-0000-0000-0000-000000000000".to_owned());
    maps.create(&post, &object(CONFIG_MAP, "later", Some(&missing), false)).await.unwrap();
    gone(maps.clone(), "later").await;
    assert!(maps.get_opt("c").await.unwrap().is_some(), "nothing goes while its owner is there");
    tabs.delete("a", &DeleteParams::background()).await.unwrap();
    gone(tabs.clone(), "b").await;
    gone(maps.clone(), "c").await;

    // Foreground: the owner is deleted last.
    let a = tabs.create(&post, &object(CRONTAB, "a", None, false)).await.unwrap();
    let mut held = object(CONFIG_MAP, "c", Some(&a), true);
    held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    maps.create(&post, &held).await.unwrap();
    tabs.delete("a", &DeleteParams::foreground()).await.unwrap();
    eventually("the dependent to be deleted", || async {
        maps.get("c").await.unwrap().metadata.deletion_timestamp.map(|_| ())
    })
    .await;
    assert!(tabs.get_opt("a").await.unwrap().is_some(), "the owner waits");
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("c", &PatchParams::default(), &release).await.unwrap();
    gone(tabs.clone(), "a").await;

    // Orphan: the dependent stays and loses its owner reference.
    let a = tabs.create(&post, &object(CRONTAB, "a", None, false)).await.unwrap();
    maps.create(&post, &object(CONFIG_MAP, "c", Some(&a), true)).await.unwrap();
    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    tabs.delete("a", &orphan).await.unwrap();
    gone(tabs.clone(), "a").await;
    let left = maps.get("c").await.unwrap();
    assert!(left.metadata.owner_references.unwrap_or_default().is_empty());
    maps.delete("c", &DeleteParams::default()).await.unwrap();

    // A missing owner.
    maps.create(&post, &object(CONFIG_MAP, "d", Some(&missing), false)).await.unwrap();
    gone(maps.clone(), "d").await;

    // Two owners, one of them deleted.
    let a = tabs.create(&post, &object(CRONTAB, "a", None, false)).await.unwrap();
    let b = tabs.create(&post, &object(CRONTAB, "b", None, false)).await.unwrap();
    let mut both = object(CONFIG_MAP, "e", Some(&a), false);
    let second = object(CONFIG_MAP, "e", Some(&b), false).metadata.owner_references.unwrap_or_default();
    both.metadata.owner_references.get_or_insert_default().extend(second);
    maps.create(&post, &both).await.unwrap();
    tabs.delete("a", &DeleteParams::background()).await.unwrap();
    eventually("one owner to be left", || async {
        let owners = maps.get("e").await.unwrap().metadata.owner_references.unwrap_or_default();
        (owners.len() == 1 && owners[0].name == "b").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owners_in_another_namespace_do_not_count() {
    let cluster = Cluster::start().await;
    let post = PostParams::default();
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let other = serde_json::from_value(json!({"metadata": {"name": "other"}})).unwrap();
    namespaces.create(&post, &other).await.unwrap();
    let here = config_maps(&cluster, "default");
    let owner = here.create(&post, &object(CONFIG_MAP, "owner", None, false)).await.unwrap();
    let reported = |namespace: &'static str, name: &'static str| {
        let events: Api<Event> = Api::namespaced(cluster.client.clone(), namespace);
        async move {
            eventually(&format!("the event on {name}"), || async {
                let list = events.list(&ListParams::default()).await.unwrap();
                let mut found = list.into_iter();
                found.find(|event| {
                    event.reason.as_deref() == Some("OwnerRefInvalidNamespace")
                        && event.involved_object.name.as_deref() == Some(name)
                })
            })
            .await
        }
    };
    // An owner in another namespace: the object is deleted.
    let there = config_maps(&cluster, "other");
    there.create(&post, &object(CONFIG_MAP, "stray", Some(&owner), false)).await.unwrap();
    eventually("stray to go", || async { there.get_opt("stray").await.unwrap().is_none().then_some(()) })
        .await;
    let event = reported("other", "stray").await;
    let uid = owner.uid().unwrap();
    assert_eq!(
        event.message,
        Some(format!(
            "ownerRef [v1/ConfigMap, namespace: other, name: owner, uid: {uid}] does not exist in namespace \"other\""
        ))
    );
    // A namespaced owner of a cluster-scoped object cannot be resolved, so the object stays.
    let resource = ApiResource::erase::<k8s_openapi::api::rbac::v1::ClusterRole>(&());
    let roles: Api<DynamicObject> = Api::all_with(cluster.client.clone(), &resource);
    let role = object(("rbac.authorization.k8s.io/v1", "ClusterRole"), "wide", Some(&owner), false);
    roles.create(&post, &role).await.unwrap();
    here.delete("owner", &DeleteParams::background()).await.unwrap();
    reported("default", "wide").await;
    assert!(roles.get_opt("wide").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_that_wait_for_each_other_are_deleted() {
    let cluster = Cluster::start().await;
    let post = PostParams::default();
    let maps = config_maps(&cluster, "default");
    let a = maps.create(&post, &object(CONFIG_MAP, "a", None, false)).await.unwrap();
    let b = maps.create(&post, &object(CONFIG_MAP, "b", Some(&a), true)).await.unwrap();
    let owners = object(CONFIG_MAP, "a", Some(&b), true).metadata.owner_references;
    let circle = Patch::Merge(json!({"metadata": {"ownerReferences": owners}}));
    maps.patch("a", &PatchParams::default(), &circle).await.unwrap();
    maps.delete("a", &DeleteParams::foreground()).await.unwrap();
    for name in ["a", "b"] {
        eventually(&format!("{name} to go"), || async {
            maps.get_opt(name).await.unwrap().is_none().then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quotas_report_their_usage() {
    let cluster = Cluster::start().await;
    let post = PostParams::default();
    let tabs = crontabs(&cluster, "default").await;
    let quotas: Api<ResourceQuota> = Api::namespaced(cluster.client.clone(), "default");
    let quota = serde_json::from_value(json!({"metadata": {"name": "q"}, "spec": {"hard": {
        "secrets": "5", "count/crontabs.stable.example.com": "2", "requests.cpu": "1500m",
    }}}))
    .unwrap();
    quotas.create(&post, &quota).await.unwrap();
    let used = |secrets: &'static str, count: &'static str| {
        let quotas = quotas.clone();
        async move {
            eventually(&format!("{secrets} secrets and {count} tabs"), || async {
                let status = serde_json::to_value(quotas.get("q").await.unwrap().status).unwrap();
                let wanted = json!({
                    "hard": {"secrets": "5", "count/crontabs.stable.example.com": "2", "requests.cpu": "1500m"},
                    "used": {"secrets": secrets, "count/crontabs.stable.example.com": count, "requests.cpu": "0"},
                });
                (status == wanted).then_some(())
            })
            .await
        }
    };
    used("0", "0").await;
    let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Secret>(&());
    let secrets: Api<DynamicObject> = Api::namespaced_with(cluster.client.clone(), "default", &resource);
    secrets.create(&post, &object(("v1", "Secret"), "s", None, false)).await.unwrap();
    tabs.create(&post, &object(CRONTAB, "t", None, false)).await.unwrap();
    used("1", "1").await;
    tabs.delete("t", &DeleteParams::default()).await.unwrap();
    used("1", "0").await;
}
