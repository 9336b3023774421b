//! The life of an EtcdCluster: three members, one lost, five, three again, with a client that never stops
//! writing.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use olm_tests::etcd;

use crate::{
    etcd_fixture::{Writer, client_pod, without_volumes},
    operator::{csv_succeeded, delete_namespace, get, namespace, subscription},
    scenario,
};

const LIMIT: Duration = Duration::from_secs(120);

/// S01; S03; S06: three members; one is lost; five; three again.
#[test]
fn a_lost_member_is_replaced_and_size_changes_one_at_a_time() {
    scenario("a_lost_member_is_replaced_and_size_changes_one_at_a_time", async |cluster| {
        let Some(version) = etcd::version() else {
            olm_tests::skipped("a_lost_member_is_replaced", "etcd is not installed");
            return Ok(());
        };
        let (ns, name) = ("life", "example-etcd-cluster");
        namespace(&cluster, ns)?;
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&subscription(ns, "Automatic", None)))?;
        csv_succeeded(&cluster, ns, "etcdoperator.v0.11.0").await?;
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&without_volumes(ns, name, 3, &version)))?;
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&client_pod(ns, &version)))?;
        let before = cluster.wait_members(ns, name, 3, LIMIT).await?;
        cluster.kubectl(&["wait", "--for=condition=Ready", "pod/client", "-n", ns, "--timeout=30s"])?;
        cluster.etcdctl(ns, &before[0], &["put", "before", "kept"])?;

        // A member is lost while a client keeps writing.
        let service = format!("{name}-client");
        let writer = Writer::start(&cluster, ns, &service);
        writer.more(3).await?;
        let lost = before[1].clone();
        cluster.kubectl(&["delete", "pod", &lost, "-n", ns])?;
        let start = Instant::now();
        let after = loop {
            let ready = cluster.wait_members(ns, name, 3, LIMIT).await?;
            if !ready.contains(&lost) {
                break ready;
            }
            ensure!(start.elapsed() < LIMIT, "the lost member is still counted as ready: {ready:?}");
        };
        writer.more(3).await?;
        let (written, worst, failures) = writer.finish();
        ensure!(worst <= 1, "{worst} requests failed in a row ({written} written): {failures:?}");
        let listed = cluster.member_list(ns, &after[0])?;
        ensure!(listed.iter().all(|(n, _)| *n != lost), "etcd still lists {lost}: {listed:?}");
        let new: Vec<_> = after.iter().filter(|m| !before.contains(m)).collect();
        ensure!(new.len() == 1, "one new member with a new name, not {new:?}");
        for member in &after {
            let kept = cluster.etcdctl(ns, member, &["get", "before", "--print-value-only"])?;
            ensure!(kept.trim() == "kept", "{member} has lost a key: {kept}");
            let count = cluster.etcdctl(ns, member, &["get", "w/", "--prefix", "--keys-only"])?;
            let count = count.lines().filter(|l| l.starts_with("w/")).count();
            ensure!(count >= written, "{member} has {count} of {written} acknowledged keys");
        }

        // Five, then three: one at a time, with a majority of ready voters in every observation.
        for size in [5_usize, 3] {
            cluster
                .kubectl_in(&["apply", "-f", "-"], Some(&without_volumes(ns, name, size as i64, &version)))?;
            let start = Instant::now();
            let mut last = usize::MAX;
            loop {
                ensure!(start.elapsed() < LIMIT, "size {size} was not reached");
                let ready = cluster.ready_members(ns, name)?;
                let Some(first) = ready.first() else { bail!("no ready member on the way to {size}") };
                let Ok(listed) = cluster.member_list(ns, first) else { continue };
                let voters = listed.iter().filter(|(_, learner)| !learner).count();
                let up = listed.iter().filter(|(n, learner)| !learner && ready.contains(n)).count();
                ensure!(up * 2 > voters, "{up} of {voters} voters are ready");
                ensure!(listed.len() - voters <= 1, "more than one learner: {listed:?}");
                if last != usize::MAX {
                    ensure!(
                        listed.len().abs_diff(last) <= 1,
                        "from {last} to {} members at once",
                        listed.len()
                    );
                }
                last = listed.len();
                if listed.len() == size && voters == size && ready.len() == size {
                    break;
                }
            }
        }
        let kept = cluster.wait_members(ns, name, 3, LIMIT).await?;
        let value = cluster.etcdctl(ns, &kept[0], &["get", "before", "--print-value-only"])?;
        ensure!(value.trim() == "kept", "{value}");

        // Deleting the object deletes everything that belongs to it.
        cluster.kubectl(&["delete", "etcdcluster", name, "-n", ns])?;
        olm_tests::eventually("members and services to go", LIMIT, async || {
            let left = get(&cluster, &["pods,services", "-n", ns, "-l", &format!("etcd_cluster={name}")])?;
            let left = left["items"].as_array().map_or(0, Vec::len);
            if left > 0 { bail!("{left} left") } else { Ok(Some(())) }
        })
        .await?;
        delete_namespace(&cluster, ns)
    });
}
