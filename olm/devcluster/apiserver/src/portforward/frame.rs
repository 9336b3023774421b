//! Encodes and decodes frames of SPDY/3.1 as kubectl uses them, without I/O.
//!
//! There is no flow control: neither kubectl nor the kubelet sends or obeys WINDOW_UPDATE (moby/spdystream).
//! Backpressure comes from a session that stops reading.

use bytes::{Buf as _, Bytes, BytesMut};

use super::headers::{Headers, Inflater};

/// Longest control frame that is accepted.
const MAX_CONTROL: usize = 16 << 10;
/// Most bytes of a DATA frame in one event.
pub(super) const PIECE: usize = 16 << 10;
/// Length of a frame header.
const HEAD: usize = 8;
/// The bit that marks a control frame; the others of a DATA frame are the stream's number.
const CONTROL: u32 = 1 << 31;
const FIN: u8 = 1;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;

/// Reason for the reset of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reset {
    Protocol = 1,
    Refused = 3,
    Cancel = 5,
}

/// A protocol violation of the client. It ends the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Violation {
    #[error("unsupported version of SPDY")]
    Version,
    #[error("frame or header block is too long")]
    TooLong,
    #[error("invalid control frame")]
    Frame,
    #[error("stream id zero is disallowed")]
    StreamZero,
    #[error("invalid compression of a header block")]
    Compression,
    #[error("invalid header block")]
    Headers,
}

/// A decoded frame from the client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    Open {
        stream: u32,
        fin: bool,
        headers: Headers,
    },
    /// A DATA frame, or a piece of one: `fin` comes with the last piece.
    Data {
        stream: u32,
        bytes: Bytes,
        fin: bool,
    },
    Reset {
        stream: u32,
    },
    Ping {
        id: u32,
    },
    GoAway,
    /// An ignored frame, such as SETTINGS and WINDOW_UPDATE.
    Other,
}

/// The part of a DATA frame that has not arrived.
struct Remainder {
    stream: u32,
    length: usize,
    fin: bool,
}

/// Decodes frames from a buffer.
#[derive(Default)]
pub(super) struct Decoder {
    inflater: Inflater,
    remainder: Option<Remainder>,
}

impl Decoder {
    /// The next event; `None` when more bytes are needed, at most [`HEAD`] and [`MAX_CONTROL`].
    pub(super) fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Event>, Violation> {
        if self.remainder.is_some() {
            return Ok(self.piece(buffer));
        }
        let Some((first, second)) = head(buffer) else { return Ok(None) };
        let length = usize::try_from(second & 0x00ff_ffff).map_err(|_| Violation::TooLong)?;
        let flags = second.to_be_bytes()[0];
        if first & CONTROL == 0 {
            let stream = nonzero(first)?;
            buffer.advance(HEAD);
            self.remainder = Some(Remainder { stream, length, fin: flags & FIN != 0 });
            return Ok(self.piece(buffer));
        }
        if (first & !CONTROL) >> 16 != 3 {
            return Err(Violation::Version);
        }
        if length > MAX_CONTROL {
            return Err(Violation::TooLong);
        }
        if buffer.len() < HEAD + length {
            return Ok(None);
        }
        buffer.advance(HEAD);
        let kind = u16::try_from(first & 0xffff).map_err(|_| Violation::Frame)?;
        self.control(kind, flags, buffer.split_to(length).freeze()).map(Some)
    }

    fn piece(&mut self, buffer: &mut BytesMut) -> Option<Event> {
        let remainder = self.remainder.as_mut()?;
        let length = remainder.length.min(buffer.len()).min(PIECE);
        if length == 0 && remainder.length > 0 {
            return None;
        }
        remainder.length -= length;
        let last = remainder.length == 0;
        // Copied: a slice of the buffer would retain all of it as long as this piece is queued.
        let bytes = Bytes::copy_from_slice(&buffer[..length]);
        buffer.advance(length);
        let event = Event::Data { stream: remainder.stream, bytes, fin: remainder.fin && last };
        if last {
            self.remainder = None;
        }
        Some(event)
    }

