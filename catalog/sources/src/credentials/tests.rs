use super::*;

fn basic(user: &str) -> String {
    format!("{{\"auth\":\"{}\"}}", BASE64_STANDARD.encode(format!("{user}:secret-of-{user}")))
}

fn config(entries: &[(&str, &str)]) -> Credentials {
    let entries: Vec<String> =
        entries.iter().map(|(key, user)| format!("\"{key}\":{}", basic(user))).collect();
    let mut credentials = Credentials::default();
    credentials
        .add("secret ns/pull", format!("{{\"auths\":{{{}}}}}", entries.join(",")).as_bytes())
        .expect("a config");
    credentials
}

fn users(credentials: &Credentials, registry: &str, repository: &str) -> Vec<String> {
    credentials
        .matching(registry, repository)
        .iter()
        .map(|login| match &login.secret {
            Secret::Basic { user, password } => {
                assert_eq!(password, &format!("secret-of-{user}"));
                user.clone()
            }
            _ => "other".to_owned(),
        })
        .collect()
}

#[test]
fn the_longest_path_is_tried_first() {
    let credentials = config(&[
        ("quay.io", "host"),
        ("quay.io/org", "org"),
        ("quay.io/org/repo", "repo"),
        ("quay.io/organisation", "other"),
        ("example.com", "stranger"),
    ]);
    assert_eq!(users(&credentials, "quay.io", "org/repo"), ["repo", "org", "host"]);
    assert_eq!(users(&credentials, "quay.io", "org/repo2"), ["org", "host"]);
    assert_eq!(users(&credentials, "quay.io", "x"), ["host"]);
    assert!(users(&credentials, "ghcr.io", "x").is_empty());
}

#[test]
fn appended_credentials_are_tried_after_equal_ones() {
    let mut credentials = config(&[("quay.io", "pod")]);
    credentials.append(config(&[("quay.io", "user"), ("quay.io/org", "longer")]));
    assert_eq!(users(&credentials, "quay.io", "org/repo"), ["longer", "pod", "user"]);
}

#[test]
fn all_names_of_the_default_registry_are_one() {
    for key in ["https://index.docker.io/v1/", "docker.io", "index.docker.io", "registry-1.docker.io/v2/"] {
        assert_eq!(users(&config(&[(key, "me")]), "docker.io", "library/etcd"), ["me"], "{key}");
    }
}

#[test]
fn ports_are_part_of_the_host() {
    let credentials = config(&[("example.com:5000", "port"), ("example.com", "none")]);
    assert_eq!(users(&credentials, "example.com:5000", "a"), ["port"]);
    assert_eq!(users(&credentials, "example.com", "a"), ["none"]);
}

#[test]
fn stars_stand_for_one_label() {
    let credentials =
        config(&[("*.example.com", "star"), ("a.example.com", "exact"), ("my*.io:5000", "part")]);
    assert_eq!(users(&credentials, "a.example.com", "x"), ["exact", "star"]);
    assert_eq!(users(&credentials, "b.example.com", "x"), ["star"]);
    assert!(users(&credentials, "a.b.example.com", "x").is_empty());
    assert_eq!(users(&credentials, "myhost.io:5000", "x"), ["part"]);
    assert!(users(&credentials, "myhost.io", "x").is_empty());
}

#[test]
fn every_form_of_secret_is_read() {
    let mut credentials = Credentials::default();
    let document = r#"{"auths": {
        "a.io": {"username": "u", "password": "p"},
        "b.io": {"identitytoken": "i"},
        "c.io": {"registrytoken": "r"},
        "d.io": {},
        "e.io": {"auth": "dTpwAAA="}
    }, "credHelpers": {"f.io": "ecr-login"}, "HttpHeaders": {"x": "y"}}"#;
    credentials.add("file", document.as_bytes()).expect("a config");

    let secret = |host| credentials.matching(host, "x").first().map(|login| login.secret.clone());
    let basic = |user: &str, password: &str| Secret::Basic { user: user.into(), password: password.into() };
    assert!(secret("a.io") == Some(basic("u", "p")));
    assert!(secret("b.io") == Some(Secret::Identity("i".into())));
    assert!(secret("c.io") == Some(Secret::Bearer("r".into())));
    assert!(secret("d.io").is_none());
    assert!(secret("e.io") == Some(basic("u", "p")));
    assert!(secret("f.io") == Some(Secret::Helper("ecr-login".into())));
}

#[test]
fn the_older_form_and_a_config_without_logins_are_right() {
    let mut credentials = Credentials::default();
    credentials.add("cfg", format!("{{\"quay.io\":{}}}", basic("old")).as_bytes()).expect("a .dockercfg");
    credentials.add("empty", b"{}").expect("an empty config");
    credentials.add("other", br#"{"detachKeys": "ctrl-e,e"}"#).expect("a config without log-ins");
    assert_eq!(users(&credentials, "quay.io", "x"), ["old"]);
}

#[test]
fn no_message_holds_a_secret() {
    let credentials = config(&[("quay.io", "bob")]);
    let shown = format!("{credentials:?} {}", credentials.matching("quay.io", "x")[0]);
    assert!(shown.contains("secret ns/pull, entry quay.io (user bob)"), "{shown}");
    assert!(!shown.contains("secret-of-bob"), "{shown}");

    for document in [
        "{\"auths\": {\"quay.io\": {\"auth\": \"c2VjcmV0\"}}}",
        "{\"auths\": {\"quay.io\": {\"auth\": \"%secret%\"}}}",
        "{\"auths\": {\"quay.io\": \"hidden-secret\"}}",
        "secret",
    ] {
        let error = Credentials::default().add("secret ns/pull", document.as_bytes()).expect_err(document);
        let text = format!("{error} {error:?}").replace("secret ns/pull", "");
        assert!(!text.contains("secret") && !text.contains("c2Vj"), "{text}");
    }
}
