//! Ports for the servers that tests start.

use std::{
    net::{TcpListener, UdpSocket},
    ops::Range,
    sync::atomic::{AtomicU32, Ordering},
};

/// Which of the ports below those that the kernel chooses from (32768 on, ip(7)) are whose: somebody may run the tests of several
/// packages beside each other, and a port may be asked for long before anybody listens there.
pub const PROGRAM: Range<u16> = 10_000..16_000;
/// See [`PROGRAM`].
pub const DNS: Range<u16> = 16_000..20_000;
/// See [`PROGRAM`].
pub const CERTIFICATES: Range<u16> = 20_000..23_000;
/// See [`PROGRAM`].
pub const CLOUD: Range<u16> = 23_000..24_000;
/// See [`PROGRAM`].
pub const LOCAL: Range<u16> = 24_000..32_000;

/// A port where nobody listens, that of tcpmux (RFC 1078). One that a listener had a moment ago is none: a process that another
/// test starts has that listener too, until it has become its program.
pub const NOBODY: u16 = 1;

/// A port of `range` that nobody has for TCP or UDP: the first of `step` in a row of which no other is given out, as long as the
/// range lasts.
///
/// # Panics
/// When `range` has no place for a step.
pub fn free(range: Range<u16>, step: u16) -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let places = u32::from(range.len() as u16 / step);
    loop {
        let number = std::process::id().wrapping_mul(97).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = range.start + (number % places) as u16 * step;
        let address = ("127.0.0.1", port);
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return port;
        }
    }
}
