//! Archives of images that every runtime loads: the OCI layout, and for Docker before version 25 its own
//! `manifest.json`. Both name the same blobs.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::Path,
};

use serde_json::{Value, json};

use super::{
    layer::header,
    layout::{Descriptor, Index, Layout, LayoutError, VERSION, failed, names},
    program::Image,
};

/// Writes images of a layout into an archive, atomically. The same images give the same bytes.
pub fn archive(layout: &Layout, images: &[Image], to: &Path) -> Result<(), LayoutError> {
    let partial = to.with_extension(format!("partial-{}", std::process::id()));
    let written = File::create(&partial)
        .map_err(failed("write", to))
        .and_then(|file| write(layout, images, file, to))
        .and_then(|()| fs::rename(&partial, to).map_err(failed("write", to)));
    written.inspect_err(|_| {
        // The first error is the one to report.
        let _ = fs::remove_file(&partial);
    })
}

/// Writes the file that becomes `to`.
fn write(layout: &Layout, images: &[Image], file: File, to: &Path) -> Result<(), LayoutError> {
    let mut tar = tar::Builder::new(BufWriter::new(file));
    let entries = images.iter().flat_map(|image| {
        image.names.iter().map(|name| Descriptor { annotations: names(name), ..image.manifest.clone() })
    });
    let index = json!(Index::new(entries.collect())).to_string();
    let docker = Value::from_iter(images.iter().filter_map(docker)).to_string();
    for (name, text) in
        [("oci-layout", VERSION), ("index.json", index.as_str()), ("manifest.json", docker.as_str())]
    {
        let mut header = header(tar::EntryType::Regular, 0o644, text.len() as u64);
        tar.append_data(&mut header, name, text.as_bytes()).map_err(failed("write", to))?;
    }
    for folder in ["blobs", "blobs/sha256"] {
        let mut header = header(tar::EntryType::Directory, 0o755, 0);
        tar.append_data(&mut header, folder, std::io::empty()).map_err(failed("write", to))?;
    }
    // Each blob once: images share layers.
    let blobs: BTreeMap<&str, u64> =
        images.iter().flat_map(Image::blobs).map(|blob| (blob.digest.as_str(), blob.size)).collect();
    for (digest, size) in blobs {
        let path = layout.path(digest);
        let file = File::open(&path).map_err(failed("open", &path))?;
        let mut header = header(tar::EntryType::Regular, 0o644, size);
        tar.append_data(&mut header, blob(digest), file).map_err(failed("write", to))?;
    }
    let mut file = tar.into_inner().map_err(failed("write", to))?;
    file.flush().map_err(failed("write", to))?;
    file.get_ref().sync_all().map_err(failed("write", to))
}

/// The entry of Docker's `manifest.json`, which has one platform.
fn docker(image: &Image) -> Option<Value> {
    let platform = image.main_platform()?;
    let layers: Vec<String> = platform.layers.iter().map(|layer| blob(&layer.digest)).collect();
    Some(json!({
        "Config": blob(&platform.config.digest),
        "RepoTags": image.names,
        "Layers": layers,
    }))
}

/// Path of a blob in a layout.
fn blob(digest: &str) -> String {
    format!("blobs/{}", digest.replacen(':', "/", 1))
}
