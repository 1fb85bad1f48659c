//! Shares cpus among real commands by weight.
