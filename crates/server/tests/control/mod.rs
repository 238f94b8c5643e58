//! The control plane: the admin API as its clients see it.

mod access_table;
mod client;
mod fleet;
mod listener;
mod logins;
mod oidc;
mod secrets;
mod tokens;
