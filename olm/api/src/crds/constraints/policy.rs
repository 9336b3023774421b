//! InstallPolicy: an invalid policy is refused, because it would restrict less than its author expects.

use serde_json::{Value, json};

/// Objects and lists for which an empty value or `null` has no meaning.
const LISTS: [&str; 11] = [
    "/spec/allow",
    "/spec/allow/N/catalogs",
    "/spec/allow/N/packages",
    "/spec/allow/N/channels",
    "/spec/deny/rights",
    "/spec/deny/rights/N/verbs",
    "/spec/deny/rights/N/apiGroups",
    "/spec/deny/rights/N/resources",
    "/spec/signatures",
    "/spec/signatures/N/images",
    "/spec/signatures/N/anyOf",
];
/// Lists that are empty in real roles too.
const OPTIONAL_LISTS: [&str; 2] =
    ["/spec/deny/rights/N/resourceNames", "/spec/deny/rights/N/nonResourceURLs"];
/// Longer lists exceed the cost limit of the API server for CEL rules.
const MOST: u32 = 64;

const EXPRESSION: &str = "/spec/namespaceSelector/matchExpressions/N";
/// A label key, with or without a prefix.
const LABEL_KEY: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$";
const LABEL_VALUE: &str = r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$";

pub(super) fn keywords() -> Vec<(String, Value)> {
    let mut out: Vec<(&str, Value)> = Vec::new();
    for path in LISTS {
        out.push((path, json!({ "minItems": 1, "maxItems": MOST, "nullable": false })));
    }
    for path in OPTIONAL_LISTS {
        out.push((path, json!({ "maxItems": MOST, "nullable": false })));
    }
    for path in ["/spec/namespaceSelector", "/spec/deny", "/spec/approvals"] {
        out.push((path, json!({ "nullable": false })));
    }
    out.push(("/spec/approvals/high", json!({ "minimum": 1, "maximum": 2, "nullable": false })));
    out.push(("/spec", spec()));
    out.push(("/spec/allow/N", entry()));
    out.push(("/spec/deny/rights/N", right()));
    let name = |pattern: &str| json!({ "minLength": 1, "maxLength": 253, "pattern": pattern });
    out.push((
        "/spec/allow/N/catalogs/N/namespace",
        json!({ "minLength": 1, "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" }),
    ));
    out.push(("/spec/allow/N/catalogs/N/name", name("^[a-z0-9*]([-a-z0-9.*]*[a-z0-9*])?$")));
    out.push(("/spec/allow/N/packages/N", name(r"^[A-Za-z0-9*]([-A-Za-z0-9._*]*[A-Za-z0-9*])?$")));
    out.push(("/spec/allow/N/channels/N", name(r"^[^\s,]+$")));
    out.extend(signatures());
    out.push((EXPRESSION, expression()));
    out.extend([
        ("/spec/namespaceSelector/matchExpressions/N/key", json!({ "maxLength": 317, "pattern": LABEL_KEY })),
        (
            "/spec/namespaceSelector/matchExpressions/N/operator",
            json!({ "enum": ["In", "NotIn", "Exists", "DoesNotExist"] }),
        ),
        ("/spec/namespaceSelector/matchExpressions/N/values/N", json!({ "pattern": LABEL_VALUE })),
        ("/spec/namespaceSelector/matchExpressions", json!({ "maxItems": MOST, "nullable": false })),
        ("/spec/namespaceSelector/matchExpressions/N/values", json!({ "maxItems": MOST, "nullable": false })),
        (
            "/spec/namespaceSelector/matchLabels",
            json!({ "maxProperties": MOST, "nullable": false,
                "additionalProperties": { "type": "string", "pattern": LABEL_VALUE, "maxLength": 63 } }),
        ),
        ("/spec/deny/rights/N/verbs/N", json!({ "minLength": 1, "maxLength": 63 })),
        ("/spec/deny/rights/N/apiGroups/N", json!({ "maxLength": 253 })),
        ("/spec/deny/rights/N/resources/N", json!({ "minLength": 1, "maxLength": 253 })),
        ("/spec/deny/rights/N/resourceNames/N", json!({ "minLength": 1, "maxLength": 253 })),
        (
            "/spec/deny/rights/N/nonResourceURLs/N",
            json!({ "minLength": 1, "maxLength": 253, "pattern": r"^(/[^*]*\*?|\*)$" }),
        ),
    ]);
    out.into_iter().map(|(path, keywords)| (path.to_owned(), keywords)).collect()
}

