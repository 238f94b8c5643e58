//! The parts of the `tidegate` binary.
