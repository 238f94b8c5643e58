//! Who may use the admin API: tokens, roles, tenants, sessions, and the listener.

mod asked;
pub(super) mod client;
mod hidden;
mod listener;
mod logins;
mod oidc;
mod secrets;
mod table;
mod tokens;
