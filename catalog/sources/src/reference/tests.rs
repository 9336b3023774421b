use super::*;

fn read(text: &str) -> Reference {
    text.parse().expect(text)
}

fn refused(text: &str) -> String {
    text.parse::<Reference>().expect_err(text).to_string()
}

const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[test]
fn names_are_completed_as_everywhere() {
    for (text, expected) in [
        ("etcd", "docker.io/library/etcd:latest"),
        ("org/etcd", "docker.io/org/etcd:latest"),
        ("index.docker.io/etcd:v1", "docker.io/library/etcd:v1"),
        ("localhost/x", "localhost/x:latest"),
        ("quay.io/a/b:1.0", "quay.io/a/b:1.0"),
        (" quay.io/a/b ", "quay.io/a/b:latest"),
        ("127.0.0.1:5000/a__b/c-d.e", "127.0.0.1:5000/a__b/c-d.e:latest"),
        ("[::1]:5000/a:t", "[::1]:5000/a:t"),
    ] {
        assert_eq!(full_name(text).expect(text), expected, "{text}");
    }
    // A name is shown in terminals and statuses.
    for hostile in ["a b", "a\nb", "a\u{1b}[2J", "\u{202e}a"] {
        assert!(full_name(hostile).is_err(), "{hostile:?}");
    }
}

#[test]
fn a_digest_counts_and_the_tag_does_not() {
    let reference = read(&format!("quay.io/a/b:old@{DIGEST}"));
    assert_eq!(reference.identifier(), DIGEST);
    assert_eq!(read(&format!("quay.io/a/b@{DIGEST}")).tag, None);
}

#[test]
fn what_is_no_name_is_refused_with_the_reason() {
    for (text, reason) in [
        ("", "empty reference"),
        ("oci://quay.io/a", "remove oci://"),
        ("quay.io/a@", "expected sha256:"),
        ("quay.io/a@md5:00", "expected sha256 or sha512"),
        ("quay.io/a@sha256:00", "64 lower-case hexadecimal digits"),
        ("quay.io/A", "invalid part \"A\" of the name"),
        ("quay.io/a//b", "invalid part \"\" of the name"),
        ("quay.io/../etc", "invalid part \"..\" of the name"),
        ("quay.io/a:b:c", "of the name"),
        ("quay.io/a:-x", "invalid tag \"-x\""),
        ("quay.io:99999/a", "not a host name"),
        ("-x.io/a", "not a host name"),
        ("quay.io/", "invalid part \"\" of the name"),
    ] {
        let message = refused(text);
        assert!(message.contains(reason), "{text}: {message}");
    }
}

proptest::proptest! {
    #[test]
    fn never_panics_and_is_stable(text in "\\PC{0,40}") {
        if let Ok(reference) = text.parse::<Reference>() {
            proptest::prop_assert_eq!(reference.to_string().parse::<Reference>().expect("again"), reference);
        }
    }
}

#[test]
fn credentials_are_distinguished_from_digests() {
    for (text, rest) in [
        ("bob:hunter2@quay.io/a/b:v1", Some("quay.io/a/b:v1")),
        ("bob:hunter2@shared.example/a", Some("shared.example/a")),
        ("bob:hunter2@server:50051", Some("server:50051")),
        ("https://bob@example.com?a=b@c", Some("example.com?a=b@c")),
        ("quay.io/a/b@sha256:1", None),
        ("etcd@sha256:1", None),
        ("https://example.com/a@b", None),
    ] {
        assert_eq!(after_credentials(text), rest, "{text}");
    }
    let error = "bob:hunter2@etcd".parse::<Reference>().unwrap_err().to_string();
    assert!(!error.contains("hunter2"), "{error}");
}
