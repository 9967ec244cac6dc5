//! reconciled-provider
