//! SIGINT and SIGTERM as an event of a thread, so that what was made can be removed.

use std::io;
use std::mem;
use std::ptr;
use std::thread;

/// Calls `at_signal` with the number of the first SIGINT, SIGTERM or SIGHUP, on a thread of its own. Call it before
/// any other thread is started: they inherit that these signals are not for them.
///
/// # Errors
/// When the system gives no thread or takes no mask.
pub fn on_end(at_signal: impl FnOnce(i32) + Send + 'static) -> io::Result<()> {
    // SAFETY: all zeros is a valid set of signals; `sigemptyset` and `sigaddset` write only to it.
    let signals = unsafe {
        let mut signals: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut signals);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::sigaddset(&raw mut signals, signal);
        }
        signals
    };
    // SAFETY: `signals` is a whole set; the mask that was is not asked for.
    let status = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, ptr::null_mut()) };
    if status != 0 {
        return Err(io::Error::from_raw_os_error(status));
    }
    let wait = move || {
        let mut signal = 0;
        // SAFETY: both live through the call, and these signals are blocked in every thread.
        let status = unsafe { libc::sigwait(&raw const signals, &raw mut signal) };
        if status == 0 {
            at_signal(signal);
        }
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(wait)
        .map(drop)
}
