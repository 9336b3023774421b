//! Two managers on one cluster.

use anyhow::{Result, ensure};
use olm_manager::Options;
use olm_tests::inprocess::{Catalog, Faults, OLM, Operator, World, text};

use super::run;

async fn holder(world: &World) -> Result<String> {
    let lease = kube::Api::<k8s_openapi::api::coordination::v1::Lease>::namespaced(world.client.clone(), OLM);
    let lease = lease.get_opt("olm-manager").await?;
    Ok(lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default())
}

#[test]
fn one_of_two_managers_writes_and_the_other_takes_over_warm() {
    run(async {
        // given two managers, with separately recorded calls
        let world = World::bare().await?;
        let options = |identity: &str| Options {
            leader_election: true,
            cache_dir: Some(world.folder().join(identity)),
            ..world.options(identity)
        };
        let (first_calls, second_calls) = (Faults::new(), Faults::new());
        let first = world.manager_behind(&first_calls, options("first"))?;
        world
            .eventually("the first to lead", async || {
                ensure!(holder(&world).await? == "first");
                Ok(())
            })
            .await?;
        let second = world.manager_behind(&second_calls, options("second"))?;

        // when an operator is installed
        let (old, new) = (Operator::new("a", "1.0.0"), Operator::new("a", "1.1.0"));
        world.publish("catalog", &Catalog::chain(&[&old])).await?;
        world.home("a").await?;
        world.subscribe("a", "a").await?;
        world.installed("a", "a", &old.name).await?;

        // then the second wrote nothing at all
        let wrote: Vec<String> =
            second_calls.calls().iter().filter(|c| c.is_write()).map(ToString::to_string).collect();
        ensure!(wrote.is_empty(), "{wrote:?}");
        // and has read the catalog
        ensure!(
            second_calls.calls().iter().any(|c| c.path.ends_with("/catalogsources")),
            "it looked at no catalog"
        );

        // when the first is stopped
        first.stop().await?;
        let until = first_calls.count();

        // then the second continues, and the first makes no call
        world.publish("catalog", &Catalog::chain(&[&old, &new])).await?;
        world.installed("a", "a", &new.name).await?;
        ensure!(holder(&world).await? == "second");
        let late = first_calls.writes_since(until);
        ensure!(late.is_empty(), "{late:?}");
        world.gone("ClusterServiceVersion", "a", &old.name).await?;
        let csvs = world.names("ClusterServiceVersion", "a").await?;
        ensure!(csvs == [new.name.clone()], "{csvs:?}");
        let plans = world.list("InstallPlan", "a").await?;
        ensure!(plans.iter().all(|plan| text(plan, "/status/phase") == "Complete"), "{plans:?}");
        second.stop().await
    });
}
