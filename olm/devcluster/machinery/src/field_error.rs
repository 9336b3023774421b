//! `Status` objects of field errors, in Kubernetes' wording.

use serde_json::{Value, json};

pub use olm_kube_schema::field_error::{ErrorKind, FieldError};

/// `Kind.group`, or only `Kind` in the core group: the type in messages.
fn qualified(group: &str, kind: &str) -> String {
    if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") }
}

/// The 422 `Status` for an invalid object.
pub fn invalid_status(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Value {
    let mut lines: Vec<String> = Vec::new();
    for error in errors {
        let line = error.to_string();
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let list = match lines.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    let mut details = json!({ "name": name, "group": group, "kind": kind });
    if group.is_empty() {
        details = json!({ "name": name, "kind": kind });
    }
    details["causes"] = errors.iter().map(FieldError::cause).collect();
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": format!("{} \"{name}\" is invalid: {list}", qualified(group, kind)),
        "reason": "Invalid",
        "details": details,
        "code": 422,
    })
}

/// `unknown field "spec.foo", unknown field "spec.bar"`; warnings use one header per path.
fn unknown_fields_text(paths: &[String]) -> String {
    let each: Vec<String> = paths.iter().map(|path| format!("unknown field \"{path}\"")).collect();
    each.join(", ")
}

/// The 400 `Status` for `fieldValidation=Strict`.
pub fn strict_decoding_status(version: &str, kind: &str, paths: &[String]) -> Value {
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: strict decoding error: {}",
            unknown_fields_text(paths)
        ),
        "reason": "BadRequest",
        "code": 400,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_status_lists_causes() {
        let errors = [FieldError::required("spec.a", ""), FieldError::invalid("spec.b", 1, "no")];
        let status = invalid_status("stable.example.com", "CronTab", "x", &errors);
        assert_eq!(
            status["message"],
            "CronTab.stable.example.com \"x\" is invalid: [spec.a: Required value, spec.b: Invalid value: 1: no]"
        );
        assert_eq!(status["details"]["causes"][1]["field"], "spec.b");
        assert_eq!(status["details"]["causes"][1]["reason"], "FieldValueInvalid");
        assert_eq!(status["code"], 422);
        let status = invalid_status("", "Pod", "x", &errors[..1]);
        assert_eq!(status["message"], "Pod \"x\" is invalid: spec.a: Required value");
    }

    #[test]
    fn strict_decoding_names_each_field() {
        let status = strict_decoding_status("v1", "CronTab", &["spec.foo".into(), "spec.bar".into()]);
        assert_eq!(
            status["message"],
            "CronTab in version \"v1\" cannot be handled as a CronTab: strict decoding error: \
             unknown field \"spec.foo\", unknown field \"spec.bar\""
        );
    }
}
