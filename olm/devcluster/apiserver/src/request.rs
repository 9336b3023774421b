//! Parses a request's method, path and query.

use http::Method;

use super::status::{ApiError, ApiResult};

/// The query of a URL, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|p| !p.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (percent_decode(&key.replace('+', " ")), percent_decode(&value.replace('+', " ")))
        });
        Self(pairs.collect())
    }

    /// The value of a parameter; empty when absent.
    pub(crate) fn get(&self, key: &str) -> &str {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str()).unwrap_or_default()
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(k, _)| k == key)
    }

    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// Go's reading of a boolean parameter: present and neither `false` nor `0`.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.has(key) && !matches!(self.get(key), "false" | "0")
    }

    pub(crate) fn number(&self, key: &str) -> ApiResult<Option<i64>> {
        match self.get(key) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                ApiError::bad_request(format!(
                    "strconv.ParseInt: parsing \"{text}\": invalid syntax (parameter {key})"
                ))
            }),
        }
    }
}

/// Decodes `%41`; invalid escapes stay unchanged.
pub(crate) fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while index < bytes.len() {
        let hex = (bytes[index] == b'%')
            .then(|| text.get(index + 1..index + 3))
            .flatten()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match hex {
            Some(byte) => {
                out.push(byte);
                index += 3;
            }
            None => {
                out.push(bytes[index]);
                index += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A request to a resource or to a non-resource path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Info {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; the lower-case
    /// method otherwise.
    pub verb: String,
    pub path: String,
    /// Whether the fields below are set.
    pub is_resource: bool,
    pub group: String,
    pub version: String,
    pub namespace: String,
    pub resource: String,
    pub name: String,
    pub subresource: String,
    /// The path after the subresource (`proxy`).
    pub tail: String,
}

impl Info {
    pub(crate) fn parse(method: &Method, path: &str, query: &Query) -> Self {
        let mut info =
            Self { verb: method.as_str().to_ascii_lowercase(), path: path.to_owned(), ..Self::default() };
        let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let rest = match segments.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() && !rest[0].is_empty() => {
                info.version = (*version).to_owned();
                rest
            }
            ["apis", group, version, rest @ ..] if !rest.is_empty() && !rest[0].is_empty() => {
                (info.group, info.version) = ((*group).to_owned(), (*version).to_owned());
                rest
            }
            _ => return info,
        };
        info.is_resource = true;
        let rest = match rest {
            ["namespaces"] | ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => {
                info.namespace = rest.get(1).map(|n| percent_decode(n)).unwrap_or_default();
                rest
            }
            ["namespaces", namespace, rest @ ..] => {
                info.namespace = percent_decode(namespace);
                rest
            }
            _ => rest,
        };
        let at = |index: usize| rest.get(index).map(|s| percent_decode(s)).unwrap_or_default();
        (info.resource, info.name, info.subresource) = (at(0), at(1), at(2));
        // The tail is forwarded unchanged, escapes included.
        info.tail = rest.get(3..).map(|t| t.join("/")).unwrap_or_default();
        let collection = info.name.is_empty();
        let verb = match method.as_str() {
            "GET" | "HEAD" if collection && query.flag("watch") => "watch",
            "GET" | "HEAD" if collection => "list",
            "GET" | "HEAD" => "get",
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" if collection => "deletecollection",
            "DELETE" => "delete",
            _ => "",
        };
        info.verb = verb.to_owned();
        info
    }

    /// The resource in RBAC rules: `pods/log`.
    pub(crate) fn full_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: &str, path: &str, query: &str) -> Info {
        let method = method.parse().expect("a method");
        Info::parse(&method, path, &Query::parse(query))
    }

    #[test]
    fn paths() {
        let list = parse("GET", "/api/v1/pods", "watch=true");
        assert_eq!(
            (list.verb.as_str(), list.resource.as_str(), list.namespace.as_str()),
            ("watch", "pods", "")
        );
        let get = parse("GET", "/apis/apps/v1/namespaces/a/deployments/b/status", "");
        assert_eq!((get.group.as_str(), get.namespace.as_str(), get.name.as_str()), ("apps", "a", "b"));
        assert_eq!((get.verb.as_str(), get.full_resource().as_str()), ("get", "deployments/status"));
        let namespace = parse("PUT", "/api/v1/namespaces/a/finalize", "");
        assert_eq!((namespace.resource.as_str(), namespace.name.as_str()), ("namespaces", "a"));
        assert_eq!(namespace.full_resource(), "namespaces/finalize");
        let proxy = parse("GET", "/api/v1/namespaces/a/services/http:b:80/proxy/x/y%20z", "");
        assert_eq!((proxy.name.as_str(), proxy.tail.as_str()), ("http:b:80", "x/y%20z"));
        assert!(!parse("GET", "/apis/apps/v1", "").is_resource);
        assert_eq!(parse("DELETE", "/api/v1/namespaces/a/pods", "").verb, "deletecollection");
    }

    #[test]
    fn queries() {
        let query = Query::parse("labelSelector=a%3Db%2Cc&watch=1&command=a&command=b+c");
        assert_eq!(query.get("labelSelector"), "a=b,c");
        assert!(query.flag("watch") && !query.flag("follow"));
        assert_eq!(query.all("command").collect::<Vec<_>>(), ["a", "b c"]);
        assert_eq!(percent_decode("100%"), "100%");
    }
}
