//! Errors: what failed, why, and what to do, on standard error only.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
};

use super::{run, transcript};

#[test]
fn names_that_do_not_exist_get_the_nearest_ones() {
    insta::assert_snapshot!(
        "unknown",
        transcript(&[
            "show widgt --catalog-dir shop",
            "show zzz --catalog-dir shop",
            "show widget@3.0.0 --catalog-dir shop",
            "show widget --channel stabel --catalog-dir shop",
            "versions widget --channel beta --catalog-dir shop",
            "why widgt --catalog-dir shop",
            "why widget --version 9.0.0 --catalog-dir shop",
            "graph widget --from 9.0.0 --catalog-dir shop",
            "diff widget --from 1.0.0 --to 9.0.0 --catalog-dir bundles",
            "plan install gadgt --catalog-dir bundles",
            "catalog graph shop widgt",
            "catalog list bundles shop widgt",
            "catalog add operatorhb --dry-run",
            "explain NoUpgradeEdg",
            "search --catalog-dir nowhere",
            "catalog validate ./nowhere",
            "catalog diff shop nowhere",
            "bundle validate nowhere",
            "catalog build nowhere",
        ])
    );
}

#[test]
fn a_wrong_command_line_names_the_flag_and_what_is_expected() {
    insta::assert_snapshot!(
        "usage",
        transcript(&[
            "instal widget",
            "list --outdatd",
            "show",
            "show widget -o xml",
            "versions widget --catalog-dir shop -o jsonpath='{.a'",
            "versions widget --catalog-dir shop -o jsonpath",
            "install widget --version '>=1'",
            "install widget --wait --timeout soon",
            "install widget --approval sometimes",
            "approve",
            "why widget --kube-version new --catalog-dir shop",
            "why widget --installed gadget.v1 --catalog-dir shop",
            "show widget@1.0.0 --version 1.1.0 --catalog-dir shop",
            "catalog mirror shop --to ./mirror",
            "catalog add ./shop",
            "catalog build bundles --image-template 'registry.example/{pkg}'",
            "bundle validate bundles/operators/widget/1.1.0 --select-optional name=good-practises",
            "bundle run bundles --install-mode Some",
            "self install --requests memory=lots",
            "policy test",
            "completion powersh",
        ])
    );
}

#[test]
fn broken_content_is_named_with_its_place() {
    insta::assert_snapshot!(
        "broken",
        transcript(&[
            "catalog validate broken",
            "catalog validate broken -o json",
            "search --catalog-dir broken",
            "catalog list packages broken",
            "catalog render broken",
            "bundle validate broken",
            "policy test -f broken/catalog.yaml",
        ])
    );
}

#[test]
fn a_cluster_that_is_not_configured_is_named_with_the_next_step() {
    insta::assert_snapshot!(
        "no_cluster",
        transcript(&[
            "list",
            "install widget",
            "search widget",
            "doctor",
            "--kubeconfig nowhere list",
            "--kubeconfig broken/catalog.yaml list",
            "--context production list",
            "catalog sources",
            "version",
        ])
    );
}

/// A kubeconfig for a server, and the commands' output without its port.
fn with_server(port: u16, lines: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: test,
         clusters: [{{name: test, cluster: {{server: 'http://127.0.0.1:{port}'}}}}],
         users: [{{name: test, user: {{}}}}],
         contexts: [{{name: test, context: {{cluster: test, user: test, namespace: shop}}}}]}}"
    );
    std::fs::write(&path, text).unwrap();
    let lines: Vec<String> =
        lines.iter().map(|line| format!("--kubeconfig {} {line}", path.display())).collect();
    let text = transcript(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let text =
        text.replace(&path.display().to_string(), "CONFIG").replace(&format!("127.0.0.1:{port}"), "SERVER");
    // Of several concurrent lists, any can be the first to fail.
    let kinds = ["subscriptions", "operatorgroups", "clusterserviceversions", "installplans"];
    kinds
        .iter()
        .fold(text, |text, kind| text.replace(&format!("failed to list {kind} "), "failed to list KIND "))
}

const WITH_CLUSTER: [&str; 9] = [
    "list",
    "status widget",
    "install widget",
    "why widget",
    "history widget",
    "can-i install widget",
    "uninstall widget --yes",
    "catalog sources",
    "doctor",
];

#[test]
fn a_server_that_does_not_answer_is_named() {
    // A port that is reserved, on which no program listens.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    insta::assert_snapshot!("unreachable", with_server(port, &WITH_CLUSTER));
}

/// The port of a server that refuses every request.
fn refusing(code: u16, reason: &'static str, message: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            thread::spawn(move || {
                let mut buffer = [0; 16 << 10];
                let mut request = Vec::<u8>::new();
                while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                    match stream.read(&mut buffer) {
                        Ok(read @ 1..) => request.extend(&buffer[..read]),
                        _ => return,
                    }
                }
                let body = format!(
                    "{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{{}},\"status\":\"Failure\",\
                     \"message\":{message:?},\"reason\":{reason:?},\"code\":{code}}}"
                );
                let head = format!(
                    "HTTP/1.1 {code} {reason}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
                     connection: close\r\n\r\n",
                    body.len()
                );
                _ = stream.write_all(format!("{head}{body}").as_bytes());
            });
        }
    });
    port
}

#[test]
fn a_refused_user_gets_the_missing_permission() {
    let port = refusing(403, "Forbidden", "User \"ada\" is not allowed to do this");
    insta::assert_snapshot!("forbidden", with_server(port, &WITH_CLUSTER));
}

#[test]
fn refused_credentials_are_named_with_how_to_log_in() {
    let port = refusing(401, "Unauthorized", "Unauthorized");
    insta::assert_snapshot!("unauthorized", with_server(port, &WITH_CLUSTER));
}

#[test]
fn an_error_leaves_standard_output_empty() {
    for line in ["show widgt --catalog-dir shop -o json", "list", "catalog render broken"] {
        let ran = run(line);
        assert!(ran.code != Some(0) && ran.out.is_empty(), "{line}: {}", ran.out);
    }
}
