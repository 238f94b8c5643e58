//! The control plane: the admin API as its clients see it.

mod access;
