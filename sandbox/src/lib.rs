//! Kernel confinement of child processes.