    fn control(&mut self, kind: u16, flags: u8, mut payload: Bytes) -> Result<Event, Violation> {
        let fin = flags & FIN != 0;
        let number = |payload: &mut Bytes| payload.try_get_u32().map_err(|_| Violation::Frame);
        match kind {
            SYN_STREAM => {
                let stream = nonzero(number(&mut payload)?)?;
                // The associated stream, priority and slot.
                payload.try_copy_to_slice(&mut [0; 6]).map_err(|_| Violation::Frame)?;
                Ok(Event::Open { stream, fin, headers: self.inflater.headers(&payload)? })
            }
            SYN_REPLY | HEADERS => {
                let stream = nonzero(number(&mut payload)?)?;
                // The block is part of the compression context.
                self.inflater.headers(&payload)?;
                Ok(Event::Data { stream, bytes: Bytes::new(), fin })
            }
            RST_STREAM => Ok(Event::Reset { stream: nonzero(number(&mut payload)?)? }),
            PING => Ok(Event::Ping { id: number(&mut payload)? }),
            GOAWAY => Ok(Event::GoAway),
            _ => Ok(Event::Other),
        }
    }
}

fn head(buffer: &BytesMut) -> Option<(u32, u32)> {
    let mut head = buffer.get(..HEAD)?;
    Some((head.get_u32(), head.get_u32()))
}

fn nonzero(stream: u32) -> Result<u32, Violation> {
    match stream & !CONTROL {
        0 => Err(Violation::StreamZero),
        stream => Ok(stream),
    }
}

/// A DATA frame; without bytes it ends the stream.
pub(super) fn data(stream: u32, bytes: &[u8]) -> Vec<u8> {
    let flags = if bytes.is_empty() { u32::from(FIN) << 24 } else { 0 };
    let length = u32::try_from(bytes.len()).unwrap_or_default();
    let mut frame = Vec::with_capacity(HEAD + bytes.len());
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(&(flags | length).to_be_bytes());
    frame.extend_from_slice(bytes);
    frame
}

pub(super) fn reply(stream: u32, block: &[u8]) -> Vec<u8> {
    control(SYN_REPLY, &[&stream.to_be_bytes(), block])
}

pub(super) fn reset(stream: u32, why: Reset) -> Vec<u8> {
    control(RST_STREAM, &[&stream.to_be_bytes(), &(why as u32).to_be_bytes()])
}

pub(super) fn ping(id: u32) -> Vec<u8> {
    control(PING, &[&id.to_be_bytes()])
}

/// GOAWAY after a violation.
pub(super) fn go_away(last_stream: u32) -> Vec<u8> {
    control(GOAWAY, &[&last_stream.to_be_bytes(), &1_u32.to_be_bytes()])
}

