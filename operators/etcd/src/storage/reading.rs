//! Reads an object completely, decrypted if it is encrypted.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};

use super::keys::Keys;
use super::seal::Opener;
use super::upload::Failure;

struct Reading {
    pieces: BoxStream<'static, Result<Bytes, String>>,
    /// None after the end.
    opener: Option<Opener>,
    ready: VecDeque<Bytes>,
    received: u64,
    size: u64,
}

/// The bytes of an object with a known size. A broken connection is distinguished from an object that is too
/// short.
pub(super) fn whole(
    pieces: BoxStream<'static, Result<Bytes, String>>,
    size: u64,
    keys: Option<Arc<Keys>>,
) -> BoxStream<'static, Result<Bytes, Failure>> {
    let begun =
        Reading { pieces, opener: Some(Opener::new(keys)), ready: VecDeque::new(), received: 0, size };
    futures::stream::try_unfold(begun, |mut reading| async move {
        let next = reading.next().await?;
        Ok::<_, Failure>(next.map(|piece| (piece, reading)))
    })
    .boxed()
}

impl Reading {
    async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Ok(Some(piece));
            }
            let Some(opener) = &mut self.opener else { return Ok(None) };
            let opened = match self.pieces.next().await {
                Some(piece) => {
                    let piece = piece.map_err(Failure::Source)?;
                    self.received += piece.len() as u64;
                    opener.push(&piece)?
                }
                None if self.received < self.size => {
                    return Err(Failure::Source(format!(
                        "received {} of {} bytes",
                        self.received, self.size
                    )));
                }
                None => self.opener.take().map_or(Ok(Vec::new()), Opener::finish)?,
            };
            self.ready.extend(opened.into_iter().filter(|piece| !piece.is_empty()));
        }
    }
}
