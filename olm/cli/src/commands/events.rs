//! `olm events`.

use olm_ops::EventLine;

use super::installed;
use crate::{
    args::{EventsArgs, Global},
    exit::Failure,
    output::{Listing, age},
};

pub async fn run(global: &Global, args: EventsArgs) -> Result<(), Failure> {
    let (client, operator) = installed::find(global, &args.name).await?;
    let mut events = olm_ops::list_events(&client, &operator.namespace, &operator.name).await?;
    events.retain(|event| !args.warnings || event.type_ == "Warning");
    Listing {
        items: &events,
        columns: &[
            ("AGE", seen),
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

fn seen(event: &EventLine) -> String {
    event.time.parse().map(|time| age(time, jiff::Timestamp::now())).unwrap_or_default()
}
