//! Encryption of stored objects: AES-256-GCM over chunks in the STREAM construction. Any change, omission,
//! reordering, repetition or truncation is detected.
//!
//! The format, without trailing data:
//!
//! | bytes | |
//! |---|---|
//! | 8 | `OLMETCD` and the version, 1 |
//! | 8 | name of the key |
//! | 32 | salt, random |
//! | 65,536 + 16 each, the last one shorter | chunks with their tags |
//!
//! Each object has its own key, derived by HKDF-SHA-256 from the user's key and the salt, with the whole header as
//! info. The nonce of a chunk has its number and whether it is the last one. There is always a last chunk.

use std::sync::Arc;

use bytes::Bytes;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom, SystemRandom};

use super::keys::{ID, Key, Keys};
use super::snapshot::{Damage, hex};
use super::upload::Failure;

/// Magic of an encrypted object. An unencrypted one is a bolt file, with a page number in this place.
const MAGIC: [u8; 8] = *b"OLMETCD\x01";
const SALT: usize = 32;
const HEADER: usize = MAGIC.len() + ID + SALT;
/// Plaintext bytes of a chunk: small enough to buffer, large enough for negligible tag overhead.
const CHUNK: usize = 64 << 10;
const TAG: usize = 16;

/// The key of one object.
fn derived(key: &Key, header: &[u8]) -> Option<LessSafeKey> {
    let secret = Salt::new(HKDF_SHA256, header.get(HEADER - SALT..)?).extract(&key.bytes);
    let info = [header];
    let key = secret.expand(&info, &AES_256_GCM).ok()?;
    Some(LessSafeKey::new(UnboundKey::from(key)))
}

/// Nonce of a chunk by its number: unique within an object.
fn nonce(number: u64, last: bool) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[3..NONCE_LEN - 1].copy_from_slice(&number.to_be_bytes());
    bytes[NONCE_LEN - 1] = u8::from(last);
    Nonce::assume_unique_for_key(bytes)
}

/// Encrypts a stream; buffers one chunk.
pub(super) struct Sealer {
    key: LessSafeKey,
    header: Option<Bytes>,
    chunk: Vec<u8>,
    number: u64,
}

impl Sealer {
    pub(super) fn new(key: &Key) -> Result<Self, Failure> {
        let broken = || Failure::Sealed("failed to generate random bytes for encryption".into());
        let mut header = [MAGIC.as_slice(), &key.id, &[0; SALT]].concat();
        SystemRandom::new().fill(&mut header[HEADER - SALT..]).map_err(|_| broken())?;
        let derived = derived(key, &header).ok_or_else(broken)?;
        Ok(Self {
            key: derived,
            header: Some(header.into()),
            chunk: Vec::with_capacity(CHUNK + TAG),
            number: 0,
        })
    }

    /// Ciphertext for the next piece.
    pub(super) fn push(&mut self, mut piece: &[u8]) -> Result<Vec<Bytes>, Failure> {
        let mut out: Vec<Bytes> = self.header.take().into_iter().collect();
        while !piece.is_empty() {
            // A full chunk waits for the next byte: it may be the last one.
            if self.chunk.len() == CHUNK {
                out.push(self.seal(false)?);
            }
            let (now, rest) = piece.split_at(piece.len().min(CHUNK - self.chunk.len()));
            self.chunk.extend_from_slice(now);
            piece = rest;
        }
        Ok(out)
    }

    /// Ciphertext at the end.
    pub(super) fn finish(mut self) -> Result<Vec<Bytes>, Failure> {
        let header = self.header.take();
        let last = self.seal(true)?;
        Ok(header.into_iter().chain([last]).collect())
    }

    fn seal(&mut self, last: bool) -> Result<Bytes, Failure> {
        let mut chunk = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK + TAG));
        let nonce = nonce(self.number, last);
        let sealed = self.key.seal_in_place_append_tag(nonce, Aad::empty(), &mut chunk);
        sealed.map_err(|_| Failure::Sealed("failed to encrypt a chunk".into()))?;
        self.number += 1;
        Ok(chunk.into())
    }
}

