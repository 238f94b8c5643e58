//! Requests that are repeated with the same `Idempotency-Key`.

use super::fleet_node::{FleetNode, data_folder};
use crate::support::home::Home;

const TOKEN: &str = "{\"role\":\"viewer\",\"description\":\"dashboard\"}";

#[test]
fn a_token_is_created_once_and_never_shown_again() {
    let home = Home::new();
    let node = FleetNode::start(&["--data", &data_folder(&home)]);
    let create = |key: &str, body: &str| {
        node.send("POST /tokens", "application/json", &[("Idempotency-Key", key)], body)
    };
    let created = create("one", TOKEN).expect(201).json();
    let (id, secret) = (created["id"].as_str().expect("an id"), created["token"].as_str().expect("a token"));
    let repeated = create("one", TOKEN).expect(409);
    assert!(repeated.body.contains(id) && !repeated.body.contains(secret), "{}", repeated.body);
    let other = create("one", "{\"role\":\"admin\"}").expect(409);
    assert!(other.body.contains("used for another request"), "{}", other.body);
    create("two", TOKEN).expect(201);
    let tokens = node.read("/tokens?q=dashboard").json();
    assert_eq!(tokens["items"].as_array().map(Vec::len), Some(2), "{tokens}");
    // A request that is refused has used no key.
    create("three", "{\"role\":\"king\"}").expect(422);
    create("three", TOKEN).expect(201);
    // Neither the table nor the journal has a secret.
    for file in ["tidegate.db", "tidegate.db-wal"] {
        let bytes = std::fs::read(home.path("data").join(file)).expect("it is there");
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(secret) && !text.contains("tga_"), "{file} has no token");
    }
}
