//! The part of etcd's messages that is needed to identify an operator's requests.

/// A requested change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A new member.
    Add {
        /// Its addresses.
        peer_urls: Vec<String>,
        /// As a learner.
        learner: bool,
    },
    /// Remove a member.
    Remove(u64),
    /// Change a member's addresses.
    Update(u64),
    /// Promote a learner.
    Promote(u64),
    /// Transfer leadership.
    MoveLeader(u64),
    /// Another change of the whole cluster: its name.
    Other(&'static str),
}

impl Change {
    /// From the path of a call and its body; `None` for an unaudited call.
    pub(super) fn of(path: &str, body: &[u8]) -> Option<Self> {
        let id = || varint_field(body, 1).unwrap_or_default();
        Some(match path {
            "/etcdserverpb.Cluster/MemberAdd" => {
                let texts = fields(body).into_iter().filter(|field| field.0 == 1);
                let peer_urls = texts
                    .filter_map(|(_, value)| match value {
                        Value::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
                        Value::Number(_) => None,
                    })
                    .collect();
                Self::Add { peer_urls, learner: varint_field(body, 2) == Some(1) }
            }
            "/etcdserverpb.Cluster/MemberRemove" => Self::Remove(id()),
            "/etcdserverpb.Cluster/MemberUpdate" => Self::Update(id()),
            "/etcdserverpb.Cluster/MemberPromote" => Self::Promote(id()),
            "/etcdserverpb.Maintenance/MoveLeader" => Self::MoveLeader(id()),
            "/etcdserverpb.Maintenance/Defragment" => Self::Other("Defragment"),
            "/etcdserverpb.Maintenance/Downgrade" => Self::Other("Downgrade"),
            "/etcdserverpb.KV/Put" => Self::Other("Put"),
            "/etcdserverpb.KV/DeleteRange" => Self::Other("DeleteRange"),
            "/etcdserverpb.KV/Txn" => Self::Other("Txn"),
            "/etcdserverpb.KV/Compact" => Self::Other("Compact"),
            _ => return None,
        })
    }

    /// Whether it changes membership.
    #[must_use]
    pub const fn is_membership(&self) -> bool {
        matches!(self, Self::Add { .. } | Self::Remove(_) | Self::Update(_) | Self::Promote(_))
    }
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of the single message in a gRPC body, as far as they are readable.
fn fields(body: &[u8]) -> Vec<(u64, Value<'_>)> {
    let mut rest = body.get(5..).unwrap_or_default();
    let mut found = Vec::new();
    while let Some(tag) = varint(&mut rest) {
        let value = match tag & 7 {
            0 => varint(&mut rest).map(Value::Number),
            2 => varint(&mut rest).and_then(|length| {
                let (bytes, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                rest = after;
                Some(Value::Bytes(bytes))
            }),
            _ => None,
        };
        let Some(value) = value else { break };
        found.push((tag >> 3, value));
    }
    found
}

fn varint_field(body: &[u8], number: u64) -> Option<u64> {
    fields(body).into_iter().find_map(|(field, value)| match value {
        Value::Number(value) if field == number => Some(value),
        _ => None,
    })
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
