//! The image of the Deployments, as a build file for podman, docker or buildah.

use super::VERSION;
pub use super::workloads::USER;

/// The path of a program in its image, which is the image's entrypoint.
#[must_use]
pub fn entrypoint(program: &str) -> String {
    format!("/usr/local/bin/{program}")
}

/// The origin of the binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binary {
    /// Built from a checkout, which is the build's context.
    Built,
    /// Prebuilt: `olm` in the build's context, for this platform and without the dev cluster.
    Copied,
}

/// The image build file. The base image provides the C library and the certificate authorities that
/// registries are verified against; the image contains nothing else but the binary.
#[must_use]
pub fn containerfile(binary: Binary) -> String {
    let (build, copy) = match binary {
        Binary::Built => (
            "FROM rust:1-trixie AS build\n\
             WORKDIR /src\n\
             COPY . .\n\
             # The dev cluster is for trying and testing: a real cluster's image does not have it.\n\
             RUN cargo build --profile dist --locked --package olm --no-default-features\n\n",
            "COPY --from=build /src/target/dist/olm /usr/local/bin/olm\n",
        ),
        Binary::Copied => ("", "COPY olm /usr/local/bin/olm\n"),
    };
    format!(
        "# olm {VERSION}: manager and console are one program. Build and push it, then:\n\
         #   olm self install --image IMAGE\n\
         # Base images are named by tag, for Debian's current fixes; append @sha256:DIGEST to build from those that you reviewed.\n\
         {build}\
         FROM debian:trixie-slim\n\
         RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*\n\
         {copy}\
         # By number, because `runAsNonRoot` can only be checked against a number.\n\
         USER {USER}:{USER}\n\
         ENTRYPOINT [\"/usr/local/bin/olm\"]\n"
    )
}
