//! `Cargo.lock` of a project: the packages of the workspace's lock file that its dependencies reach. cargo drops
//! those that only other features of the workspace need.

use std::{collections::BTreeSet, fmt::Write as _};

use semver::{Version, VersionReq};

const WORKSPACE: &str = include_str!("../../../Cargo.lock");

/// A package of a lock file.
struct Locked<'a> {
    name: &'a str,
    version: &'a str,
    dependencies: Vec<&'a str>,
    text: &'a str,
}

fn parse(text: &str) -> Vec<Locked<'_>> {
    let value = |block: &'_ str, key: &str| -> Option<(usize, usize)> {
        let start = block.find(&format!("{key} = \""))? + key.len() + 4;
        Some((start, start + block[start..].find('"')?))
    };
    let package = |block: &'_ str| {
        let (name, version) = (value(block, "name")?, value(block, "version")?);
        Some((name, version))
    };
    let blocks = text.split("[[package]]\n").skip(1).map(str::trim_end);
    let locked = blocks.filter_map(|block| {
        let (name, version) = package(block)?;
        let list = block.split_once("dependencies = [\n").map_or("", |(_, list)| list);
        let lines = list.lines().map(str::trim).take_while(|line| *line != "]");
        let dependencies = lines.map(|line| line.trim_matches([',', '"'])).collect();
        Some(Locked {
            name: &block[name.0..name.1],
            version: &block[version.0..version.1],
            dependencies,
            text: block,
        })
    });
    locked.collect()
}

/// The place of `NAME` or `NAME VERSION`, as lock files refer to packages.
fn find(packages: &[Locked<'_>], reference: &str) -> Option<usize> {
    let mut words = reference.split(' ');
    let (name, version) = (words.next()?, words.next());
    packages
        .iter()
        .position(|package| package.name == name && version.is_none_or(|version| package.version == version))
}

/// The lock file of a package with these dependencies.
pub fn cargo_lock(name: &str, version: &str, direct: &[(String, VersionReq)]) -> String {
    of(WORKSPACE, name, version, direct)
}

fn of(workspace: &str, name: &str, version: &str, direct: &[(String, VersionReq)]) -> String {
    let packages = parse(workspace);
    let matching = |wanted: &str, accepted: &VersionReq| {
        packages.iter().position(|package| {
            let version = Version::parse(package.version);
            package.name == wanted && version.is_ok_and(|version| accepted.matches(&version))
        })
    };
    let roots: BTreeSet<usize> =
        direct.iter().filter_map(|(name, accepted)| matching(name, accepted)).collect();
    let mut reached = roots.clone();
    let mut open: Vec<usize> = roots.iter().copied().collect();
    while let Some(at) = open.pop() {
        let next = packages[at].dependencies.iter().filter_map(|reference| find(&packages, reference));
        open.extend(next.filter(|next| reached.insert(*next)));
    }
    let reference = |at: &usize| {
        let package = &packages[*at];
        let others = reached.iter().filter(|other| packages[**other].name == package.name).count();
        match others {
            1 => format!(" \"{}\",\n", package.name),
            _ => format!(" \"{} {}\",\n", package.name, package.version),
        }
    };
    let own: String = roots.iter().map(reference).collect();
    let own = format!("name = \"{name}\"\nversion = \"{version}\"\ndependencies = [\n{own}]");
    let mut blocks: Vec<(&str, &str)> =
        reached.iter().map(|at| (packages[*at].name, packages[*at].text)).collect();
    let place = blocks.partition_point(|(other, _)| *other < name);
    blocks.insert(place, (name, &own));
    let (header, _) = workspace.split_once("[[package]]").unwrap_or_default();
    let mut out = header.trim_end().to_owned() + "\n";
    for (_, text) in blocks {
        _ = write!(out, "\n[[package]]\n{text}\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "# generated\nversion = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"r\"\n\
        dependencies = [\n \"b 2.0.0\",\n \"c\",\n]\n\n[[package]]\nname = \"b\"\nversion = \"1.0.0\"\n\n\
        [[package]]\nname = \"b\"\nversion = \"2.0.0\"\n\n[[package]]\nname = \"c\"\nversion = \"0.1.0\"\n\
        dependencies = [\n \"a\",\n]\n\n[[package]]\nname = \"z\"\nversion = \"1.0.0\"\n";

    fn direct(list: &[(&str, &str)]) -> Vec<(String, VersionReq)> {
        list.iter().map(|(name, version)| ((*name).to_owned(), version.parse().unwrap())).collect()
    }

    #[test]
    fn a_lock_file_has_what_the_dependencies_reach() {
        let text = of(LOCK, "app", "0.1.0", &direct(&[("a", "1")]));
        let names: Vec<_> = parse(&text)
            .iter()
            .map(|package| (package.name, package.version))
            .map(|(n, v)| format!("{n} {v}"))
            .collect();
        assert_eq!(names, ["a 1.0.0", "app 0.1.0", "b 2.0.0", "c 0.1.0"]);
        assert!(text.starts_with("# generated\nversion = 4\n\n[[package]]\nname = \"a\"\n"), "{text}");
        assert!(
            text.contains("name = \"app\"\nversion = \"0.1.0\"\ndependencies = [\n \"a\",\n]\n"),
            "{text}"
        );
        let both = of(LOCK, "app", "0.1.0", &direct(&[("b", "1"), ("a", "1")]));
        assert!(both.contains("dependencies = [\n \"a\",\n \"b 1.0.0\",\n]"), "{both}");
    }

    #[test]
    fn the_lock_file_of_a_project_has_every_dependency_and_no_crate_of_the_workspace() {
        let direct = crate::manifest::packages();
        let text = cargo_lock("shop", "0.1.0", &direct);
        let packages = parse(&text);
        for (name, accepted) in &direct {
            let found = packages.iter().any(|package| {
                package.name == name.as_str() && accepted.matches(&Version::parse(package.version).unwrap())
            });
            assert!(found, "{name} {accepted}");
        }
        let sourceless: Vec<_> = packages
            .iter()
            .filter(|package| !package.text.contains("\nsource = "))
            .map(|package| package.name)
            .collect();
        assert_eq!(sourceless, ["shop"]);
        assert!(packages.iter().all(|package| !package.name.starts_with("aws-lc")));
        assert!(packages.len() > 100, "{}", packages.len());
    }
}
