//! reconciled-dns
