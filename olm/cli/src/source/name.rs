//! Parses the name of a source.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use olm_catalog_sources::Source;
use olm_ops::catalogs::{SourceRefusal, SourceText};

use crate::exit::{Code, Failure};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// A local folder that is not an OCI layout.
    Folder(PathBuf),
    /// A local file with documents.
    File(PathBuf),
    /// Documents on standard input.
    Stdin,
    /// A source that has to be fetched or unpacked.
    Source(Source),
}

impl Named {
    /// Parses a name.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let is_image = match SourceText::of(text) {
            SourceText::Empty => return Err(SourceRefusal::Empty.into()),
            SourceText::Stdin => return Ok(Self::Stdin),
            SourceText::Layout(rest) => return layout(rest),
            SourceText::Image(reference) => {
                return Ok(Self::Source(Source::Image { reference: reference.to_owned() }));
            }
            SourceText::Grpc(address) => {
                return Ok(Self::Source(Source::Grpc { address: address.to_owned() }));
            }
            SourceText::Http(url) => return Ok(Self::Source(Source::Http { url: url.to_owned() })),
            SourceText::Scheme(scheme) => return Err(SourceRefusal::Scheme(scheme.to_owned()).into()),
            SourceText::Bare { is_image } => is_image,
        };
        let path = PathBuf::from(text);
        match std::fs::metadata(&path) {
            Ok(found) if found.is_dir() => Ok(Self::folder(path)),
            Ok(found) if !found.is_file() => {
                Err(Failure::new(Code::Usage, format!("{text} is neither a file nor a folder"))
                    .hint("use `-` to read standard input"))
            }
            Ok(_) if is_packed(&path) => Ok(Self::Source(Source::Tarball { path })),
            Ok(_) => Ok(Self::File(path)),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                Err(Failure::new(Code::Unexpected, format!("failed to read {text}: {error}")))
            }
            Err(_) if is_image => Ok(Self::Source(Source::Image { reference: text.to_owned() })),
            Err(error) => Err(absent(text, &error)),
        }
    }

    fn folder(path: PathBuf) -> Self {
        if path.join("oci-layout").is_file() && path.join("index.json").is_file() {
            return Self::Source(Source::OciLayout { path, reference: None });
        }
        Self::Folder(path)
    }

    /// The name for messages.
    pub fn shown(&self) -> String {
        match self {
            Self::Folder(path) | Self::File(path) => path.display().to_string(),
            Self::Stdin => "standard input".to_owned(),
            Self::Source(source) => source.to_string(),
        }
    }
}

fn layout(rest: &str) -> Result<Named, Failure> {
    // A colon may be part of the folder's name.
    let (dir, reference) = match rest.split_once(':') {
        Some((dir, reference)) if !Path::new(rest).is_dir() => (dir, Some(reference.to_owned())),
        _ => (rest, None),
    };
    let path = PathBuf::from(dir);
    if !path.join("index.json").is_file() {
        return Err(Failure::new(
            Code::NotFound,
            format!("{dir} is not an OCI layout: index.json is missing"),
        ));
    }
    Ok(Named::Source(Source::OciLayout { path, reference }))
}

fn absent(text: &str, error: &std::io::Error) -> Failure {
    let missing = error.kind() == std::io::ErrorKind::NotFound;
    let code = if missing { Code::NotFound } else { Code::Unexpected };
    let what = if missing {
        format!("file or folder {text} not found")
    } else {
        format!("failed to read {text}: {error}")
    };
    let failure = Failure::new(code, what);
    let looks_like_a_path =
        text.starts_with(['.', '/', '~']) || text.ends_with(".yaml") || text.ends_with(".json");
    if missing && !looks_like_a_path {
        return failure.hint(format!("use docker://{text} for an image"));
    }
    failure
}

fn is_packed(path: &Path) -> bool {
    const GZIP: [u8; 2] = [0x1f, 0x8b];
    const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    /// Offset of the magic in a tar header.
    const TAR: std::ops::Range<usize> = 257..262;
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(512).read_to_end(&mut start));
    read.is_ok() && (start.starts_with(&GZIP) || start.starts_with(&ZSTD) || start.get(TAR) == Some(b"ustar"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_images_and_addresses_are_distinguished() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("catalog.yaml");
        std::fs::write(&file, "schema: olm.package\n").unwrap();
        let packed = dir.path().join("catalog.json.gz");
        std::fs::write(&packed, [0x1f, 0x8b, 8]).unwrap();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        assert_eq!(Named::parse(&text(dir.path())).unwrap(), Named::Folder(dir.path().into()));
        assert_eq!(Named::parse(&text(&file)).unwrap(), Named::File(file));
        assert_eq!(Named::parse(&text(&packed)).unwrap(), Named::Source(Source::Tarball { path: packed }));
        assert_eq!(Named::parse("-").unwrap(), Named::Stdin);
        for image in ["quay.io/a/b:v1", "localhost:5000/a", "localhost/a"] {
            let reference = image.to_owned();
            assert_eq!(Named::parse(image).unwrap(), Named::Source(Source::Image { reference }));
        }
        let reference = "etcd".to_owned();
        assert_eq!(Named::parse("docker://etcd").unwrap(), Named::Source(Source::Image { reference }));
        let address = "localhost:50051".to_owned();
        assert_eq!(Named::parse("grpc://localhost:50051").unwrap(), Named::Source(Source::Grpc { address }));
    }

    #[test]
    fn a_mistyped_path_is_not_taken_for_an_image() {
        for path in
            ["catalg", "data/catalog", "./quay.io/x", "quay.io/x.yaml", "/nowhere/at/all", "../x.io/y"]
        {
            let failure = Named::parse(path).unwrap_err();
            assert_eq!(failure.code, Code::NotFound, "{path}");
            assert!(failure.message.contains(path), "{}", failure.message);
        }
        assert_eq!(Named::parse("catalg").unwrap_err().hints, ["use docker://catalg for an image"]);
        assert_eq!(Named::parse("ftp://x/y").unwrap_err().code, Code::Usage);
        assert_eq!(Named::parse("").unwrap_err().code, Code::Usage);
        assert_eq!(Named::parse("oci:/nowhere").unwrap_err().code, Code::NotFound);
        assert_eq!(Named::parse("/dev/null").unwrap_err().code, Code::Usage);
    }
}