fn rule(rule: &str, message: &str) -> Value {
    json!({ "rule": rule, "message": message })
}

fn spec() -> Value {
    json!({ "x-kubernetes-validations": [rule(
        "has(self.allow) || has(self.deny) || has(self.signatures) || has(self.approvals)",
        "the policy has no effect, expected at least one of allow, deny, signatures and approvals",
    )] })
}

fn entry() -> Value {
    json!({ "x-kubernetes-validations": [
        rule(
            "has(self.catalogs) || has(self.packages) || has(self.channels)",
            "the entry allows everything, expected at least one of catalogs, packages and channels",
        ),
        rule(
            "!has(self.authority) || self.authority != 'Policy' || (has(self.catalogs) && has(self.packages))",
            "authority: Policy lends the author's rights to bundles, so it needs both catalogs and packages",
        ),
        rule(
            "!has(self.authority) || self.authority != 'Policy' || !has(self.catalogs) || \
             !self.catalogs.exists(c, c.name.contains('*'))",
            "authority: Policy lends the author's rights to bundles, so the names of catalogs have no `*`",
        ),
    ] })
}

fn right() -> Value {
    json!({ "x-kubernetes-validations": [
        rule(
            "has(self.nonResourceURLs) ? !has(self.apiGroups) && !has(self.resources) && !has(self.resourceNames) \
             : has(self.apiGroups) && has(self.resources)",
            "expected either apiGroups and resources, or nonResourceURLs alone",
        ),
    ] })
}

/// The constraints of a requirement that need no cryptographic library. An unreadable key or pattern results
/// in the finding `PolicyDenies`.
fn signatures() -> Vec<(&'static str, Value)> {
    let text = |longest: u32| json!({ "minLength": 1, "maxLength": longest, "nullable": false });
    let one = |value: &str, pattern: &str| {
        let message = format!("expected exactly one of {value} and {pattern}");
        rule(&format!("has(self.{value}) != has(self.{pattern})"), &message)
    };
    let mut key = text(4096);
    key["pattern"] = json!(r"^\s*-----BEGIN PUBLIC KEY-----");
    let mut out = vec![
        (
            "/spec/signatures/N/images/N",
            json!({ "maxLength": 253, "pattern": r"^(\*|[A-Za-z0-9][-A-Za-z0-9._:/]*)$" }),
        ),
        ("/spec/signatures/N/anyOf/N", json!({ "x-kubernetes-validations": [one("key", "identity")] })),
        ("/spec/signatures/N/anyOf/N/key", key),
        ("/spec/signatures/N/anyOf/N/trustedRoot", text(256 << 10)),
        (
            "/spec/signatures/N/anyOf/N/identity",
            json!({ "nullable": false, "x-kubernetes-validations": [one("subject", "subjectRegexp"), one("issuer", "issuerRegexp")] }),
        ),
    ];
    out.extend(
        [
            "/spec/signatures/N/anyOf/N/identity/subject",
            "/spec/signatures/N/anyOf/N/identity/subjectRegexp",
            "/spec/signatures/N/anyOf/N/identity/issuer",
            "/spec/signatures/N/anyOf/N/identity/issuerRegexp",
        ]
        .map(|path| (path, text(1024))),
    );
    out
}

/// Constraints of a selector expression.
fn expression() -> Value {
    json!({ "x-kubernetes-validations": [rule(
        "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 \
         : !has(self.values) || size(self.values) == 0",
        "values: expected at least one for In and NotIn, and none for Exists and DoesNotExist",
    )] })
}
