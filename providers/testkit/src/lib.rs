//! reconciled-testkit
