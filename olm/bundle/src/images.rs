//! The images of pods.

use serde_json::Value;

/// Lists in a pod's `spec` with images, and the pointer to the reference in their items.
const REFERENCES: [(&str, &str); 4] = [
    ("initContainers", "/image"),
    ("containers", "/image"),
    ("ephemeralContainers", "/image"),
    ("volumes", "/image/reference"),
];

/// The images that a pod pulls, by its `spec`: those of all containers and of image volumes.
pub fn pulled_images(pod: &Value) -> impl Iterator<Item = &str> {
    REFERENCES
        .into_iter()
        .flat_map(move |(list, reference)| {
            let items = pod.get(list).and_then(Value::as_array).into_iter().flatten();
            items.filter_map(move |item| item.pointer(reference)?.as_str())
        })
        .filter(|image| !image.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t22_images_of_all_containers_and_of_volumes_are_pulled() {
        let pod = serde_json::json!({
            "initContainers": [{ "image": "localhost/init" }],
            "containers": [{ "image": "localhost/a" }, { "name": "without" }],
            "ephemeralContainers": [{ "image": "localhost/debug" }],
            "volumes": [{ "image": { "reference": "localhost/files" } }, { "emptyDir": {} }],
        });
        let pulled: Vec<_> = pulled_images(&pod).collect();
        assert_eq!(pulled, ["localhost/init", "localhost/a", "localhost/debug", "localhost/files"]);
    }
}
