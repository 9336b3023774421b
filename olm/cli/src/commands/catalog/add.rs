//! `olm catalog add`: creates a CatalogSource.

use std::time::{Duration, Instant};

use kube::{Api, Client, api::PostParams};
use olm_api::{CatalogSource, CatalogSourceSpec, names};
use olm_engine::site::manager_namespace;

use super::sources::{Reading, Row, reading};
use crate::{
    args::{CatalogAddArgs, Global},
    commands::catalogs,
    context,
    exit::{Code, Failure},
    output::{Format, count, print_one},
    prose::printable,
    source::Remote,
};

/// Interval of polling for the state of the catalog.
const LOOK: Duration = Duration::from_millis(500);

pub async fn run(global: &Global, args: CatalogAddArgs) -> Result<(), Failure> {
    let Remote { name, spec } = Remote::parse(&args.source)?;
    let name = args.name.or(name).ok_or_else(|| {
        Failure::new(Code::Usage, format!("failed to derive a name from {}", args.source))
            .hint("set the name of the CatalogSource with --name NAME")
    })?;
    let spec = CatalogSourceSpec { priority: args.priority, secrets: args.pull_secret, ..spec };
    let namespace = global.namespace.as_deref().unwrap_or(manager_namespace());
    let mut wanted = CatalogSource::new(&name, spec);
    wanted.metadata.namespace = Some(namespace.to_owned());
    if args.dry_run {
        let format = match args.out.output {
            Format::Table | Format::Wide => Format::Yaml,
            format => format,
        };
        return print_one(&wanted, &format, &name, String::new);
    }
    let client = context::connect(global).await?;
    let api = Api::<CatalogSource>::namespaced(client.clone(), namespace);
    let catalog = format!("{namespace}/{name}");
    let (found, is_new) = create(&client, &api, &wanted, &catalog).await?;
    let done = if is_new {
        format!("created CatalogSource {catalog}")
    } else {
        format!("CatalogSource {catalog} already exists with this source")
    };
    if !args.wait.wait {
        return print_one(&Row::of(&found), &args.out.output, &name, || {
            format!(
                "{done}\n`olm catalog sources` shows its state, `olm search --catalog {catalog}` its packages"
            )
        });
    }
    eprintln!("{done}");
    let (source, packages) = ready(&api, &name, &catalog, args.wait.timeout).await?;
    print_one(&Row::of(&source), &args.out.output, &name, || {
        let packages = count(packages, "package");
        format!("catalog {catalog} is ready: {packages}\n`olm search --catalog {catalog}` lists them")
    })
}

/// Creates the object, or returns an existing one with the same source. `true` if it is new.
async fn create(
    client: &Client,
    api: &Api<CatalogSource>,
    wanted: &CatalogSource,
    catalog: &str,
) -> Result<(CatalogSource, bool), Failure> {
    let field_manager = Some(names::FIELD_MANAGER_CLI.to_owned());
    let params = PostParams { field_manager, ..PostParams::default() };
    match api.create(&params, wanted).await {
        Ok(created) => Ok((created, true)),
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            let found = api.get(wanted.metadata.name.as_deref().unwrap_or_default()).await?;
            let differences = differences(&found.spec, &wanted.spec);
            if differences.is_empty() {
                return Ok((found, false));
            }
            let message =
                format!("CatalogSource {catalog} exists with other settings: {}", differences.join("; "));
            Err(Failure::new(Code::Refused, message)
                .hint("choose another name with --name")
                .hint(format!("or remove the existing catalog with `olm catalog remove {catalog}`")))
        }
        Err(error) => Err(catalogs::failed(client, error).await),
    }
}

