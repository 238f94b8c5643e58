//! The pieces an engine for a whole policy is made of.
