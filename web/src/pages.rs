//! One page per file: a model, which is also the JSON response, and its view.

pub(crate) mod activity;
pub(crate) mod catalog;
pub(crate) mod catalogs;
pub(crate) mod change;
pub(crate) mod components;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod doctor;
pub(crate) mod edit;
pub(crate) mod error;
pub(crate) mod help;
pub(crate) mod install;
pub(crate) mod installed;
pub(crate) mod instance;
pub(crate) mod instances;
pub(crate) mod login;
pub(crate) mod openid;
pub(crate) mod operator;
pub(crate) mod package;
pub(crate) mod review;
pub(crate) mod rollback;
pub(crate) mod uninstall;
pub(crate) mod updates;
pub(crate) mod versions;
