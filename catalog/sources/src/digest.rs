//! Content digests in the notation of registries: `sha256:…`.

use std::{fmt, io::Read, str::FromStr};

use olm_catalog::hex;
use sha2::Digest as _;

/// A digest of an algorithm registered in the OCI image specification.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Digest {
    algorithm: Algorithm,
    hex: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Algorithm {
    Sha256,
    Sha512,
}

impl Algorithm {
    const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    const fn hex_length(self) -> usize {
        match self {
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }
}

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::sha256();
        hasher.update(bytes);
        hasher.finish()
    }

    pub fn of_reader(mut reader: impl Read) -> std::io::Result<Self> {
        Hasher::sha256().read_all(&mut reader)
    }

    /// A hasher of the same algorithm.
    pub fn hasher(&self) -> Hasher {
        match self.algorithm {
            Algorithm::Sha256 => Hasher::sha256(),
            Algorithm::Sha512 => Hasher(State::Sha512(sha2::Sha512::new())),
        }
    }

    /// `sha256`, a directory of an OCI layout.
    pub fn algorithm(&self) -> &'static str {
        self.algorithm.name()
    }

    /// The hexadecimal part: only digits and a to f, so it is safe as a file name.
    pub fn hex(&self) -> &str {
        &self.hex
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.name(), self.hex)
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, hex) = text.split_once(':').ok_or("expected sha256: and 64 hexadecimal digits")?;
        let algorithm = [Algorithm::Sha256, Algorithm::Sha512]
            .into_iter()
            .find(|algorithm| algorithm.name() == name)
            .ok_or_else(|| format!("unknown digest algorithm {name:?}, expected sha256 or sha512"))?;
        let length = algorithm.hex_length();
        if hex.len() != length || !hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(format!("invalid {name} digest, expected {length} lower-case hexadecimal digits"));
        }
        Ok(Self { algorithm, hex: hex.to_owned() })
    }
}

impl<'de> serde::Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

pub(crate) struct Hasher(State);

enum State {
    Sha256(sha2::Sha256),
    Sha512(sha2::Sha512),
}

impl Hasher {
    pub fn sha256() -> Self {
        Self(State::Sha256(sha2::Sha256::new()))
    }

    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Sha256(state) => state.update(bytes),
            State::Sha512(state) => state.update(bytes),
        }
    }

    pub fn read_all(mut self, reader: &mut impl Read) -> std::io::Result<Digest> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(self.finish()),
                n => self.update(&buffer[..n]),
            }
        }
    }

    pub fn finish(self) -> Digest {
        match self.0 {
            State::Sha256(state) => Digest { algorithm: Algorithm::Sha256, hex: hex(&state.finalize()) },
            State::Sha512(state) => Digest { algorithm: Algorithm::Sha512, hex: hex(&state.finalize()) },
        }
    }
}
