//! Plans that run against real etcd processes.

mod real_etcd;
mod real_secured;