/// Decrypts a stream from a store, or passes an unencrypted one through.
pub(super) struct Opener {
    keys: Option<Arc<Keys>>,
    state: State,
    /// Received bytes that are not passed on yet.
    held: Vec<u8>,
    /// Processed bytes, header included, as stored.
    done: u64,
}

enum State {
    Beginning,
    Plain,
    Sealed { key: Box<LessSafeKey>, number: u64 },
}

impl Opener {
    /// With keys, unencrypted objects are rejected: write access to the store must not decide what is
    /// restored.
    pub(super) const fn new(keys: Option<Arc<Keys>>) -> Self {
        Self { keys, state: State::Beginning, held: Vec::new(), done: 0 }
    }

    pub(super) fn push(&mut self, piece: &Bytes) -> Result<Vec<Bytes>, Failure> {
        if matches!(self.state, State::Plain) {
            return Ok(vec![piece.clone()]);
        }
        self.held.extend_from_slice(piece);
        if matches!(self.state, State::Beginning) && !self.begin()? {
            return Ok(Vec::new());
        }
        let State::Sealed { key, number } = &mut self.state else {
            return Ok(vec![std::mem::take(&mut self.held).into()]);
        };
        let mut out = Vec::new();
        let mut at = 0;
        // Only the end identifies the last chunk.
        while self.held.len() - at > CHUNK + TAG {
            let mut chunk = self.held[at..at + CHUNK + TAG].to_vec();
            let opened = key.open_in_place(nonce(*number, false), Aad::empty(), &mut chunk);
            opened.map_err(|_| Damage::Changed(self.done))?;
            chunk.truncate(CHUNK);
            out.push(chunk.into());
            at += CHUNK + TAG;
            self.done += (CHUNK + TAG) as u64;
            *number += 1;
        }
        self.held.drain(..at);
        Ok(out)
    }

    /// The rest at the end of the stream.
    pub(super) fn finish(mut self) -> Result<Vec<Bytes>, Failure> {
        if matches!(self.state, State::Beginning) {
            if self.held.starts_with(&MAGIC) {
                return Err(Damage::Unended(self.held.len() as u64).into());
            }
            self.plain()?;
        }
        let State::Sealed { key, number } = &self.state else { return Ok(vec![self.held.into()]) };
        let all = self.done + self.held.len() as u64;
        let mut chunk = self.held.clone();
        if key.open_in_place(nonce(*number, true), Aad::empty(), &mut chunk).is_ok() {
            chunk.truncate(chunk.len() - TAG);
            return Ok(vec![chunk.into()]);
        }
        // Cut between two chunks: this one is valid, but not the last.
        let cut = self.held.len() < TAG
            || key.open_in_place(nonce(*number, false), Aad::empty(), &mut self.held.clone()).is_ok();
        Err(if cut { Damage::Unended(all) } else { Damage::Changed(self.done) }.into())
    }

    /// False while the header is incomplete.
    fn begin(&mut self) -> Result<bool, Failure> {
        let known = self.held.len().min(MAGIC.len());
        if self.held[..known] != MAGIC[..known] {
            self.plain()?;
            return Ok(true);
        }
        if self.held.len() < HEADER {
            return Ok(false);
        }
        let mut id = [0; ID];
        id.copy_from_slice(&self.held[MAGIC.len()..MAGIC.len() + ID]);
        let keys = self.keys.clone().ok_or_else(|| {
            Failure::Sealed(format!(
                "the snapshot is encrypted with key {}; set spec.encryption.secret to the Secret with this \
                 key",
                hex(&id)
            ))
        })?;
        let key = keys.find(id).ok_or_else(|| {
            Failure::Sealed(format!("the snapshot is encrypted with key {}, but {}", hex(&id), keys.list()))
        })?;
        let key = derived(key, &self.held[..HEADER])
            .ok_or_else(|| Failure::Sealed("failed to derive the key of the snapshot".into()))?;
        self.held.drain(..HEADER);
        self.done = HEADER as u64;
        self.state = State::Sealed { key: Box::new(key), number: 0 };
        Ok(true)
    }

    fn plain(&mut self) -> Result<(), Failure> {
        if self.keys.is_some() {
            return Err(Damage::Plain.into());
        }
        self.state = State::Plain;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
