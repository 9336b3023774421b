//! `format.dns1123Label().validate(text)` and the other formats.

use std::rc::Rc;

use super::super::signatures::FORMATS;
use super::super::value::{Outcome, Val};
use crate::names;

pub(super) fn call<'a>(name: &str, args: &[Val<'a>]) -> Option<Outcome<'a>> {
    Some(Ok(match (name, args) {
        ("format.named", [Val::Text(wanted)]) => {
            let found = FORMATS.into_iter().find(|name| *name == &**wanted);
            Val::Optional(found.map(|name| Rc::new(Val::Format(name))))
        }
        ("validate", [Val::Format(format), Val::Text(text)]) => {
            let wrong = wrong(format, text).map(|what| Rc::new(Val::list(vec![what.into()])));
            Val::Optional(wrong)
        }
        (name, []) => {
            let wanted = name.strip_prefix("format.")?;
            Val::Format(FORMATS.into_iter().find(|name| *name == wanted)?)
        }
        _ => return None,
    }))
}

/// The defect of a text, if any.
fn wrong(format: &str, text: &str) -> Option<String> {
    const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    // A prefix may end in a dash, because the generated name continues it.
    let whole = text.strip_suffix('-').unwrap_or(text);
    let (good, what) = match format {
        "dns1123Label" => (names::is_dns_label(text), LABEL),
        "dns1123LabelPrefix" => (names::is_dns_label(whole), LABEL),
        "dns1035Label" => (names::is_dns1035_label(text), names::DNS1035_LABEL),
        "dns1035LabelPrefix" => (names::is_dns1035_label(whole), names::DNS1035_LABEL),
        "dns1123Subdomain" => (names::is_dns_subdomain(text), names::DNS_SUBDOMAIN),
        "dns1123SubdomainPrefix" => (names::is_dns_subdomain(whole), names::DNS_SUBDOMAIN),
        "labelValue" => (names::is_label_value(text), VALUE),
        "qualifiedName" => (names::is_qualified_name(text), QUALIFIED),
        other => {
            let good = crate::schema::matches_format(other, text);
            return (!good).then(|| format!("invalid {other}"));
        }
    };
    (!good).then(|| what.to_owned())
}