/// The requested fields that differ. Priority and secrets count only when requested.
fn differences(found: &CatalogSourceSpec, wanted: &CatalogSourceSpec) -> Vec<String> {
    let text = |value: &Option<String>| value.clone().filter(|text| !text.is_empty());
    let list = |names: &[String]| (!names.is_empty()).then(|| names.join(", "));
    let mut fields = vec![
        ("sourceType", Some(found.source_type.clone()), Some(wanted.source_type.clone())),
        ("image", text(&found.image), text(&wanted.image)),
        ("address", text(&found.address), text(&wanted.address)),
        ("url", text(&found.url), text(&wanted.url)),
        ("configMap", text(&found.config_map), text(&wanted.config_map)),
        ("directory", text(&found.directory), text(&wanted.directory)),
    ];
    if wanted.priority != 0 {
        fields.push(("priority", Some(found.priority.to_string()), Some(wanted.priority.to_string())));
    }
    if !wanted.secrets.is_empty() {
        fields.push(("secrets", list(&found.secrets), list(&wanted.secrets)));
    }
    let shown = |value: Option<String>| value.unwrap_or_else(|| "unset".to_owned());
    let changed = fields.into_iter().filter(|(_, found, wanted)| found != wanted);
    changed
        .map(|(field, found, wanted)| {
            format!("spec.{field} is {}, requested {}", shown(found), shown(wanted))
        })
        .collect()
}

/// Waits until the manager serves the catalog; returns the number of its packages too. A failure that a retry
/// does not resolve ends the wait.
async fn ready(
    api: &Api<CatalogSource>,
    name: &str,
    catalog: &str,
    timeout: Duration,
) -> Result<(CatalogSource, usize), Failure> {
    let start = Instant::now();
    let mut printed = String::new();
    loop {
        let seen = match api.get(name).await {
            Ok(source) => match reading(&source) {
                Reading::Ready(packages) => return Ok((source, packages)),
                Reading::Failed { message, temporary: false } => {
                    let text = format!("failed to read catalog {catalog}: {message}");
                    return Err(Failure::new(Code::Unexpected, text)
                        .hint("fix the cause; the manager retries automatically")
                        .hint(format!("or remove the catalog with `olm catalog remove {catalog}`")));
                }
                Reading::Failed { message, .. } => message,
                Reading::Pending(state) => state.to_owned(),
            },
            Err(error @ kube::Error::Api(_)) => return Err(error.into()),
            // The API server may be unreachable for a moment.
            Err(error) => error.to_string(),
        };
        if seen != printed {
            eprintln!("… catalog {catalog}: {}", printable(&seen));
            printed.clone_from(&seen);
        }
        if start.elapsed() >= timeout {
            let text =
                format!("timed out waiting for catalog {catalog} after {}s: {seen}", timeout.as_secs());
            return Err(Failure::new(Code::Timeout, text)
                .hint("the manager continues; `olm catalog sources` shows the state")
                .hint("check the manager: olm self status"));
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(source: &str) -> CatalogSourceSpec {
        Remote::parse(source).unwrap().spec
    }

    #[test]
    fn an_existing_catalog_is_compared_by_its_source() {
        let image = spec("quay.io/acme/catalog:v1");
        let edited = CatalogSourceSpec {
            priority: 5,
            display_name: Some("Acme".into()),
            update_strategy: None,
            ..image.clone()
        };
        assert!(differences(&edited, &image).is_empty());
        assert_eq!(
            differences(&image, &edited),
            ["spec.priority is 0, requested 5"],
            "a requested priority counts"
        );
        assert_eq!(
            differences(&image, &spec("quay.io/acme/catalog:v2")),
            ["spec.image is quay.io/acme/catalog:v1, requested quay.io/acme/catalog:v2"]
        );
        let secret = CatalogSourceSpec { secrets: vec!["pull".into()], ..image.clone() };
        assert!(differences(&secret, &image).is_empty());
        assert_eq!(differences(&image, &secret), ["spec.secrets is unset, requested pull"]);
        let web = differences(&image, &spec("https://example.com/all"));
        assert_eq!(web.len(), 3, "{web:?}");
        assert_eq!(web[2], "spec.url is unset, requested https://example.com/all");
    }
}
