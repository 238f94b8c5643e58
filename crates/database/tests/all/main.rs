//! One suite on SQLite and on a real PostgreSQL.

#[path = "../support/postgres.rs"]
mod postgres;
#[macro_use]
mod support;

mod answers;
mod audit;
mod backup;
mod bounds;
mod candidates;
mod changes;
mod history;
mod killed;
mod live;
mod nodes;
mod open;
mod postgres_server;
mod records;
mod retention;
mod tampering;
mod tokens;
mod trust;
mod unavailable;
mod versions;
