//! All packages of the catalog requested at once.

use std::collections::BTreeSet;

use olm_resolver::{Code, Facts, Request, resolve};

use crate::{ask, id, load, request};

/// Real packages hardly interact: each gets the same as alone, except for an older version where another
/// package cannot use the newest: dbaas-operator needs ack-rds-controller 0.1.3, and awss3-operator-registry
/// needs APIs that lib-bucket-provisioner 1.0.0 provides and 2.0.0 does not. OLM has the same result.
#[test]
fn every_package_at_once_is_every_package_alone() {
    let Some(universe) = load() else { return };
    let names: Vec<String> = universe.catalog(&id()).unwrap().packages.keys().cloned().collect();
    let requests: Vec<Request> = names.iter().map(|name| request(name, None)).collect();
    // when all Subscriptions are in one namespace
    let resolution = resolve(&universe, &requests, &Facts::default());
    let mut conflicts = BTreeSet::new();
    let mut older = Vec::new();
    for (name, item) in names.iter().zip(&resolution.items) {
        let alone = ask(&universe, name, None, None);
        match (item, &alone) {
            (Ok(item), Ok(alone)) if item.chosen == alone.chosen => {}
            (Ok(item), Ok(alone)) => {
                // the better version is reported with its reason
                let better = item.rejected.iter().find(|r| r.name == alone.chosen.name).unwrap();
                assert!(
                    matches!(better.code, Code::ApiOwnedBy | Code::RequestsConflict),
                    "{name}: {better:?}"
                );
                older.push(format!("{} rather than {}", item.chosen.name, alone.chosen.name));
            }
            (Err(why), Err(alone)) => assert_eq!(why.code, alone.code, "{name}"),
            (Err(why), Ok(_)) => {
                assert_eq!(why.code, Code::RequestsConflict, "{name}: {}", why.text(100));
                conflicts.insert(why.summary.clone());
            }
            (Ok(item), Err(_)) => panic!("{name}: {:?}", item.chosen),
        }
    }
    println!("{} packages; older ones: {older:#?}", names.len());
    let expected = [
        "ack-rds-controller.v0.1.3 rather than ack-rds-controller.v1.4.12",
        "lib-bucket-provisioner.v1.0.0 rather than lib-bucket-provisioner.v2.0.0",
    ];
    assert_eq!(older, expected);
    assert!(conflicts.is_empty(), "{conflicts:#?}");
}
