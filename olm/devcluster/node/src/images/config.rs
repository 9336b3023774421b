//! The configuration of an image, and the user of its containers.

use std::{fs::File, io::Read as _, path::Path};

use serde::Deserialize;
use serde_json::Value;

use crate::in_root;

/// How containers of an image run by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ContainerConfig {
    pub(crate) entrypoint: Vec<String>,
    pub(crate) cmd: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) working_dir: String,
    /// `USER[:GROUP]`, names or numbers; empty for root.
    pub(crate) user: String,
}

impl ContainerConfig {
    pub(crate) fn parse(config: &Value) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Document {
            #[serde(default)]
            config: Option<Inner>,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "PascalCase", default)]
        struct Inner {
            user: Option<String>,
            env: Option<Vec<String>>,
            entrypoint: Option<Vec<String>>,
            cmd: Option<Vec<String>>,
            working_dir: Option<String>,
        }
        let inner = Document::deserialize(config)?.config.unwrap_or_default();
        let variable = |text: String| {
            let (name, value) = text.split_once('=').unwrap_or((&text, ""));
            (name.to_owned(), value.to_owned())
        };
        Ok(Self {
            entrypoint: inner.entrypoint.unwrap_or_default(),
            cmd: inner.cmd.unwrap_or_default(),
            env: inner.env.unwrap_or_default().into_iter().map(variable).collect(),
            working_dir: inner.working_dir.unwrap_or_default(),
            user: inner.user.unwrap_or_default(),
        })
    }
}

/// A user as the image defines it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ImageUser {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Further groups of the user in `/etc/group`.
    pub(crate) groups: Vec<u32>,
    pub(crate) home: Option<String>,
    /// The name, if the image names its user: `runAsNonRoot` cannot be verified for a name.
    pub(crate) name: Option<String>,
}

/// Largest `/etc/passwd` or `/etc/group` that is read.
const LARGEST: u64 = 1 << 20;

impl ImageUser {
    /// Looks up a user of an image in the root file system of the image. As in other runtimes a number needs no
    /// entry, and an empty text means root.
    pub(crate) fn find(text: &str, root: &Path) -> Result<Self, String> {
        let (passwd, groups) = (read(root, "etc/passwd"), read(root, "etc/group"));
        Self::lookup(text, &passwd, &groups)
    }

    fn lookup(text: &str, passwd: &str, group: &str) -> Result<Self, String> {
        let (user, wanted_group) = match text.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (text, None),
        };
        let user = if user.is_empty() { "0" } else { user };
        let number = user.parse::<u32>().ok();
        // name:password:uid:gid:comment:home:shell
        let entries = || passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let entry = entries().find(|entry| {
            entry.len() >= 6
                && match number {
                    Some(_) => entry[2] == user,
                    None => entry[0] == user,
                }
        });
        let mut found = match (&entry, number) {
            (Some(entry), _) => {
                let id = |text: &str| {
                    text.parse().map_err(|_| format!("malformed entry of user {user:?} in /etc/passwd"))
                };
                Self {
                    uid: id(entry[2])?,
                    gid: id(entry[3])?,
                    home: Some(entry[5].to_owned()).filter(|home| !home.is_empty()),
                    ..Self::default()
                }
            }
            (None, Some(uid)) => Self { uid, ..Self::default() },
            (None, None) => return Err(format!("the image has no user {user:?} in /etc/passwd")),
        };
        found.name = number.is_none().then(|| user.to_owned());
        // name:password:gid:members
        let groups: Vec<Vec<&str>> = group.lines().map(|line| line.split(':').collect()).collect();
        match wanted_group.filter(|group| !group.is_empty()) {
            Some(group) => {
                let named = groups.iter().find(|entry| entry.len() >= 3 && entry[0] == group);
                let id = named.map_or(group, |entry| entry[2]);
                found.gid =
                    id.parse().map_err(|_| format!("the image has no group {group:?} in /etc/group"))?;
            }
            None => {
                let name = entry.as_ref().map(|entry| entry[0]);
                let lists = |entry: &&Vec<&str>| {
                    entry.len() >= 4 && entry[3].split(',').any(|member| Some(member) == name)
                };
                found.groups =
                    groups.iter().filter(lists).filter_map(|entry| entry[2].parse().ok()).collect();
            }
        }
        Ok(found)
    }
}

