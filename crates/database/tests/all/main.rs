//! One suite on SQLite and on a real PostgreSQL.

#[macro_use]
mod support;

mod answers;
mod audit;
mod backup;
mod changes;
mod history;
mod killed;
mod nodes;
mod open;
mod postgres_server;
mod retention;
mod tampering;
mod tokens;
mod unavailable;
mod versions;
