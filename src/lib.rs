//! reconciled
