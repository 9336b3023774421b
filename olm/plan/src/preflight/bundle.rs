//! Whether the bundle can be installed here at all, and its deprecations.

use olm_bundle::RenderError;
use olm_version::{parse_lenient, precedence, shell_word};

use super::{Context, Report};
use crate::finding::{Finding, FindingCode};
use crate::json::text;

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    report.extend(not_renderable(context));
    report.extend(kubernetes_too_old(context));
    let deprecations = &context.input.resolved.deprecations;
    report.extend(deprecations.iter().map(|text| deprecated(context, text)));
}

fn not_renderable(context: &Context<'_>) -> Option<Finding> {
    let input = context.input;
    let error = input.rendered.err()?;
    let package = shell_word(&input.resolved.chosen.package);
    let (code, fix) = match error {
        RenderError::InstallMode { .. } if super::upgrade::watched_it(context) => (
            FindingCode::InstallModeRemoved,
            format!(
                "olm skip {} {} -n {}",
                input.subscription,
                shell_word(&input.resolved.chosen.version_text()),
                input.namespace
            ),
        ),
        RenderError::InstallMode { .. } => (
            FindingCode::UnsupportedInstallMode,
            format!("kubectl edit operatorgroup -n {}  # spec.targetNamespaces", input.namespace),
        ),
        _ => (FindingCode::BundleNotRenderable, format!("olm show {package}  # choose another version")),
    };
    Some(Finding::new(code, &input.resolved.chosen.name, error.to_string()).fix(fix))
}

fn kubernetes_too_old(context: &Context<'_>) -> Option<Finding> {
    let input = context.input;
    let minimum = Some(text(&input.bundle.csv_raw, "/spec/minKubeVersion")).filter(|t| !t.is_empty())?;
    let needed = parse_lenient(minimum).ok()?;
    let have = input.facts.kubernetes.as_ref()?;
    let plain = olm_version::Version::new(have.major, have.minor, have.patch);
    precedence(&plain, &needed).is_lt().then(|| {
        let text = format!(
            "the bundle requires Kubernetes {needed} or newer (spec.minKubeVersion); this cluster runs {have}"
        );
        Finding::new(FindingCode::KubernetesTooOld, &input.resolved.chosen.name, text).fix(format!(
            "olm show {}  # choose an older version",
            shell_word(&input.resolved.chosen.package)
        ))
    })
}

/// `what` is the catalog's message after the schema of its subject: `olm.channel/stable: use fast`.
fn deprecated(context: &Context<'_>, what: &str) -> Finding {
    let chosen = &context.input.resolved.chosen;
    let (code, subject) = if what.starts_with("olm.package") {
        (FindingCode::DeprecatedPackage, format!("package {}", chosen.package))
    } else if what.starts_with("olm.channel") {
        (FindingCode::DeprecatedChannel, format!("channel {} of package {}", chosen.channel, chosen.package))
    } else {
        (FindingCode::DeprecatedBundle, chosen.name.clone())
    };
    Finding::new(code, subject, format!("deprecated by the catalog: {what}"))
        .fix(format!("olm show {}", shell_word(&chosen.package)))
}