/// A file of the image; empty where it is missing. A link in the image must not lead to a file of this machine.
fn read(root: &Path, path: &str) -> String {
    let mut content = Vec::new();
    if let Ok(root) = in_root::open_directory(root)
        && let Ok(file) = in_root::open_file(&root, Path::new(path))
    {
        let _ = File::from(file).take(LARGEST).read_to_end(&mut content);
    }
    // Comments in it may have another encoding.
    String::from_utf8_lossy(&content).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1001:app:/home/app:/bin/sh\nbad:x:x:0::/:\n";
    const GROUP: &str = "root:x:0:\napp:x:1001:\nextra:x:7:app,other\nalso:x:8:app\n";

    fn user(text: &str) -> Result<(u32, u32, Vec<u32>), String> {
        ImageUser::lookup(text, PASSWD, GROUP).map(|user| (user.uid, user.gid, user.groups))
    }

    #[test]
    fn users_are_names_or_numbers_with_or_without_an_entry() {
        assert_eq!(user(""), Ok((0, 0, vec![])));
        assert_eq!(user("app"), Ok((1000, 1001, vec![7, 8])));
        assert_eq!(user("1000"), Ok((1000, 1001, vec![7, 8])));
        assert_eq!(user("1000:0"), Ok((1000, 0, vec![])));
        assert_eq!(user("app:extra"), Ok((1000, 7, vec![])));
        assert_eq!(user("65532"), Ok((65532, 0, vec![])));
        assert_eq!(user("65532:65532"), Ok((65532, 65532, vec![])));
        assert!(user("mail").unwrap_err().contains("no user \"mail\""));
        assert!(user("app:none").unwrap_err().contains("no group \"none\""));
        assert!(user("bad").unwrap_err().contains("malformed entry"));
        assert_eq!(ImageUser::lookup("app", PASSWD, GROUP).unwrap().name.as_deref(), Some("app"));
        assert_eq!(ImageUser::lookup("1000", PASSWD, GROUP).unwrap().name, None);
    }

    #[test]
    fn links_of_an_image_stay_inside_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        std::fs::create_dir_all(root.join("etc")).unwrap();
        std::fs::write(directory.path().join("secret"), "evil:x:5:5::/:\n").unwrap();
        std::os::unix::fs::symlink("../../secret", root.join("etc/passwd")).unwrap();
        assert!(ImageUser::find("evil", &root).is_err());
        std::os::unix::fs::symlink("/etc/real", root.join("etc/group")).unwrap();
        std::fs::write(root.join("etc/real"), "own:x:9:\n").unwrap();
        assert_eq!(ImageUser::find("0:own", &root).unwrap().gid, 9);
        // A comment in Latin-1 hides no entry.
        std::fs::remove_file(root.join("etc/passwd")).unwrap();
        std::fs::write(root.join("etc/passwd"), b"app:x:7:8:J\xfcrgen:/:\n").unwrap();
        assert_eq!(ImageUser::find("app", &root).unwrap().uid, 7);
    }

    #[test]
    fn an_empty_configuration_is_valid() {
        assert_eq!(ContainerConfig::parse(&json!({"config": null})).unwrap(), ContainerConfig::default());
        let config = ContainerConfig::parse(&json!({"architecture": "amd64", "config": {
            "User": "app", "Env": ["A=b=c", "EMPTY"], "Cmd": ["serve"], "Entrypoint": null, "WorkingDir": "/srv",
        }}));
        let config = config.unwrap();
        assert_eq!(config.env, [("A".to_owned(), "b=c".to_owned()), ("EMPTY".to_owned(), String::new())]);
        assert_eq!((config.cmd, config.entrypoint), (vec!["serve".to_owned()], vec![]));
        assert_eq!((config.user.as_str(), config.working_dir.as_str()), ("app", "/srv"));
        assert!(ContainerConfig::parse(&json!({"config": {"Env": "A=b"}})).is_err());
    }
}
