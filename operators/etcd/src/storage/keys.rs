//! Encryption keys of backups in a user's Secret. Pure.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::digest::{SHA256, digest};

use super::credentials::{SecretData, SecretFault};
use super::snapshot::hex;

/// Length of a key in bytes, for AES-256.
pub(super) const KEY: usize = 32;
/// Entry of the Secret with the key where the spec names none.
pub const DEFAULT_ENTRY: &str = "key";
/// Length of the key id in bytes: two keys of one Secret never share one, and it does not reveal the key.
pub(super) const ID: usize = 8;
/// Hash prefix of the key id, so that it differs from any other hash of the key.
const ID_OF: &[u8] = b"etcd backup key\0";

#[derive(Clone)]
pub struct Key {
    pub(super) bytes: [u8; KEY],
    pub(super) id: [u8; ID],
}

// Keys are never printed.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({})", self.name())
    }
}

impl Key {
    pub(super) fn new(bytes: [u8; KEY]) -> Self {
        let hash = digest(&SHA256, &[ID_OF, &bytes].concat());
        let mut id = [0; ID];
        id.copy_from_slice(&hash.as_ref()[..ID]);
        Self { bytes, id }
    }

    /// Id of the key: the same for equal keys in any Secret.
    #[must_use]
    pub fn name(&self) -> String {
        hex(&self.id)
    }
}

/// All keys of a Secret: older backups need the old ones.
#[derive(Debug, Clone)]
pub struct Keys {
    secret: String,
    /// The entry used for encryption.
    entry: String,
    by_entry: BTreeMap<String, Key>,
}

impl Keys {
    /// Reads the keys. Other entries that are not keys are ignored.
    /// # Errors
    /// When the entry used for encryption is missing or invalid.
    pub fn read(secret: &str, entry: Option<&str>, data: &SecretData) -> Result<Self, SecretFault> {
        let entry = entry.filter(|entry| !entry.is_empty()).unwrap_or(DEFAULT_ENTRY);
        let fault = |what: String| SecretFault { secret: secret.to_owned(), what };
        let bytes = data.get(entry).ok_or_else(|| {
            fault(format!("key {entry} is missing, expected the encryption key of backups"))
        })?;
        parse(bytes).ok_or_else(|| {
            fault(format!(
                "key {entry}: invalid length, expected {KEY} bytes or the base64 of {KEY} bytes; create it \
                 with `openssl rand -base64 {KEY}`"
            ))
        })?;
        let by_entry =
            data.iter().filter_map(|(name, bytes)| Some((name.clone(), Key::new(parse(bytes)?)))).collect();
        Ok(Self { secret: secret.to_owned(), entry: entry.to_owned(), by_entry })
    }

    /// The key used for encryption.
    #[must_use]
    pub fn current(&self) -> Option<&Key> {
        self.by_entry.get(&self.entry)
    }

    /// The key with this id.
    pub(super) fn find(&self, id: [u8; ID]) -> Option<&Key> {
        self.by_entry.values().find(|key| key.id == id)
    }

    /// The key ids, for error messages.
    pub(super) fn list(&self) -> String {
        let all: Vec<String> =
            self.by_entry.iter().map(|(entry, key)| format!("{} (entry {entry})", key.name())).collect();
        format!("Secret {} has {}", self.secret, all.join(", "))
    }
}

fn parse(bytes: &[u8]) -> Option<[u8; KEY]> {
    if let Ok(raw) = bytes.try_into() {
        return Some(raw);
    }
    BASE64_STANDARD.decode(bytes.trim_ascii()).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(pairs: &[(&str, &[u8])]) -> SecretData {
        pairs.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect()
    }

    #[test]
    fn a_key_is_raw_or_in_base64_and_is_called_the_same() {
        let text = format!("{}\n", BASE64_STANDARD.encode([7; KEY]));
        let raw = Keys::read("k", None, &data(&[("key", &[7; KEY])])).unwrap();
        let encoded = Keys::read("k", None, &data(&[("key", text.as_bytes())])).unwrap();
        assert_eq!(raw.current().unwrap().name(), encoded.current().unwrap().name());
        assert!(!format!("{raw:?}").contains("7, 7"), "{raw:?}");
    }

    #[test]
    fn old_keys_stay_beside_the_one_to_encrypt_with() {
        let both = data(&[("old", &[1; KEY]), ("new", &[2; KEY]), ("note", b"of 2026")]);
        let keys = Keys::read("k", Some("new"), &both).unwrap();
        assert_eq!(keys.current().unwrap().name(), Key::new([2; KEY]).name());
        assert!(keys.find(Key::new([1; KEY]).id).is_some() && keys.find(Key::new([3; KEY]).id).is_none());
        assert!(keys.list().contains("(entry old)") && !keys.list().contains("note"), "{}", keys.list());
    }

    #[test]
    fn errors_of_a_key_are_reported_with_its_entry() {
        let fault =
            |entry, pairs: &[(&str, &[u8])]| Keys::read("k", entry, &data(pairs)).unwrap_err().to_string();
        assert!(fault(None, &[]).starts_with("Secret k: key key is missing"));
        assert!(fault(Some("a"), &[("key", &[0; KEY])]).contains("key a is missing"));
        assert!(fault(None, &[("key", b"short")]).contains("key key: invalid length, expected 32 bytes"));
    }
}
