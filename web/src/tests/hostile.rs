//! Malicious catalogs.

use http::StatusCode;
use olm_catalog::Catalog;
use serde_json::{Value, json};

use super::{Browser, console, fake::Fake, loaded};

const SCRIPT: &str = "<script>alert(1)</script>";

/// A catalog with malicious content in every displayed field.
fn hostile() -> Catalog {
    let csv = json!({
        "annotations": {
            "capabilities": format!("\" onmouseover=alert(1) {SCRIPT}"), "description": format!("Short {SCRIPT}"),
            "operatorframework.io/suggested-namespace": format!("x\"{SCRIPT}"),
        },
        "displayName": format!("Ev\u{202e}il {SCRIPT}"),
        "description": format!("# {SCRIPT}\n\n[x](javascript:alert(1)) ![p](http://evil.example/p.png)\n\n{SCRIPT}"),
        "provider": {"name": format!("'\"{SCRIPT}"), "url": "javascript:alert(1)"},
        "links": [{"name": format!("link{SCRIPT}"), "url": "javascript:alert(1)"}, {"name": "good", "url": "https://good.example/"}],
        "maintainers": [{"name": SCRIPT, "email": SCRIPT}], "minKubeVersion": SCRIPT, "keywords": [SCRIPT],
        "installModes": [{"type": SCRIPT, "supported": true}],
        "crdDescriptions": {"owned": [{"name": format!("things.{SCRIPT}"), "version": "v1", "kind": SCRIPT, "displayName": SCRIPT, "description": SCRIPT}]},
    });
    let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"alert(1)\"><script>alert(1)</script></svg>";
    let documents: [Value; 3] = [
        json!({"schema": "olm.package", "name": "evil", "defaultChannel": "stable", "description": SCRIPT,
            "icon": {"mediatype": "image/svg+xml", "base64data": base64(svg)}}),
        json!({"schema": "olm.channel", "package": "evil", "name": "stable", "entries": [{"name": "evil.v1.0.0",
            "replaces": format!("\" onload=alert(1) {SCRIPT}"), "skipRange": SCRIPT}]}),
        json!({"schema": "olm.bundle", "package": "evil", "name": "evil.v1.0.0", "image": "localhost/evil:1",
            "properties": [{"type": "olm.package", "value": {"packageName": "evil", "version": "1.0.0"}},
                {"type": "olm.csv.metadata", "value": csv}],
            "relatedImages": [{"name": "x", "image": format!("localhost/x:{SCRIPT}")}]}),
    ];
    let lines: Vec<String> = documents.iter().map(Value::to_string).collect();
    Catalog::from_bytes("hostile", lines.join("\n").as_bytes())
}

fn base64(text: &str) -> String {
    let alphabet: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['+', '/']).collect();
    text.as_bytes()
        .chunks(3)
        .map(|chunk| {
            let bits =
                chunk.iter().fold(0_u32, |bits, b| bits << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
            let chars = (0..4)
                .map(|i| if i <= chunk.len() { alphabet[(bits >> (18 - 6 * i) & 63) as usize] } else { '=' });
            chars.collect::<String>()
        })
        .collect()
}

#[tokio::test]
async fn nothing_of_a_hostile_catalog_runs() {
    // given
    let catalog = hostile();
    assert!(catalog.summary("evil").is_some(), "{:?}", catalog.problems);
    let browser = Browser::new(console(&Fake::default(), vec![loaded("community", catalog)])).await;
    // when
    for path in [
        "/catalog",
        "/catalog?q=evil",
        "/catalog?q=%3Cscript%3Ealert(1)",
        "/catalog?category=%3Cscript%3Ealert(1)&provider=%22%20onload=x&sort=%22%3E",
        "/installed?q=%3Cscript%3Ealert(1)&namespace=%22%20onload=x&status=%3Cscript%3Ealert(1)",
        "/catalog/olm.community/evil",
        "/catalog/olm.community/evil/versions",
        "/catalog/olm.community/evil/versions?channel=%3Cscript%3Ealert(1)",
        "/catalog/olm.community/evil/graph?format=%3Cscript%3Ealert(1)",
        "/install/olm.community/evil",
        "/catalog/%3Cscript%3Ealert(1)/x",
        "/catalog/olm.community/%22%3E%3Cscript%3Ealert(1)",
    ] {
        let page = browser.get(path).await;
        // then the text is shown, without elements and attributes
        let lower = page.text.to_lowercase();
        assert!(!lower.contains("<script>alert"), "{path}: {}", page.text);
        assert!(!lower.contains("href=\"javascript") && !lower.contains("src=\"http"), "{path}");
        assert!(!page.text.contains('\u{202e}'), "{path}");
        assert!(!lower.contains("<svg xmlns"), "{path}: an icon is never part of the page");
        let attribute = page.text.split('<').any(|tag| {
            tag.split('>').next().is_some_and(|t| {
                // Outside of quotes.
                t.split('"').step_by(2).any(|bare| bare.contains("onmouseover") || bare.contains("onload"))
            })
        });
        assert!(!attribute, "{path}: {}", page.text);
    }
    let page = browser.get("/catalog/olm.community/evil").await;
    assert!(page.text.contains("href=\"https://good.example/\""));
}

#[tokio::test]
async fn an_icon_with_a_script_is_served_into_a_sandbox() {
    let browser = Browser::new(console(&Fake::default(), vec![loaded("community", hostile())])).await;
    let page = browser.get("/catalog").await;
    let Some(at) = page.text.find("/icons/") else {
        assert!(page.text.contains("icon-letter"), "refused icons are letters");
        return;
    };
    let icon = browser.get(&page.text[at..at + 7 + 64]).await;
    assert_eq!(icon.status, StatusCode::OK);
    assert_eq!(
        icon.headers["content-security-policy"],
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"
    );
    assert_eq!(icon.headers["x-content-type-options"], "nosniff");
    assert_eq!(icon.headers["content-type"], "image/svg+xml");
}
