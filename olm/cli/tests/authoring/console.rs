//! `olm console` without a cluster.

use crate::{folder, olm};

const UNREACHABLE: &str = "\
apiVersion: v1
kind: Config
current-context: none
clusters: [{name: none, cluster: {server: 'https://127.0.0.1:1'}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
users: [{name: none, user: {token: none}}]
";

#[test]
fn options_of_the_server_require_an_address() {
    let ran = olm(&["console", "--tls"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{}", ran.err);
    assert!(ran.err.contains("--tls requires --listen"), "{}", ran.err);
}

#[test]
fn an_unreachable_cluster_is_reported_before_there_is_a_link() {
    let dir = folder(&[("kubeconfig", UNREACHABLE)]);
    let path = dir.path().join("kubeconfig");
    let ran = olm(&["console", "--port", "0", "--kubeconfig", path.to_str().unwrap()]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{}", ran.err);
    assert!(ran.err.contains("failed to reach the cluster"), "{}", ran.err);
}

#[test]
fn the_command_is_in_the_help() {
    let ran = olm(&["--help"]);
    assert!(ran.out.contains("\n  console "), "{}", ran.out);
}
