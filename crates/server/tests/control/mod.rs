//! The control plane: the admin API as its clients see it.

mod access_table;
mod client;
mod listener;
mod logins;
mod oidc;
mod secrets;
mod tokens;
