//! A text read piece by piece: a catalog may exceed a reasonable amount of memory.

use std::io::{self, Read};

/// Minimum read size.
const PIECE: usize = 1 << 20;

/// The part of a text that is in memory.
pub(crate) struct Window<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Start of the unconsumed text.
    start: usize,
    /// Offset of `start` in the text.
    offset: u64,
    /// Remaining bytes to read.
    left: u64,
    ended: bool,
    line: usize,
    column: usize,
}

impl<R: Read> Window<R> {
    /// A window over the next `length` bytes of a reader at `offset` of its text.
    pub fn new(reader: R, offset: u64, length: u64) -> Self {
        Self { reader, buffer: Vec::new(), start: 0, offset, left: length, ended: false, line: 1, column: 1 }
    }

    /// The unconsumed text in memory.
    pub fn text(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Offset of `text` in the whole.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Line and column of the start of `text`, from 1.
    pub fn place(&self) -> (usize, usize) {
        (self.line, self.column)
    }

    /// Whether `text` reaches the end.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Reads more text.
    pub fn grow(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        // Doubling: a document that does not fit is inspected again from its start.
        let piece = PIECE.max(self.buffer.len()) as u64;
        let read = (&mut self.reader).take(piece.min(self.left)).read_to_end(&mut self.buffer)? as u64;
        self.left -= read;
        self.ended = read == 0 || self.left == 0;
        Ok(())
    }

    /// Consumes the first `length` bytes of `text`.
    pub fn consume(&mut self, length: usize) {
        let gone = &self.buffer[self.start..self.start + length];
        let lines = memchr::memchr_iter(b'\n', gone).count();
        self.column = match memchr::memrchr(b'\n', gone) {
            Some(last) => gone.len() - last,
            None => self.column + gone.len(),
        };
        self.line += lines;
        self.start += length;
        self.offset += length as u64;
    }

    /// Skips white space, and a byte order mark at the very start; false at the end.
    pub fn skip_space(&mut self) -> io::Result<bool> {
        loop {
            if self.offset == 0 && self.text().starts_with(b"\xef\xbb\xbf") {
                self.consume(3);
                self.column = 1;
            }
            let space = self.text().iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            self.consume(space);
            if !self.text().is_empty() && (self.offset > 0 || self.text().len() >= 3 || self.ended) {
                return Ok(true);
            }
            if self.ended {
                return Ok(false);
            }
            self.grow()?;
        }
    }

    /// Skips to the next line that starts with `{`: in JSON lines every document does, in indented JSON only
    /// documents do. False without such a line.
    pub fn skip_to_next_object(&mut self) -> io::Result<bool> {
        loop {
            if let Some(position) = memchr::memmem::find(self.text(), b"\n{") {
                self.consume(position + 1);
                return Ok(true);
            }
            // The last byte may be the first half of the pattern.
            self.consume(self.text().len().saturating_sub(1));
            if self.ended {
                return Ok(false);
            }
            self.grow()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_are_counted_from_one() {
        let mut window = Window::new(&b"\xef\xbb\xbf  a\nbc\n{d"[..], 0, 100);
        assert!(window.skip_space().unwrap());
        assert_eq!((window.place(), window.text()[0]), ((1, 3), b'a'));
        window.consume(3);
        assert_eq!((window.place(), window.offset()), ((2, 2), 8));
        assert!(window.skip_to_next_object().unwrap());
        assert_eq!((window.place(), window.text()), ((3, 1), &b"{d"[..]));
        assert!(!window.skip_to_next_object().unwrap());
    }

    #[test]
    fn it_ends_at_its_limit() {
        let mut window = Window::new(&b"   abcdef"[..], 0, 5);
        assert!(window.skip_space().unwrap());
        assert_eq!(window.text(), b"ab");
        assert!(window.ended());
    }
}