fn control(kind: u16, parts: &[&[u8]]) -> Vec<u8> {
    let payload = parts.concat();
    let length = u32::try_from(payload.len()).unwrap_or_default();
    let mut frame = Vec::with_capacity(HEAD + payload.len());
    frame.extend_from_slice(&(CONTROL | 3 << 16 | u32::from(kind)).to_be_bytes());
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(&payload);
    frame
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::{super::headers::tests::StoredBlocks, *};

    /// SYN_STREAM as a client sends it.
    pub(in crate::portforward) fn open(
        blocks: &mut StoredBlocks,
        stream: u32,
        headers: &[(&str, &str)],
    ) -> Vec<u8> {
        control(SYN_STREAM, &[&stream.to_be_bytes(), &[0; 6], &blocks.block(headers)])
    }

    /// Feeds bytes in pieces of a given size and collects the events up to the first violation.
    fn decode(bytes: &[u8], size: usize) -> (Vec<Event>, Option<Violation>) {
        let (mut decoder, mut buffer, mut events) = (Decoder::default(), BytesMut::new(), Vec::new());
        for piece in bytes.chunks(size.max(1)) {
            buffer.extend_from_slice(piece);
            loop {
                match decoder.next(&mut buffer) {
                    Ok(Some(event)) => events.push(event),
                    Ok(None) => break,
                    Err(violation) => return (events, Some(violation)),
                }
            }
            assert!(buffer.len() < HEAD + MAX_CONTROL + size, "the decoder waits for too much");
        }
        (events, None)
    }

    /// Joins the pieces of DATA frames.
    fn joined(events: Vec<Event>) -> Vec<Event> {
        let mut all: Vec<Event> = Vec::new();
        for event in events {
            match (all.last_mut(), event) {
                (
                    Some(Event::Data { stream: before, bytes, fin: fin_before @ false }),
                    Event::Data { stream, bytes: more, fin },
                ) if *before == stream => {
                    *bytes = [&bytes[..], &more[..]].concat().into();
                    *fin_before = fin;
                }
                (_, event) => all.push(event),
            }
        }
        all
    }

    #[test]
    fn frames_of_a_client() {
        let mut blocks = StoredBlocks::default();
        let headers = [("streamtype", "data"), ("port", "80"), ("requestid", "7")];
        let bytes = [
            open(&mut blocks, 1, &headers),
            data(1, b"hello"),
            data(1, b""),
            reset(1, Reset::Cancel),
            ping(5),
            control(4, &[&[0, 0, 0, 0]]),
            control(9, &[&[0; 8]]),
            open(&mut blocks, 3, &[]),
            control(GOAWAY, &[&[0; 8]]),
        ]
        .concat();
        let (events, violation) = decode(&bytes, bytes.len());
        assert_eq!(violation, None);
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(
            events,
            [
                Event::Open { stream: 1, fin: false, headers },
                Event::Data { stream: 1, bytes: Bytes::from_static(b"hello"), fin: false },
                Event::Data { stream: 1, bytes: Bytes::new(), fin: true },
                Event::Reset { stream: 1 },
                Event::Ping { id: 5 },
                Event::Other,
                Event::Other,
                Event::Open { stream: 3, fin: false, headers: Headers::new() },
                Event::GoAway,
            ]
        );
    }

    #[test]
    fn protocol_violations() {
        let cases = [
            (control(SYN_STREAM, &[&[0; 10]]), Violation::StreamZero),
            (control(SYN_STREAM, &[&[0, 0, 0, 1]]), Violation::Frame),
            (control(SYN_STREAM, &[&[0, 0, 0, 1], &[0; 6]]), Violation::Compression),
            (control(RST_STREAM, &[&[0; 8]]), Violation::StreamZero),
            (control(PING, &[&[0; 3]]), Violation::Frame),
            (control(PING, &[&[0; MAX_CONTROL + 1]]), Violation::TooLong),
            (data(0, b"x"), Violation::StreamZero),
            (vec![0x80, 2, 0, 6, 0, 0, 0, 0], Violation::Version),
        ];
        for (bytes, expected) in cases {
            assert_eq!(decode(&bytes, 1000).1, Some(expected));
        }
    }

    /// Frames that are syntactically valid, with arbitrary content.
    fn anything() -> impl Strategy<Value = Vec<u8>> {
        let payload = prop::collection::vec(any::<u8>(), 0..64);
        let controls = (0..12_u16, any::<u8>(), payload.clone()).prop_map(|(kind, flags, payload)| {
            let mut frame = control(kind, &[&payload]);
            frame[4] = flags;
            frame
        });
        let opened = (1..9_u32, payload.clone()).prop_map(|(stream, garbage)| {
            let block = [&StoredBlocks::default().block(&[("a", "b")])[..6], &garbage].concat();
            control(SYN_STREAM, &[&stream.to_be_bytes(), &[0; 6], &block])
        });
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            controls,
            opened,
            (any::<u32>(), payload).prop_map(|(stream, bytes)| data(stream, &bytes)),
        ]
    }

    proptest! {
        #[test]
        fn hostile_bytes_end_in_events_or_a_violation(
            frames in prop::collection::vec(anything(), 0..8),
            size in 1..300_usize,
        ) {
            let bytes = frames.concat();
            let (whole, violation) = decode(&bytes, bytes.len());
            // The result does not depend on the boundaries of reads.
            let (pieces, same) = decode(&bytes, size);
            prop_assert_eq!(violation, same);
            prop_assert_eq!(joined(whole), joined(pieces));
        }

        #[test]
        fn data_arrives_whole(payload in prop::collection::vec(any::<u8>(), 1..100_000), size in 1..40_000_usize) {
            let (events, violation) = decode(&[data(7, &payload), data(7, b"")].concat(), size);
            prop_assert_eq!(violation, None);
            prop_assert_eq!(joined(events), vec![Event::Data { stream: 7, bytes: payload.into(), fin: true }]);
        }
    }
}
