//! `olm.constraint`: conditions that a bundle's dependencies must meet.

use olm_constraint::{Constraint, ConstraintError, Problem};
use serde_json::Value;

use super::finding::PartFindings;

pub(super) fn check(value: &Value, findings: &mut PartFindings<'_>) {
    for ConstraintError { field, problem } in Constraint::check(value).err().into_iter().flatten() {
        let mut field = if field.is_empty() { "value".to_owned() } else { format!("value.{field}") };
        let mut fix = problem.fix();
        if let Problem::UnknownField { key, known } = &problem {
            if let Some(near) = findings.near(key, known.iter().copied()) {
                fix = format!("did you mean {near}?");
            }
            field = crate::yaml::join(&field, key);
        }
        findings.error(code(&problem), field, problem.to_string(), fix);
    }
}

fn code(problem: &Problem) -> &'static str {
    match problem {
        Problem::TooLarge => "constraint-too-large",
        Problem::TooDeep => "constraint-too-deep",
        Problem::UnknownField { .. } => "constraint-key-unknown",
        Problem::Empty | Problem::NoConstraints => "constraint-empty",
        Problem::Ambiguous(_) => "constraint-ambiguous",
        Problem::Missing => "constraint-incomplete",
        Problem::Range { .. } => "dependency-range-invalid",
        Problem::Cel(_) => "constraint-cel-invalid",
        Problem::NoMap(_) | Problem::NoText => "constraint-shape",
    }
}
