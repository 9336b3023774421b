//! `olm catalog mirror`.
pub async fn run(_args: crate::args::MirrorArgs) -> Result<(), crate::exit::Failure> { Ok(()) }
