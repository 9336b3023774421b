//! The document that an operator prints about itself, from which bundles are generated.

use serde_json::{Value, json};

use crate::operator::{Operator, PORT};
use crate::rights;

/// Version of the document. Readers ignore unknown fields.
const SCHEMA: &str = "olm.dev/describe/v1";

/// The description of an operator.
pub(crate) fn describe(operator: &Operator) -> Value {
    let kinds = operator.kinds.iter().map(|kind| {
        let owns = kind.owned.iter().map(|owned| {
            let of = &owned.resource;
            json!({ "group": of.group, "version": of.version, "kind": of.kind })
        });
        json!({
            "crd": kind.definition,
            "schema": kind.schema,
            "owns": owns.collect::<Vec<_>>(),
            "cleanup": false,
        })
    });
    json!({
        "schema": SCHEMA,
        "name": operator.name,
        "version": operator.version,
        "kinds": kinds.collect::<Vec<_>>(),
        "rights": rights::rights(&operator.kinds),
        "webhooks": [],
        "env": [],
        "ports": { "http": PORT },
    })
}
