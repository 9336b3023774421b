use super::*;

fn catalog(text: &str) -> Catalog {
    Catalog::from_bytes("test", text.as_bytes())
}

const OLD: &str = r#"
{"schema":"olm.package","name":"gone","defaultChannel":"a"}
{"schema":"olm.channel","package":"gone","name":"a","entries":[{"name":"gone.v1.0.0"}]}
{"schema":"olm.bundle","package":"gone","name":"gone.v1.0.0","image":"r.example/gone@sha256:0000000000000000000000000000000000000000000000000000000000000000","properties":[{"type":"olm.package","value":{"packageName":"gone","version":"1.0.0"}}]}
{"schema":"olm.package","name":"p","defaultChannel":"a"}
{"schema":"olm.channel","package":"p","name":"a","entries":[{"name":"p.v1.0.0"},{"name":"p.v1.1.0","replaces":"p.v1.0.0"}]}
{"schema":"olm.channel","package":"p","name":"old","entries":[{"name":"p.v1.0.0"}]}
{"schema":"olm.bundle","package":"p","name":"p.v1.0.0","image":"r.example/p:1.0.0","properties":[{"type":"olm.package","value":{"packageName":"p","version":"1.0.0"}}]}
{"schema":"olm.bundle","package":"p","name":"p.v1.1.0","image":"r.example/p:1.1.0","properties":[{"type":"olm.package","value":{"packageName":"p","version":"1.1.0"}},{"type":"olm.gvk","value":{"group":"g","kind":"K","version":"v1"}}]}
"#;

const NEW: &str = r#"
{"schema":"olm.package","name":"fresh","defaultChannel":"a"}
{"schema":"olm.channel","package":"fresh","name":"a","entries":[{"name":"fresh.v1.0.0"}]}
{"schema":"olm.bundle","package":"fresh","name":"fresh.v1.0.0","image":"r.example/fresh:1","properties":[{"type":"olm.package","value":{"packageName":"fresh","version":"1.0.0"}}]}
{"schema":"olm.package","name":"p","defaultChannel":"b"}
{"schema":"olm.channel","package":"p","name":"a","entries":[{"name":"p.v1.1.0","skips":["p.v1.0.0"],"skipRange":"<1.1.0"},{"name":"p.v1.2.0","replaces":"p.v1.1.0"}]}
{"schema":"olm.channel","package":"p","name":"b","entries":[{"name":"p.v1.2.0"}]}
{"schema":"olm.bundle","package":"p","name":"p.v1.1.0","image":"r.example/p:1.1.0-1","properties":[{"type":"olm.package","value":{"packageName":"p","version":"1.1.0"}},{"type":"olm.gvk","value":{"group":"g","kind":"K","version":"v2"}}]}
{"schema":"olm.bundle","package":"p","name":"p.v1.2.0","image":"r.example/p:1.2.0","properties":[{"type":"olm.package","value":{"packageName":"p","version":"1.2.0"}}]}
{"schema":"olm.deprecations","package":"p","entries":[{"reference":{"schema":"olm.channel","name":"a"},"message":"use\nb"}]}
"#;

#[test]
fn every_kind_of_change_is_reported_once() {
    let changes = diff(&catalog(OLD), &catalog(NEW)).unwrap();
    let text: Vec<String> = changes.iter().map(ToString::to_string).collect();
    assert_eq!(
        text,
        [
            "+ fresh: package",
            "- gone: package",
            "~ p: package defaultChannel: a -> b",
            "+ p/a: deprecation: use\\nb",
            "- p/a/p.v1.0.0: entry",
            "~ p/a/p.v1.1.0: entry replaces: p.v1.0.0 -> none",
            "~ p/a/p.v1.1.0: entry skipRange: none -> <1.1.0",
            "~ p/a/p.v1.1.0: entry skips: none -> p.v1.0.0",
            "+ p/a/p.v1.2.0: entry",
            "+ p/b: channel",
            "- p/old: channel",
            "- p/p.v1.0.0: bundle",
            "~ p/p.v1.1.0: bundle image: r.example/p:1.1.0 -> r.example/p:1.1.0-1",
            "~ p/p.v1.1.0: bundle properties olm.gvk",
            "+ p/p.v1.2.0: bundle",
        ]
    );
    let json = serde_json::to_value(&changes[5]).unwrap();
    assert_eq!(
        json,
        serde_json::json!({"package": "p", "subject": "entry", "channel": "a", "bundle": "p.v1.1.0",
            "action": "changed", "field": "replaces", "old": "p.v1.0.0"})
    );
    let back: Vec<Change> = serde_json::from_str(&serde_json::to_string(&changes).unwrap()).unwrap();
    assert_eq!(back, changes);
}

#[test]
fn equal_content_has_no_changes_whatever_its_order() {
    let lines: Vec<&str> = OLD.trim().lines().rev().collect();
    assert_eq!(diff(&catalog(OLD), &catalog(&lines.join("\n"))).unwrap(), []);
}
