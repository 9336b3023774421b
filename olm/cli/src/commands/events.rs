//! `olm events`.

use super::installed;
use crate::{
    args::{EventsArgs, Global},
    exit::Failure,
    output::{Listing, age_of},
};

pub async fn run(global: &Global, args: EventsArgs) -> Result<(), Failure> {
    let (client, operator) = installed::find(global, &args.name).await?;
    let mut events = olm_ops::list_events(&client, &operator.namespace, &operator.name).await?;
    events.retain(|event| !args.warnings || event.type_ == "Warning");
    Listing {
        items: &events,
        columns: &[
            ("AGE", |e| age_of(&e.time)),
            ("TYPE", |e| e.type_.clone()),
            ("REASON", |e| e.reason.clone()),
            ("OBJECT", |e| e.object.clone()),
            ("MESSAGE", |e| e.message.clone()),
        ],
        wide: &[("TIME", |e| e.time.clone())],
        name: |e| e.object.clone(),
        empty: "No events found; the cluster retains events for about an hour.",
    }
    .print(&args.out)
}
