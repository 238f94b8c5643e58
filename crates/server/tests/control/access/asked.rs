//! What the table of routes and roles asks for: objects that are made when a path names them.

use serde_json::{Value, json};

use super::client::{Controlled, ask};

/// The body of a live block.
pub(super) const WHO: &str = "{\"who\":{\"tenant\":\"{tenant}\",\"user\":\"nobody\"}}";
/// The body of an override.
pub(super) const OTHER_NUMBERS: &str =
    "{\"who\":{\"tenant\":\"{tenant}\",\"user\":\"nobody\"},\"limit\":\"tenant:{tenant}\",\"multiplier\":2}";

/// A server, and what makes the objects that are asked for.
pub(super) struct Asked {
    pub(super) server: Controlled,
    /// A token of an operator of `acme`. Restricted tokens end only what such a token has added.
    pub(super) operator: String,
}

impl Asked {
    /// The id of what a POST creates, by whoever may create it for this tenant.
    fn created(&self, path: &str, tenant: &str, body: &str) -> String {
        let creator = if tenant == "shop" { &self.operator } else { &self.server.admin };
        let body = serde_json::from_str(&body.replace("{tenant}", tenant)).expect("it is JSON");
        id_of(&self.server.call(creator, "POST", path, Some(body)).expect(201).json())
    }

    /// A candidate with the policy in force, so that promoting it changes nothing.
    fn candidate(&self) -> String {
        let bearer = format!("Bearer {}", self.server.admin);
        let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/yaml")];
        let policy = self.server.call(&self.server.admin, "GET", "/policy", None).expect(200).body;
        id_of(&ask(self.server.address(), "POST", "/api/v1/candidates", &headers, &policy).expect(201).json())
    }

    /// A penalty: one that is left, or one of a user who has had none, since a window has one offence of each at most.
    fn penalty(&self) -> String {
        let burst = json!({ "name": "burst", "key": ["user"], "window": "1h", "threshold": 1 });
        let added = self.server.call(&self.server.admin, "POST", "/bursts", Some(burst));
        assert!([201, 409].contains(&added.status), "it is new or there: {added:?}");
        let listed = || self.server.call(&self.server.admin, "GET", "/penalties", None).expect(200).json();
        let mut users = 0_u32;
        loop {
            if let Some(penalty) = listed()["items"].as_array().and_then(|items| items.first()) {
                return id_of(penalty);
            }
            assert!(users < 100, "two requests of one user are a burst");
            let (headers, body) =
                ([("Content-Type", "application/json")], json!({ "user": format!("hasty-{users}") }));
            for _ in 0..2 {
                ask(self.server.server.socket("http"), "POST", "/v1/check", &headers, &body.to_string());
            }
            users += 1;
        }
    }

    /// The name of an entry of the policy in this collection, which is made if it is not there.
    fn entry(&self, collection: &str, tenant: &str) -> String {
        let entry = match collection {
            "limits" => json!({ "name": "listed", "key": ["header:x-listed"], "sustained": { "rate": 5 } }),
            "routes" => json!({ "id": "listed", "path": "/listed", "cost": 1 }),
            "upstreams" => json!({ "name": "listed", "hosts": ["listed.example.com"] }),
            "bursts" => {
                json!({ "name": "listed-burst", "key": ["header:x-listed"], "window": "1h", "threshold": 9 })
            }
            "tenants" => json!({ "id": format!("below-{tenant}"), "parent": tenant }),
            _ => json!({ "id": "listed", "user": "listed" }),
        };
        let added =
            self.server.call(&self.server.admin, "POST", &format!("/{collection}"), Some(entry.clone()));
        assert!([201, 409].contains(&added.status), "it is new or there: {added:?}");
        entry.get("name").or(entry.get("id")).and_then(Value::as_str).expect("it has a name").to_owned()
    }

    /// A path of the table for a tenant, with a new object if it names one.
    pub(super) fn path(&self, path: &str, tenant: &str) -> String {
        let filled = path.replace("{tenant}", tenant);
        let Some((_, rest)) = filled.split_once('{') else { return filled };
        let (kind, _) = rest.split_once('}').expect("a place in braces");
        let id = match kind {
            "token" => self.server.token("viewer", Some(tenant)).0,
            "live" => self.created("/keys/block", tenant, WHO),
            "override" => self.created("/overrides", tenant, OTHER_NUMBERS),
            "penalty" => self.penalty(),
            "candidate" => self.candidate(),
            "child" => self.entry("tenants", tenant),
            "limits" | "routes" | "upstreams" | "allow" | "block" | "bursts" => self.entry(kind, tenant),
            _ => panic!("{path}: what is {kind}?"),
        };
        filled.replace(&format!("{{{kind}}}"), &id)
    }
}

fn id_of(object: &Value) -> String {
    object["id"].as_str().expect("it has an id").to_owned()
}
